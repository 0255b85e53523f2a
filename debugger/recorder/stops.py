"""Why a loop stopped, taken at the boundary where it is known and never from prose."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from branches.evidence.canonical import MAX_INTEGER, canonical_bytes
from branches.evidence.domains import REF
from branches.evidence.schema import MAX_BODY_BYTES
from debugger.recorder.effects import is_timeout
from debugger.recorder.messages import is_message, tokens_of

if TYPE_CHECKING:
    from debugger.recorder.record import RunRecord

MOST_STEPS: Final = 512
MOST_TOOLS: Final = 64
_CUT: Final = frozenset({"length", "max_tokens", "MAX_TOKENS"})


def check_seconds(field: str, seconds: float | None) -> None:
    """Refuse a limit of time that a stop receipt could not carry. Raises ValueError."""
    if seconds is None:
        return
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        raise ValueError(f"{field}: not_a_number")
    if not math.isfinite(seconds):
        raise ValueError(f"{field}: not_finite")
    if not 0 <= seconds * 1000 <= MAX_INTEGER:
        raise ValueError(f"{field}: range")


def check_count(field: str, count: int | None) -> None:
    """Refuse a limit of steps that a stop receipt could not carry. Raises ValueError."""
    if count is None:
        return
    if isinstance(count, bool) or not isinstance(count, int):
        raise ValueError(f"{field}: not_a_whole_number")
    if not 1 <= count <= MAX_INTEGER:
        raise ValueError(f"{field}: range")


def in_utc(deadline: datetime | None) -> datetime | None:
    """Return a deadline in UTC; one without an offset, or that UTC has no time for, is none."""
    if deadline is None or deadline.tzinfo is None:
        return None
    try:
        return deadline.astimezone(UTC)
    except OverflowError:
        return None


class StepLimitReached(Exception):
    """The workflow's declared number of steps was taken and the graph would go on."""


class StopAsked(Exception):
    """The gate, or a person, said that the run must not take its next step."""


@dataclass(slots=True)
class StopLog:
    """Gathers what a stop receipt needs while a loop runs.

    A step is one superstep. A graph that comes to its end by itself takes one more look and finds nothing
    to do: that look is its last step, and it called no tool.
    """

    limit: int
    steps: list[dict[str, Any]] = field(default_factory=list)
    interrupts: list[Any] = field(default_factory=list)
    last_message: Any = None

    def stepped(self, tools: Sequence[str], news: Sequence[Any]) -> None:
        """Note a step: the tools called in it and the messages that came out of it."""
        counts = [count for each in news if (count := tokens_of(each, "total_tokens")) is not None]
        self.steps.append({"tools": list(tools[:MOST_TOOLS]), "tokens": sum(counts) if counts else None})
        if news:
            self.last_message = news[-1]

    def cause(self, error: BaseException | None, *, pending: bool, record: "RunRecord") -> str:
        """Return the closed word for what ended the loop."""
        if record.held is not None or (self.interrupts and error is None):
            return "approval_requested"
        if error is not None:
            return _cause_of(error, record)
        if pending:  # a stream that ends before its end without an error stands at a breakpoint for a person
            return "approval_requested"
        if is_message(self.last_message) and _was_cut(self.last_message):
            return "output_limit"
        return "natural_finish"

    def body(self, cause: str, record: "RunRecord", *, progress: bool) -> dict[str, Any]:
        """Return the stop receipt's body, with as many of the last steps as it can hold.

        A step limit is judged by the number of steps. Where some are cut off the receipt cannot bear that
        cause out, so it names none: the record then says that the cause is not known, and nothing wrong.
        Every other cause is judged by the last step or by none.
        """
        steps = self.steps
        if cause == "natural_finish":
            steps = [*steps, {"tools": [], "tokens": 0}]
        conditions = [{"type": "step_count", "n": self.limit}, {"type": "loop_finished"}]
        cut_short = cause in {"timeout", "user_abort"}
        failed = {
            tool: error
            for tool, error in record.failures().items()
            if not (cut_short and (is_timeout(error) or not isinstance(error, Exception)))
        }
        body: dict[str, Any] = {
            "policy": {"version": record.declaration.version, "conditions": conditions},
            "stop_cause": cause,
            "steps": steps[-MOST_STEPS:],
            "tool_failed": bool(failed),
            "useful_progress": progress,
            "approval": self._approval(record) if cause == "approval_requested" else None,
            "loop": "claimed" if cause == "natural_finish" else "ended",
        }
        body["steps"] = fitting(body, record)
        if cause == "step_limit" and len(body["steps"]) < len(steps):
            body["stop_cause"] = None
        return body

    def _approval(self, record: "RunRecord") -> dict[str, Any]:
        if record.held is not None:
            return {"owner": None, "deadline": None, "resume_token": record.key.digest(REF, record.held)}
        return approval_of(self.interrupts[0] if self.interrupts else None, record)


def fitting(body: Mapping[str, Any], record: "RunRecord") -> list[dict[str, Any]]:
    """Return the last steps of a body that fit into a receipt; undeclared names count as their digests."""
    covered = record.declaration.cover({"kind": "stopped", "body": body}, record.key)["body"]
    room = MAX_BODY_BYTES - len(canonical_bytes({**covered, "steps": []}))
    kept = 0
    for step in reversed(covered["steps"]):
        room -= len(canonical_bytes(step)) + 1  # and a comma
        if room < 0:
            break
        kept += 1
    return list(covered["steps"][len(covered["steps"]) - kept :])


def approval_of(interrupt: Any, record: "RunRecord") -> dict[str, Any]:
    """Return who is waited for and until when, as far as the interrupt's value says so in plain fields."""
    value = interrupt.get("value") if isinstance(interrupt, Mapping) else getattr(interrupt, "value", None)
    own = interrupt.get("id") if isinstance(interrupt, Mapping) else getattr(interrupt, "id", None)
    fields = value if isinstance(value, Mapping) else {}
    owner = fields.get("owner")
    return {
        "owner": owner if isinstance(owner, str) and owner else None,
        "deadline": _deadline(fields.get("deadline")),
        "resume_token": None if own is None else record.key.digest(REF, str(own)),
    }


def _deadline(value: Any) -> str | None:
    try:
        instant = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return None
    return None if instant.tzinfo is None else instant.isoformat()


def _cause_of(error: BaseException, record: "RunRecord") -> str:
    is_drained = type(error).__name__ == "GraphDrained"
    if isinstance(error, StopAsked) or is_drained or not isinstance(error, Exception):
        return "user_abort"
    if isinstance(error, StepLimitReached) or type(error).__name__ == "GraphRecursionError":
        return "step_limit"
    if any(error is each or error.__cause__ is each for each in record.failures().values()):
        return "timeout" if is_timeout(error) else "tool_error"
    return "timeout" if is_timeout(error) else "provider_error"


def _was_cut(message: Any) -> bool:
    said = getattr(message, "response_metadata", None)
    fields = said if isinstance(said, Mapping) else {}
    return any(fields.get(name) in _CUT for name in ("finish_reason", "stop_reason"))
