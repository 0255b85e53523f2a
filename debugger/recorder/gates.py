"""Whether a call is sent: what a run says of its own repeats, and what a branch's permit says."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from debugger.recorder.answers import Answers
from debugger.recorder.operations import Identified


class Hold(BaseException):
    """A person must decide first. Not an Exception: an agent's own `except Exception` must not swallow it."""

    def __init__(self, operation_key: str) -> None:
        super().__init__("effect held: a person must decide")
        self.operation_key = operation_key


class Do(StrEnum):
    """What becomes of a call."""

    SEND = "send"
    REUSE = "reuse"
    SKIP = "skip"
    HOLD = "hold"


@dataclass(frozen=True, slots=True)
class Ruling:
    """What to do, under which operation key."""

    do: Do
    operation_key: str


class OwnGate:
    """A run without a permit: its own retries and resumed steps must not do the same thing twice."""

    def __init__(self, run: str, answers: Answers) -> None:
        self._run = run
        self._answers = answers

    def rule(self, call: Identified, operation_key: str) -> Ruling:
        """Rule on a call of this run."""
        before = self._answers.call(operation_key, self._run)
        if before is None or before.answer == "refused":
            return Ruling(Do.SEND, operation_key)
        same = call.comparable and before.payload == call.payload
        if before.answer == "acknowledged" and same and self._answers.has_value(operation_key, call.payload):
            return Ruling(Do.REUSE, operation_key)
        if same and before.answer != "acknowledged":
            # No answer is known: the same operation again, under the same key, for the destination to tell.
            return Ruling(Do.SEND, operation_key)
        return Ruling(Do.HOLD, operation_key)


class PermitGate:
    """A branch: each operation known at redemption has its decision; anything else is new, and compared."""

    def __init__(
        self,
        branch: str,
        operations: Mapping[str, Mapping[str, Any]],
        issued_at: datetime,
        answers: Answers,
    ) -> None:
        self._branch = branch
        self._operations = operations
        self._issued_at = issued_at.timestamp()
        self._answers = answers
        self._own = OwnGate(branch, answers)

    def rule(self, call: Identified, operation_key: str) -> Ruling:
        """Rule on a call of this branch."""
        decision = self._operations.get(operation_key)
        if decision is None:
            return self._rule_unlisted(call, operation_key)
        if decision["do"] == "repeat":
            return self._own.rule(call, f"{operation_key}+{self._branch}")
        if not self._is_same(call, operation_key, decision.get("payload")):
            return Ruling(Do.HOLD, operation_key)
        return Ruling(Do.SKIP if decision["do"] == "skip" else Do.REUSE, operation_key)

    def _rule_unlisted(self, call: Identified, operation_key: str) -> Ruling:
        """Rule on what the permit does not name: a sibling may have done it after the permit was issued."""
        before = self._answers.call(operation_key)
        if before is not None and before.run != self._branch and before.at > self._issued_at:
            return Ruling(Do.HOLD, operation_key)
        return self._own.rule(call, operation_key)

    def _is_same(self, call: Identified, operation_key: str, payload: str | None) -> bool:
        if payload is None:
            before = self._answers.call(operation_key)
            payload = None if before is None else before.payload
        return call.comparable and payload is not None and payload == call.payload
