"""Where the tasks of a step stand in LangGraph's SQLite store: done, waiting for a person, or failed.

The store keeps one row for a task's error and one for its question, each overwritten by the next of its sort,
and never takes one away: an error that was overcome and a question that was answered still stand there. Which
of the two is newer is told by the rows' order alone, since writing a row anew puts it last.
"""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from branches.evidence.msgpack_read import MsgpackMalformed, Text, read_msgpack

ERROR_INDEX: Final = -1
INTERRUPT_INDEX: Final = -3
RESUME_INDEX: Final = -4

_ROOT: Final = ""
# Under this task the runtime puts an answer that no task has taken yet.
_NULL_TASK: Final = "00000000-0000-0000-0000-000000000000"
_CANCELLED: Final = "cancelled"
_INDEXES: Final = {"error": ERROR_INDEX, "asked": INTERRUPT_INDEX, "answered": RESUME_INDEX}
_STANDING: Final = (
    "max(idx >= 0), max(CASE WHEN idx = :error THEN rowid END), max(CASE WHEN idx = :asked THEN rowid END),"
    " max(idx = :answered)"
)
_TASKS: Final = (
    f"SELECT task_id, {_STANDING} FROM writes"  # noqa: S608 - a constant
    " WHERE thread_id = :thread AND checkpoint_ns = :ns AND checkpoint_id = :checkpoint"
    " GROUP BY task_id ORDER BY task_id"
)
_ASKED: Final = (
    f"SELECT checkpoint_id, task_id, {_STANDING},"  # noqa: S608 - a constant
    " max(CASE WHEN idx = :asked THEN type END), max(CASE WHEN idx = :asked THEN value END),"
    " max(CASE WHEN idx = :answered THEN type END), max(CASE WHEN idx = :answered THEN value END)"
    " FROM writes WHERE thread_id = :thread AND checkpoint_ns = :ns GROUP BY checkpoint_id, task_id"
    " HAVING max(idx IN (:asked, :answered)) ORDER BY checkpoint_id, task_id LIMIT :most"
)


@dataclass(frozen=True, slots=True)
class Unfinished:
    """The tasks of a step without a result; the ids are the runtime's own."""

    waiting: tuple[str, ...]
    failed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Standing:
    """One task at one checkpoint, as its rows tell it."""

    task: str
    is_done: bool
    has_raised: bool
    """Its last word was an error; one from before its last question was overcome."""
    has_asked: bool
    has_answer: bool

    @property
    def is_unclaimed_answer(self) -> bool:
        """Whether this is no task, but the place of an answer that waits for whichever task takes it."""
        return self.task == _NULL_TASK

    @property
    def has_failed(self) -> bool:
        """Whether it ended in an error and was not done since."""
        return self.has_raised and not self.is_done

    def waits(self, *, is_answer_unclaimed: bool) -> bool:
        """Whether a person's answer is missing. A task that got an answer and asks again still waits."""
        asks = self.has_asked and not self.is_done and not self.has_raised
        return asks and (self.has_answer or not is_answer_unclaimed)


@dataclass(frozen=True, slots=True)
class Question:
    """A task that asked a person, and the stored bytes of what was asked and answered."""

    standing: Standing
    asked: tuple[str | None, bytes | None]
    answered: tuple[str | None, bytes | None]


def unfinished_tasks(connection: sqlite3.Connection, thread: str, checkpoint: str) -> Unfinished:
    """Return the tasks at a checkpoint that wait for a person, and those that raised and were not done since.

    A question asked before a result came is answered; so is one whose answer the runtime has put down for
    whichever task takes it.
    """
    place = {"thread": thread, "ns": _ROOT, "checkpoint": checkpoint, **_INDEXES}
    found = [_standing(*row) for row in connection.execute(_TASKS, place)]
    is_unclaimed = any(each.is_unclaimed_answer and each.has_answer for each in found)
    tasks = [each for each in found if not each.is_unclaimed_answer]
    return Unfinished(
        waiting=tuple(each.task for each in tasks if each.waits(is_answer_unclaimed=is_unclaimed)),
        failed=tuple(each.task for each in tasks if each.has_failed),
    )


def questions(connection: sqlite3.Connection, thread: str, most: int) -> dict[str, list[Question]]:
    """Return by checkpoint who asked or was answered there, no more than so many in all."""
    place = {"thread": thread, "ns": _ROOT, "most": most, **_INDEXES}
    found: dict[str, list[Question]] = {}
    for checkpoint, task, *row, asked_type, asked, answered_type, answered in connection.execute(
        _ASKED, place
    ):
        question = Question(_standing(task, *row), (asked_type, asked), (answered_type, answered))
        found.setdefault(checkpoint, []).append(question)
    return found


def error_classes(
    connection: sqlite3.Connection, thread: str, checkpoint: str, tasks: Sequence[str]
) -> frozenset[str]:
    """Return the coarse classes (`timeout`, `error`) of what these tasks raised at a checkpoint.

    The runtime keeps an exception's text: only the class name in front of it is looked at. A task that was
    cancelled because another one raised says nothing of why the loop stopped.
    """
    found = connection.execute(
        "SELECT task_id, type, value FROM writes"
        " WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ? AND idx = ?",
        (thread, _ROOT, checkpoint, ERROR_INDEX),
    )
    classes = {_error_class(kind, value) for task, kind, value in found if task in tasks}
    return frozenset(classes - {_CANCELLED} or {"error"})


def _standing(
    task: str, is_done: int, raised_at: int | None, asked_at: int | None, has_answer: int
) -> Standing:
    return Standing(
        task=task,
        is_done=bool(is_done),
        has_raised=raised_at is not None and (asked_at is None or raised_at > asked_at),
        has_asked=asked_at is not None,
        has_answer=bool(has_answer),
    )


def _error_class(kind: str | None, raw: bytes | None) -> str:
    try:
        node = read_msgpack(bytes(raw)) if kind == "msgpack" and raw else None
    except MsgpackMalformed:
        node = None
    name = node.content.partition("(")[0] if isinstance(node, Text) else ""
    if name.endswith("CancelledError"):
        return _CANCELLED
    return "timeout" if name.endswith(("Timeout", "TimeoutError", "TimeoutException")) else "error"
