"""A compiled graph without its ways out, for the time in which its routers are asked again."""

from collections.abc import Iterable
from copy import deepcopy
from typing import Any, Final

from langgraph.runtime import Runtime
from langgraph.store.base import BaseStore, GetOp, ListNamespacesOp, Op, Result, SearchOp

from debugger.recorder.rehearsal import ROUTER_WRITES_STORE, Attempts

# Under this name the runtime keeps what `get_store()` and a router's `runtime` are read from.
_RUNTIME: Final = "__pregel_runtime"


class StoreShut(RuntimeError):
    """A router that was asked again tried to write to the long-term store: nothing was written."""


class ReadStore(BaseStore):
    """Another store, to read from only: not even the time to live of what is read is lengthened."""

    def __init__(self, store: BaseStore, attempts: Attempts) -> None:
        self._store = store
        self._attempts = attempts
        self.supports_ttl = store.supports_ttl
        self.ttl_config = store.ttl_config

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Read. Raises StoreShut when anything would be written."""
        # A store in memory gives out its own objects.
        return deepcopy(self._store.batch(self._reads(ops)))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Do the same."""
        return deepcopy(await self._store.abatch(self._reads(ops)))

    def _reads(self, ops: Iterable[Op]) -> list[Op]:
        reads: list[Op] = []
        for op in ops:
            if isinstance(op, (GetOp, SearchOp)):
                reads.append(op._replace(refresh_ttl=False))
            elif isinstance(op, ListNamespacesOp):
                reads.append(op)
            else:
                self._attempts.rule = self._attempts.rule or ROUTER_WRITES_STORE
                raise StoreShut("the store cannot be written here")
        return reads


def silenced(graph: Any, attempts: Attempts) -> Any:
    """Return a copy of a graph that only reads its long-term store and tells no callback anything."""
    config = {name: value for name, value in (graph.config or {}).items() if name != "callbacks"}
    store = None if graph.store is None else ReadStore(graph.store, attempts)
    return graph.copy(update={"config": config or None, "store": store})


def with_runtime(graph: Any, config: dict[str, Any]) -> dict[str, Any]:
    """Return a configuration under which routers find the graph's store; the runtime itself names none."""
    return {**config, "configurable": {**config["configurable"], _RUNTIME: Runtime(store=graph.store)}}
