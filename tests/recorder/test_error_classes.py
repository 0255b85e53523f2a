"""Why a step failed or waits: rows that were overcome stay in the store, and say nothing of it any more."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing

import msgpack
import pytest

from branches.evidence.langgraph_tasks import (
    ERROR_INDEX,
    INTERRUPT_INDEX,
    RESUME_INDEX,
    error_classes,
    unfinished_tasks,
)

RAISED, ASKED, ANSWERED, DONE = ERROR_INDEX, INTERRUPT_INDEX, RESUME_INDEX, 0
UNCLAIMED = "00000000-0000-0000-0000-000000000000"


@pytest.fixture
def store() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(
            "CREATE TABLE writes (thread_id, checkpoint_ns, checkpoint_id, task_id, idx, channel, type, value"
            ", PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id, task_id, idx))"
        )
        yield connection


def write(store: sqlite3.Connection, task: str, index: int, value: str = "") -> None:
    """Write a row as the runtime does: one of the same index is replaced."""
    row = ("t", "", "c", task, index, "", "msgpack", msgpack.packb(value))
    store.execute("INSERT OR REPLACE INTO writes VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)


@pytest.mark.parametrize(
    ("raised", "classes"),
    [
        (["TimeoutError('x')", "CancelledError()"], {"timeout"}),
        (["CancelledError()", "ValueError('x')"], {"error"}),
        (["CancelledError()"], {"error"}),
        (["TimeoutError('x')", "ValueError('x')"], {"timeout", "error"}),
        (["ReadTimeout('x')"], {"timeout"}),
    ],
)
def test_a_cancelled_task_counts_only_where_nothing_else_failed(
    store: sqlite3.Connection, raised: list[str], classes: set[str]
) -> None:
    tasks = [f"task{number}" for number in range(len(raised))]
    for task, text in zip(tasks, raised, strict=True):
        write(store, task, ERROR_INDEX, text)
    assert error_classes(store, "t", "c", tasks) == classes


@pytest.mark.parametrize(
    ("rows", "waits", "failed"),
    [
        ([ASKED], True, False),
        ([RAISED], False, True),
        ([RAISED, DONE], False, False),
        # An error, or a neighbour's, that was overcome: the question that came after it counts.
        ([RAISED, ASKED], True, False),
        ([RAISED, ASKED, ANSWERED], True, False),
        ([RAISED, ASKED, ANSWERED, ASKED], True, False),
        ([ASKED, ANSWERED, RAISED], False, True),
        # It raised in its second run before it asked anew.
        ([ASKED, RAISED], False, True),
        ([ASKED, ANSWERED, RAISED, ASKED], True, False),
        ([ASKED, ANSWERED, RAISED, ASKED, RAISED], False, True),
        ([ASKED, ANSWERED, RAISED, DONE], False, False),
    ],
)
def test_what_a_task_did_last_is_where_it_stands(
    store: sqlite3.Connection, rows: Sequence[int], waits: bool, failed: bool
) -> None:
    write(store, "neighbour", DONE)
    for index in rows:
        write(store, "task", index)
    found = unfinished_tasks(store, "t", "c")
    assert (found.waiting, found.failed) == (("task",) if waits else (), ("task",) if failed else ())


def test_an_answer_that_no_task_has_taken_yet_ends_the_wait(store: sqlite3.Connection) -> None:
    write(store, "task", ASKED)
    write(store, UNCLAIMED, ANSWERED)
    assert unfinished_tasks(store, "t", "c").waiting == ()
