"""Imports LangGraph threads from a SQLite store: read-only, by SQL, executing nothing of what is stored."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from branches.evidence import langgraph_store
from branches.evidence.domains import CHECKPOINT, THREAD
from branches.evidence.keys import HmacKey
from branches.evidence.langgraph_store import Row
from branches.ports import JsonValue, ThreadSummary
from debugger.adapters.runtimes.langgraph_receipts import ThreadReceipts


@dataclass(frozen=True, slots=True)
class Forkability:
    """Whether a branch can be made at a checkpoint; if not, the rule and the checkpoint to use instead."""

    forkable: bool
    rule: str | None = None
    offered: str | None = None
    """HMAC of the root graph's checkpoint that the subgraph ran under."""


class LangGraphRuntime:
    """Reads runs out of a SqliteSaver's store; a live one may be read too."""

    versions: tuple[str, ...] = ("1.2.24",)

    def threads(self, store: Path, key: HmacKey) -> list[ThreadSummary]:
        """List the threads; `forkable` counts the checkpoints of the root graph. Raises StoreUnreadable."""
        connection = langgraph_store.connect(store)
        try:
            return [
                ThreadSummary(key.digest(THREAD, thread), checkpoints, forkable)
                for thread, checkpoints, forkable in langgraph_store.threads(connection)
            ]
        finally:
            connection.close()

    def receipts(
        self, store: Path, external_ref: str, key: HmacKey, run: str
    ) -> Iterator[dict[str, JsonValue]]:
        """Yield a thread's receipts, oldest first; asked again, the same facts have the same event ids.

        Raises StoreUnreadable for another kind of file, LookupError where the thread is not in it.
        """
        connection = langgraph_store.connect(store)
        try:
            thread = langgraph_store.find_thread(connection, key, external_ref)
            if thread is None:
                raise LookupError("external_ref: no such thread")
            yield from ThreadReceipts(connection, thread, key, run).all()
        finally:
            connection.close()

    def not_forkable(self, store: Path, external_ref: str, key: HmacKey) -> list[str]:
        """List the checkpoints (HMAC) at which no branch can be made: those of subgraphs."""
        connection = langgraph_store.connect(store)
        try:
            thread = langgraph_store.find_thread(connection, key, external_ref)
            rows = langgraph_store.history(connection, thread) if thread is not None else iter(())
            return [key.digest(CHECKPOINT, row.checkpoint) for row in rows if row.namespace]
        finally:
            connection.close()

    def fork_at(self, store: Path, external_ref: str, checkpoint: str, key: HmacKey) -> Forkability:
        """Say whether a branch can be made here. A replay inside a subgraph would run it whole again."""
        connection = langgraph_store.connect(store)
        try:
            thread = langgraph_store.find_thread(connection, key, external_ref)
            found = thread and langgraph_store.find_checkpoint(connection, key, thread, checkpoint)
            if not found or thread is None:
                return Forkability(False, "checkpoint_absent")
            namespace, own = found
            if not namespace:
                return Forkability(True)
            root = _root_before(langgraph_store.history(connection, thread), own)
            offered = None if root is None else key.digest(CHECKPOINT, root)
            return Forkability(False, "checkpoint_in_subgraph", offered)
        finally:
            connection.close()


def _root_before(rows: Iterator[Row], own: str) -> str | None:
    """Return the root graph's newest checkpoint before another: the ids sort by time."""
    root = None
    for row in rows:
        if row.checkpoint >= own and row.namespace:
            break
        if not row.namespace:
            root = row.checkpoint
    return root
