"""The three audits of a run as its page shows them: a board of handoffs, a matrix of edges, a row a loop."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from branches.models import AuditState, Person, Run
from branches.queries.audits import (
    MOST_SHOWN,
    NEEDS_ATTENTION,
    Audits,
    HandoffAudit,
    StopAudit,
    audits_now,
    operations_in,
)
from branches.queries.chains import Link
from branches.queries.clock import parse
from branches.queries.contracts import contract_of
from branches.queries.coordination import Beside, beside, checkpoint_before
from branches.queries.handoff_times import LimitRow, limit_rows
from branches.queries.lookups import owners_of
from branches.queries.recoveries import Recovered, Recoveries, Recovery
from branches.queries.run_stop import WENT_ON, approval_of, stop_state_badge
from branches.queries.topology_view import TOPOLOGY_BADGES, Cell, TopologyView, topology_view
from branches.queries.words import Badge, Shape
from branches.rules.verdicts import HandoffState, StopState

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
        return len({event.body["handoff"] for event in self.audit.events})


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the board."""

    name: str
    title: str
    cards: tuple[Card, ...]


@dataclass(frozen=True, slots=True)
class Awaited:
    """Whom an approval waits for and until when; None is what nobody has said."""

    owner: str | None
    """A person's name, or the name that the workflow declares or that is on record as a keyed digest."""
    deadline: datetime | None
    is_overdue: bool
    routed: Link | None
    """The receipt of whoever said so afterwards, where the loop itself did not say everything."""


@dataclass(frozen=True, slots=True)
class StopRow:
    """One loop's end."""

    audit: StopAudit
    badge: Badge
    conditions: tuple[str, ...]
    awaited: Awaited | None
    """None where it waited for no approval."""

    @property
    def is_unrouted(self) -> bool:
        """Whether it waits for an approval still, and lacks whom or until when."""
        return self.audit.waits and self.audit.verdict.state is StopState.WAITING_UNROUTED


@dataclass(frozen=True, slots=True)
class Avoidable:
    """An edge that should not have been, and the last checkpoint before its first use that is wrong."""

    cell: Cell
    checkpoint: str


@dataclass(frozen=True, slots=True)
class AuditPage:
    """Everything the page shows."""

    board: tuple[Column, ...]
    operations: int
    """How many were handed over in all; the board shows those that moved last."""
    limits: tuple[LimitRow, ...]
    topology: TopologyView
    beside: Beside
    avoidable: tuple[Avoidable, ...]
    stops: tuple[StopRow, ...]
    owners: tuple[str, ...]
    """Who can be named as an owner: those whom the workflow declares, and everybody of the workspace."""
    at: datetime

    @property
    def loops(self) -> int:
        """How many loops stopped, each counted once: a row that went on is an earlier stop of a loop."""
        return sum(1 for row in self.stops if not _has_next_stop(row.audit))

    @property
    def shown(self) -> int:
        return sum(len(column.cards) for column in self.board)


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


@dataclass(frozen=True, slots=True)
class Summary:
    """The three audits in a line each, for a run's page."""

    operations: int
    looked_at: int
    """Of very many operations those that moved last are looked at, and those that needed attention before."""
    attention: int
    topology: Badge | None
    stops: tuple[Badge, ...]

    @property
    def is_empty(self) -> bool:
        return not self.operations and self.topology is None and not self.stops


def audit_summary(run: Run, now: datetime) -> Summary:
    """Judge a run's three audits now, in a line each."""
    audits = audits_now(run, now, most=MOST_SHOWN)
    return Summary(
        operations=operations_in(run) if audits.handoffs else 0,
        looked_at=len(audits.handoffs),
        attention=sum(1 for audit in audits.handoffs if audit.verdict.state in NEEDS_ATTENTION),
        topology=None if audits.topology is None else TOPOLOGY_BADGES[audits.topology.verdict.verdict],
        stops=tuple(_stop_badge(audit) for audit in audits.stops if not _has_next_stop(audit))[-3:],
    )


def _has_next_stop(audit: StopAudit) -> bool:
    return audit.went_on is not None and audit.went_on.kind == "stopped"


def _stop_badge(audit: StopAudit) -> Badge:
    """Return the badge of a stop's state; of one whose loop went on only that: it is no state any more."""
    return WENT_ON if audit.went_on is not None else stop_state_badge(str(audit.verdict.state))


def audit_page(run: Run, now: datetime) -> AuditPage:
    """Judge a run now, and lay its three audits out."""
    audits = audits_now(run, now, most=MOST_SHOWN)
    topology = topology_view(run, audits)
    return AuditPage(
        board=tuple(_board(run, audits, now)),
        operations=operations_in(run) if audits.handoffs else 0,
        limits=limit_rows(run) if audits.handoffs else (),
        topology=topology,
        beside=beside(run, audits),
        avoidable=tuple(_avoidable(run, topology)),
        stops=tuple(_stops(run, audits, now)),
        owners=owners_of(run),
        at=now,
    )


_AVOIDED: Final = frozenset({"forbidden", "unknown", "ambig"})
_MOST_AVOIDED: Final = 20


def _avoidable(run: Run, topology: TopologyView) -> Iterable[Avoidable]:
    """Yield the edges before which a branch can be forked; of very many the first."""
    contract = contract_of(run)
    cells = [cell for cell in topology.matrix.cells if cell.state in _AVOIDED]
    for cell in cells[:_MOST_AVOIDED]:
        checkpoint = checkpoint_before(run, contract, cell)
        if checkpoint is not None:
            yield Avoidable(cell, checkpoint)


def _board(run: Run, audits: Audits, now: datetime) -> Iterable[Column]:
    operations = [audit.operation for audit in audits.handoffs]
    noted = {row.operation: row for row in AuditState.objects.filter(run=run, operation__in=operations)}
    recoveries = Recoveries.of(run)
    for name, title, states in _COLUMNS:
        cards = [
            _card(audit, noted.get(audit.operation), recoveries, now)
            for audit in audits.handoffs
            if audit.verdict.state in states
        ]
        yield Column(name, title, tuple(cards))


def _card(audit: HandoffAudit, noted: AuditState | None, recoveries: Recoveries, now: datetime) -> Card:
    deadlines = [event.body.get("deadline") for event in audit.events]
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
    )


def _stops(run: Run, audits: Audits, now: datetime) -> Iterable[StopRow]:
    approvals = [approval_of(audit.stopped, audit.routed) or {} for audit in audits.stops]
    names = _names(run, {each["owner"] for each in approvals if each.get("owner")})
    for audit, approval in zip(audits.stops, approvals, strict=True):
        conditions = audit.stopped.body["policy"]["conditions"]
        words = tuple(
            " ".join(str(part).replace("_", " ") for part in (each["type"], *_rest(each)))
            for each in conditions
        )
        yield StopRow(
            audit,
            _stop_badge(audit),
            words,
            _awaited(audit, approval, names, now) if audit.verdict.state in _WAITING else None,
        )


_WAITING: Final = frozenset({StopState.WAITING, StopState.WAITING_UNROUTED})


def _names(run: Run, uids: Collection[str]) -> dict[str, str]:
    """Return what people are called; a receipt may hold any id, and those of other workspaces stay one."""
    if not uids:
        return {}
    here = Person.objects.filter(uid__in=uids, role_grants__workspace_id=run.workspace_id)
    return dict(here.values_list("uid", "username"))


def _awaited(
    audit: StopAudit, approval: Mapping[str, Any], names: Mapping[str, str], now: datetime
) -> Awaited:
    owner, text = approval.get("owner"), approval.get("deadline")
    deadline = None if text is None else parse(text)
    return Awaited(
        owner=None if owner is None else names.get(owner, owner),
        deadline=deadline,
        is_overdue=audit.waits and deadline is not None and deadline <= now,
        routed=audit.routed,
    )


def _rest(condition: Mapping[str, Any]) -> list[Any]:
    return [value for name, value in condition.items() if name != "type"]
