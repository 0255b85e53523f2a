"""What stands beside the topology's verdict and never in it: quorums of a fan-in, and who waits for whom."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from django.db.models import QuerySet, Sum

from branches.models import EdgeCount, Receipt, Run
from branches.queries.audits import Audits
from branches.queries.chains import link
from branches.queries.contracts import quorums_for
from branches.queries.declarations import Quorum
from branches.queries.edges import SeenEdge, edges_of, inherited_edges
from branches.queries.fork_points import checkpoints_before
from branches.queries.topology_view import Cell
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


def checkpoint_before(run: Run, contract: Mapping[str, Any] | None, cell: Cell) -> str | None:
    """Return the newest consistent checkpoint before what is wrong with an edge: where to fork to avoid it.

    That is the first use of a kind that the contract does not know between the two, or where a kind was seen
    too often the first use beyond what is allowed, counted from the root on. None where the run has no such
    use of its own, or no such checkpoint before it.
    """
    uses = (_first_wrong(run, contract, cell, kind) for kind in cell.kinds)
    seqs = [seq for seq in uses if seq is not None]
    if not seqs:
        return None
    return checkpoints_before(run, [min(seqs)]).get(min(seqs))


def _first_wrong(run: Run, contract: Mapping[str, Any] | None, cell: Cell, kind: str) -> int | None:
    """Return the seq of a kind's first use that is wrong in the way of its cell, or None where none is."""
    edges = contract["edges"] if contract else ()
    pair = (cell.source, cell.target, kind)
    most = {(edge["from"], edge["to"], edge["kind"]): edge.get("max", 1) for edge in edges}.get(pair)
    if cell.state != "ambig":
        return _first_use(run, pair) if most is None else None
    if most is None:
        return None
    before = sum(e.count for e in inherited_edges(run) if (e.source, e.target, e.kind) == pair)
    own = _own(run, pair).aggregate(seen=Sum("count"))["seen"] or 0
    return _use_number(run, pair, max(0, most - before)) if before + own > most else None


def _own(run: Run, pair: tuple[str, str, str]) -> QuerySet[EdgeCount]:
    source, target, kind = pair
    return EdgeCount.objects.filter(run=run, source=source, target=target, kind=kind)


def _first_use(run: Run, pair: tuple[str, str, str]) -> int | None:
    first = _own(run, pair).values("first_event")
    seen = Receipt.objects.filter(run=run, kind="interaction", event_id__in=first)
    return seen.order_by("seq").values_list("seq", flat=True).first()


def _use_number(run: Run, pair: tuple[str, str, str], number: int) -> int | None:
    """Return the seq of a run's use of an edge, counted from 0.

    The bytes are in canonical form, so that the database can leave out all other edges before any is parsed.
    """
    source, _, kind = pair
    text = f'"from":{json.dumps(source)},"kind":{json.dumps(kind)}'
    rows = Receipt.objects.filter(run=run, kind="interaction", body__contains=text).order_by("seq")
    uses = (
        each.seq
        for each in map(link, rows.iterator(chunk_size=200))
        if (each.body["from"], each.body["to"], each.body["kind"]) == pair
    )
    return next(islice(uses, number, None), None)
