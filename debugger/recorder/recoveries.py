"""Carries out what people decided on hand-overs that do not go on: within its bounds, and once."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from debugger.recorder.client import GateUnreachable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from debugger.recorder.handoffs import Delegation, Handoffs, Work

_REDELIVER: Final = "redeliver"
_DELIVERY_S: Final = 10.0


class RecoveryRefused(Exception):
    """A decision is not carried out here; `rule` says why.

    `not_a_redelivery`, `another_run`, `operation_unknown` (no attempt at it was made from this home),
    `attempt_made`, `expired`, `not_open` (the server offers it no more).
    """

    def __init__(self, rule: str) -> None:
        super().__init__(f"recovery: {rule}")
        self.rule = rule


@dataclass(frozen=True, slots=True)
class Recovery:
    """A decision that may be carried out: attempt `attempt` of at most `attempts`, before `until`."""

    run: str
    operation: str
    """The operation's keyed digest."""
    action: str
    """`redeliver`, `route_wait` or `ask_for_artifact`; the server carries the others out itself."""
    attempt: int
    attempts: int
    decided_at: datetime
    until: datetime | None
    owner: str | None
    """Whom a wait was routed to."""

    @property
    def limit(self) -> timedelta | None:
        """How long the decision holds from when it was made, or None where no time bounds it."""
        return None if self.until is None else self.until - self.decided_at

    @property
    def mark(self) -> str:
        """What tells it from every other decision on the operation."""
        return f"{self.attempt}@{self.decided_at.isoformat()}"

    def is_open(self, now: datetime) -> bool:
        """Whether its time is not over."""
        return self.until is None or now < self.until

    @classmethod
    def of(cls, run: str, said: "Mapping[str, Any]") -> "Recovery":
        """Read one of the server's answers."""
        until = said["until"]
        return cls(
            run,
            said["operation"],
            said["action"],
            int(said["attempt"]),
            int(said["attempts"]),
            datetime.fromisoformat(said["decided_at"]),
            None if until is None else datetime.fromisoformat(until),
            said["owner"],
        )


def open_recoveries(book: "Handoffs") -> list[Recovery]:
    """Return the decisions on a run that may be carried out now, the oldest first.

    What this home has written is delivered before: else the server would offer what was done already. Raises
    GateUnreachable where that does not succeed, and GateRefused for a token without the scope `read`.
    """
    record = book.record
    if not record.recorder.flush(_DELIVERY_S):
        raise GateUnreachable("receipts wait")
    said = record.recorder.client.recoveries(record.run)
    try:
        found = [Recovery.of(record.run, each) for each in said]
    except (KeyError, TypeError, ValueError):
        raise GateUnreachable("not our server's answer") from None
    now = datetime.now(UTC)
    return sorted((each for each in found if each.is_open(now)), key=lambda each: each.decided_at)


def redeliver(book: "Handoffs", recovery: Recovery) -> "Delegation":
    """Give the operation to its last receiver again, as a new attempt, where that is what was decided.

    The decision is looked for again: one that the server offers no more is not carried out. Raises
    RecoveryRefused, and what `open_recoveries` raises.
    """
    _check(book, recovery)
    if recovery not in open_recoveries(book):
        raise RecoveryRefused("not_open")
    with book.guard:
        work = _check(book, recovery)
        last = book.memory.attempts(recovery.operation, recovery.run)[-1]
        return work.delegate(last.receiver, by=last.sender, recovery=recovery.mark)


def _check(book: "Handoffs", recovery: Recovery) -> "Work":
    """Return the operation of a decision that this home may carry out. Raises RecoveryRefused."""
    if recovery.action != _REDELIVER:
        raise RecoveryRefused("not_a_redelivery")
    if recovery.run != book.record.run:
        raise RecoveryRefused("another_run")
    work = book.known(recovery.operation)
    if work is None:
        raise RecoveryRefused("operation_unknown")
    attempts = book.memory.attempts(recovery.operation, recovery.run)
    if any(each.recovery == recovery.mark for each in attempts):
        raise RecoveryRefused("attempt_made")
    if not recovery.is_open(datetime.now(UTC)):
        raise RecoveryRefused("expired")
    return work
