"""What stands beside the topology's verdict and never in it: quorums of a fan-in, and who waits for whom."""

from collections.abc import Iterable
from dataclasses import dataclass

from branches.models import EdgeCount, Receipt, Run
from branches.queries.audits import Audits
from branches.queries.chains import link
from branches.queries.contracts import quorums_for
from branches.queries.declarations import Quorum
from branches.queries.edges import SeenEdge, edges_of
from branches.rules.waits import Wait, deadlocks


@dataclass(frozen=True, slots=True)
class QuorumRow:
    """A fan-in: who has reported, and whether that is enough."""

    quorum: Quorum
    reported: tuple[str, ...]

    @property
    def is_met(self) -> bool:
        return len(self.reported) >= self.quorum.at_least

    @property
    def silent(self) -> tuple[str, ...]:
        return tuple(name for name in self.quorum.of if name not in self.reported)


@dataclass(frozen=True, slots=True)
class Beside:
    """Quorums, waits, and the circles among them."""

    quorums: tuple[QuorumRow, ...]
    waits: tuple[Wait, ...]
    deadlocks: tuple[tuple[str, ...], ...]


def beside(run: Run, audits: Audits) -> Beside:
    """Return what stands beside a run's verdict now."""
    quorums = quorums_for(run)
    edges = edges_of(run) if quorums else []
    rows = tuple(_quorum(each, edges) for each in quorums)
    return Beside(rows, audits.waits, deadlocks(audits.waits))


def _quorum(quorum: Quorum, edges: Iterable[SeenEdge]) -> QuorumRow:
    """An edge that did not go well counts as seen, but reports nothing."""
    into = {
        edge.source
        for edge in edges
        if edge.target == quorum.into and edge.kind == quorum.kind and edge.status == "ok"
    }
    return QuorumRow(quorum, tuple(name for name in quorum.of if name in into))


def checkpoint_before(run: Run, source: str, target: str) -> str | None:
    """Return the newest consistent checkpoint before an edge was first seen: where to fork to avoid it."""
    edges = EdgeCount.objects.filter(run=run, source=source, target=target)
    first = Receipt.objects.filter(run=run, event_id__in=[edge.first_event for edge in edges])
    edge = first.order_by("seq").first()
    if edge is None:
        return None
    before = Receipt.objects.filter(run=run, kind="checkpoint", seq__lt=edge.seq).order_by("-seq")[:50]
    points = (each for each in map(link, before) if each.body["consistent"])
    return next((each.subject for each in points), None)
