"""How one loop of a team ended, as the body of a stop receipt."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from branches.evidence.autogen_loop import Loop, Spent
from branches.evidence.autogen_words import UNKNOWN, Reason, done_tool_of, reason_of
from branches.evidence.canonical import canonical_bytes
from branches.evidence.schema import MAX_BODY_BYTES
from debugger.recorder.gates import Hold
from debugger.recorder.record import RunRecord
from debugger.recorder.stops import MOST_STEPS, MOST_TOOLS

_LIMITS: Final = ("step_limit", "token_budget")
_MOST_CONDITIONS: Final = 16


@dataclass(frozen=True, slots=True)
class Ended:
    """What is known at the boundary: the library's own reason, or what was raised, or what we did."""

    reason: Reason = UNKNOWN
    done_tool: str | None = None
    error: BaseException | None = None
    stopped_by_us: str | None = None
    """`timeout` or `user_abort`."""

    @classmethod
    def saying(cls, text: str | None) -> "Ended":
        """Return the end of a team that gave a result."""
        return cls(reason_of(text), done_tool_of(text))

    @property
    def cause(self) -> str | None:
        """Return the closed word; an exception is a failure, whatever was said before it."""
        if isinstance(self.error, Hold):
            return "approval_requested"
        if self.stopped_by_us is not None:
            return self.stopped_by_us
        if self.error is None:
            return self.reason.cause
        return "provider_error" if isinstance(self.error, Exception) else "user_abort"


def body_of(
    ended: Ended,
    loop: Loop,
    record: RunRecord,
    conditions: list[Mapping[str, Any]],
    *,
    approval: Mapping[str, Any] | None,
    progress: bool,
) -> dict[str, Any]:
    """Return the stop receipt's body, with as many of the last steps as it can hold."""
    cause = ended.cause
    reason = Reason(cause) if cause != ended.reason.cause else ended.reason
    is_claim = cause in {"natural_finish", "done_tool"}
    body: dict[str, Any] = {
        "policy": {"version": record.declaration.version, "conditions": conditions[:_MOST_CONDITIONS]},
        "stop_cause": cause,
        "steps": _steps(loop.steps(reason)),
        "tool_failed": bool(loop.failed_tools()),
        "useful_progress": progress and not ended.reason.stands_still,
        "approval": dict(approval or {}) if cause == "approval_requested" else None,
        "loop": "claimed" if is_claim else "ended",
    }
    if cause == "done_tool":
        body["done_tool"] = ended.done_tool
    whole = len(body["steps"])
    body["steps"] = _fitting(body, record)
    if cause in _LIMITS and len(body["steps"]) < whole:
        body["stop_cause"] = None  # fewer steps do not bear the limit out
    return body


def _steps(spent: list[Spent]) -> list[dict[str, Any]]:
    return [{"tools": list(each.tools[:MOST_TOOLS]), "tokens": each.tokens} for each in spent]


def _fitting(body: Mapping[str, Any], record: RunRecord) -> list[dict[str, Any]]:
    """Return the last steps of a body that fit into a receipt, names covered as they will be."""
    covered = record.declaration.cover({"kind": "stopped", "body": body}, record.key)["body"]
    room = MAX_BODY_BYTES - len(canonical_bytes({**covered, "steps": []}))
    kept: list[dict[str, Any]] = []
    for step in reversed(covered["steps"][-MOST_STEPS:]):
        room -= len(canonical_bytes(step)) + 1
        if room < 0:
            break
        kept.append(step)
    return kept[::-1]
