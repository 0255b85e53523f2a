"""The three audits of a run as its page shows them: a board of handoffs, a matrix of edges, a row a loop."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from branches.models import Run
from branches.queries.audits import Audits, audits_now
from branches.queries.contracts import contract_of
from branches.queries.coordination import Beside, beside, checkpoint_before
from branches.queries.fork_points import ForkPoint
from branches.queries.handoff_audits import MOST_SHOWN, NEEDS_ATTENTION
from branches.queries.handoff_board import Column, handoff_board, handoff_forks
from branches.queries.handoff_times import LimitRow, limit_rows
from branches.queries.lookups import owners_of
from branches.queries.stop_rows import StopRow, has_next_stop, stop_audit_badge, stop_forks, stop_rows
from branches.queries.topology_view import TOPOLOGY_BADGES, Cell, TopologyView, topology_view
from branches.queries.words import Badge

_MOST_FORKS: Final = 3


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
    ends: int
    """How many stops there are in all; those are shown that came last, and those that wait still."""
    owners: tuple[str, ...]
    """Who can be named as an owner: those whom the workflow declares, and everybody of the workspace."""
    at: datetime

    @property
    def loops(self) -> int:
        """How many loops are shown, each counted once: a row that went on is an earlier stop of a loop."""
        return sum(1 for row in self.stops if not has_next_stop(row.audit))

    @property
    def shown(self) -> int:
        return sum(len(column.cards) for column in self.board)


@dataclass(frozen=True, slots=True)
class Summary:
    """The three audits in a line each, for a run's page."""

    operations: int
    looked_at: int
    """Of very many operations those that moved last are looked at, and those that needed attention before."""
    attention: int
    topology: Badge | None
    stops: tuple[Badge, ...]
    forks: tuple[ForkPoint, ...]
    """Where a branch may begin that avoids what was found: before the newest operations to look at, and
    before its last stop."""

    @property
    def is_empty(self) -> bool:
        return not self.operations and self.topology is None and not self.stops


def audit_summary(run: Run, now: datetime) -> Summary:
    """Judge a run's three audits now, in a line each."""
    audits = audits_now(run, now, most=MOST_SHOWN)
    return Summary(
        operations=audits.operations,
        looked_at=len(audits.handoffs),
        attention=sum(1 for audit in audits.handoffs if audit.verdict.state in NEEDS_ATTENTION),
        topology=None if audits.topology is None else TOPOLOGY_BADGES[audits.topology.verdict.verdict],
        stops=tuple(stop_audit_badge(audit) for audit in audits.stops if not has_next_stop(audit))[-3:],
        forks=_forks(run, audits),
    )


def _forks(run: Run, audits: Audits) -> tuple[ForkPoint, ...]:
    newest = sorted(handoff_forks(run, audits.handoffs), key=lambda each: each.before.seq)[-_MOST_FORKS:]
    return *newest, *stop_forks(run, audits.stops)[-1:]


def audit_page(run: Run, now: datetime) -> AuditPage:
    """Judge a run now, and lay its three audits out."""
    audits = audits_now(run, now, most=MOST_SHOWN)
    topology = topology_view(run, audits)
    return AuditPage(
        board=tuple(handoff_board(run, audits, now)),
        operations=audits.operations,
        limits=limit_rows(run) if audits.handoffs else (),
        topology=topology,
        beside=beside(run, audits),
        avoidable=tuple(_avoidable(run, topology)),
        stops=tuple(stop_rows(run, audits, now)),
        ends=audits.ends,
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
