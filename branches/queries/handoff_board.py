"""The board of handoffs: a card an operation, in the column of its state."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from branches.models import AuditState, Run
from branches.queries.audits import Audits
from branches.queries.chains import Link
from branches.queries.clock import parse
from branches.queries.fork_points import ForkPoint, checkpoints_before
from branches.queries.handoff_audits import NEEDS_ATTENTION, HandoffAudit
from branches.queries.recoveries import Recovered, Recoveries, Recovery
from branches.queries.words import Badge, Shape
from branches.rules.verdicts import HandoffState

_MOST_EVIDENCE: Final = 20


@dataclass(frozen=True, slots=True)
class Card:
    """One operation on the board."""

    audit: HandoffAudit
    badge: Badge
    owner: str
    deadline: datetime | None
    standing_since: datetime | None
    """Since when it is in this state, where the clock or a receipt moved it there while somebody looked."""
    recoveries: tuple[Recovery, ...]
    decided: tuple[Recovered, ...]
    shown: str
    """The digest of the newest receipt about it: what a decision is bound to."""
    fork: ForkPoint | None
    """Where a branch would begin that hands it over anew; None where nothing needs attention."""

    @property
    def operation(self) -> str:
        return self.audit.operation

    @property
    def since(self) -> datetime:
        """When its newest event was recorded."""
        return self.audit.events[-1].recorded_at

    @property
    def evidence(self) -> tuple[Link, ...]:
        """The receipts it rests on, oldest first; of very many the newest."""
        return self.audit.events[-_MOST_EVIDENCE:]

    @property
    def attempts(self) -> int:
        """How many delegation attempts there were."""
        return self.audit.attempts


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the board."""

    name: str
    title: str
    cards: tuple[Card, ...]


_COLUMNS: Final[tuple[tuple[str, str, tuple[HandoffState, ...]], ...]] = (
    ("orphaned", "Orphaned", (HandoffState.ORPHANED,)),
    ("delegated", "Delegated", (HandoffState.DELEGATED,)),
    ("working", "Working", (HandoffState.WORKING,)),
    ("waiting", "Waiting", (HandoffState.WAITING,)),
    ("stuck", "Stuck", (HandoffState.STUCK,)),
    ("uncertain", "Uncertain", (HandoffState.UNCERTAIN,)),
    ("failed", "Failed outcome", (HandoffState.FALSE_SUCCESS, HandoffState.FAILED_OUTCOME)),
    ("verified", "Confirmed by a receipt", (HandoffState.VERIFIED,)),
)
_CARD_BADGES: Final = {
    HandoffState.ORPHANED: Badge("unrouted", "unrouted", "Orphaned", Shape.DASH),
    HandoffState.DELEGATED: Badge("waiting", "waiting", "Delegated", Shape.DASH),
    HandoffState.WORKING: Badge("working", "working", "Working", Shape.OUTLINE),
    HandoffState.WAITING: Badge("waiting", "waiting", "Waiting", Shape.OUTLINE),
    HandoffState.STUCK: Badge("stuck", "stuck", "Stuck", Shape.OUTLINE),
    HandoffState.UNCERTAIN: Badge("uncertain", "uncertain", "Uncertain", Shape.DASH),
    HandoffState.FALSE_SUCCESS: Badge("claimed", "claimed", "Completed, no receipt", Shape.DASH),
    HandoffState.FAILED_OUTCOME: Badge("failed", "failed", "Check failed", Shape.OUTLINE),
    HandoffState.VERIFIED: Badge("pass", "pass", "Receipt is there", Shape.OUTLINE),
}


def handoff_board(run: Run, audits: Audits, now: datetime) -> Iterable[Column]:
    """Yield the columns of the board, each with its cards."""
    operations = [audit.operation for audit in audits.handoffs]
    noted = {row.operation: row for row in AuditState.objects.filter(run=run, operation__in=operations)}
    recoveries = Recoveries.of(run)
    points = {each.before.seq: each for each in handoff_forks(run, audits.handoffs)}
    for name, title, states in _COLUMNS:
        cards = [
            _card(audit, noted.get(audit.operation), recoveries, points, now)
            for audit in audits.handoffs
            if audit.verdict.state in states
        ]
        yield Column(name, title, tuple(cards))


def handoff_forks(run: Run, handoffs: Iterable[HandoffAudit]) -> tuple[ForkPoint, ...]:
    """Return where to fork before the newest delegations of the operations that need attention."""
    needy = [each.delegation for each in handoffs if each.verdict.state in NEEDS_ATTENTION]
    found = [each for each in needy if each is not None]
    known = checkpoints_before(run, [each.seq for each in found])
    return tuple(ForkPoint(each, known.get(each.seq)) for each in found)


def _card(
    audit: HandoffAudit,
    noted: AuditState | None,
    recoveries: Recoveries,
    points: Mapping[int, ForkPoint],
    now: datetime,
) -> Card:
    deadlines = [event.body.get("deadline") for event in audit.counted]
    deadline = next((text for text in reversed(deadlines) if text), None)
    return Card(
        audit=audit,
        badge=_CARD_BADGES[audit.verdict.state],
        owner=audit.holder or "nobody",
        deadline=None if deadline is None else parse(deadline),
        standing_since=noted.since if noted is not None and noted.state == audit.verdict.state else None,
        recoveries=recoveries.offered(audit, now),
        decided=recoveries.decided(audit),
        shown=recoveries.shown(audit),
        fork=None if audit.delegation is None else points.get(audit.delegation.seq),
    )
