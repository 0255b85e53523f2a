"""Whether the installed LangGraph is one that was tested: its versions, and what the recorder reads of it."""

import re
import sqlite3
from contextlib import closing
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final, TypedDict

TESTED: Final = {
    "langgraph": ("1.2.24", re.compile(r"1\.2\.[0-9]{1,4}")),
    "langgraph-checkpoint": ("4.3.2", re.compile(r"4\.[0-9]{1,3}\.[0-9]{1,4}")),
    "langgraph-checkpoint-sqlite": ("3.1.2", re.compile(r"3\.1\.[0-9]{1,4}")),
}
"""Package -> what it was tested with, and which versions are taken."""
_CHECKPOINTS: Final = {
    "thread_id", "checkpoint_ns", "checkpoint_id", "parent_checkpoint_id", "type", "checkpoint", "metadata",
}  # fmt: skip
_WRITES: Final = {
    "thread_id", "checkpoint_ns", "checkpoint_id", "task_id", "idx", "channel", "type", "value",
}  # fmt: skip


class RuntimeUnknown(RuntimeError):
    """The installed LangGraph is not one that was tested, or does not behave as it did."""

    def __init__(self, subject: str, rule: str) -> None:
        tested = ", ".join(f"{name} {known}" for name, (known, _) in TESTED.items())
        super().__init__(f"{subject}: {rule} (tested with {tested})")
        self.subject = subject
        self.rule = rule


def check_runtime() -> None:
    """Check the versions, then a run of two steps. Raises RuntimeUnknown."""
    for package, (_, taken) in TESTED.items():
        try:
            installed = version(package)
        except PackageNotFoundError:
            raise RuntimeUnknown(package, "not_installed") from None
        if taken.fullmatch(installed) is None:
            raise RuntimeUnknown(package, "version_unknown")
    _self_test()


class _State(TypedDict):
    seen: str


@cache
def _self_test() -> None:
    """Run two steps and look at what they leave: a branch is copied from just these rows."""
    from langgraph.checkpoint.sqlite import SqliteSaver

    with closing(sqlite3.connect(":memory:", check_same_thread=False)) as connection:
        saver = SqliteSaver(connection)
        called_from = _run(saver)
        for table, expected in (("checkpoints", _CHECKPOINTS), ("writes", _WRITES)):
            columns = {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}
            if not columns >= expected:
                raise RuntimeUnknown(table, "form_changed")
        rows = connection.execute("SELECT checkpoint_id, parent_checkpoint_id FROM checkpoints").fetchall()
    parents = dict(rows)
    if called_from not in parents:
        # An effect that names no checkpoint could belong before or after any of them.
        raise RuntimeUnknown("execution_info.checkpoint_id", "not_a_checkpoint")
    if sum(parent is None for parent in parents.values()) != 1 or len(parents) < 2:
        raise RuntimeUnknown("parent_checkpoint_id", "no_lineage")


def _run(saver: Any) -> str | None:
    """Return the checkpoint that the second of two steps says it was called from."""
    from langgraph.graph import END, START, StateGraph
    from langgraph.runtime import get_runtime

    called: list[str | None] = []

    def second(_: _State) -> _State:
        called.append(getattr(get_runtime().execution_info, "checkpoint_id", None))
        return {"seen": "second"}

    graph: Any = StateGraph(_State)
    graph.add_node("first", lambda _: {"seen": "first"})
    graph.add_node("second", second)
    graph.add_edge(START, "first")
    graph.add_edge("first", "second")
    graph.add_edge("second", END)
    config: Any = {"configurable": {"thread_id": "self-test"}}
    graph.compile(checkpointer=saver).invoke({"seen": ""}, config, durability="sync")
    return called[0] if called else None
