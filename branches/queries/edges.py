"""Edges between agents as a run's line saw them: its own by their counts, and those before its fork point."""

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache

from django.db.models import Q

from branches.models import EdgeCount, ForkPoint, Run
from branches.queries.chains import Link, links


@dataclass(frozen=True, slots=True)
class SeenEdge:
    """How often an edge was seen, under which contract version and how it went."""

    source: str
    target: str
    kind: str
    version: str
    """Empty where the receipt named none: then it is the run's."""
    status: str
    count: int
    first_event: str


def edges_of(run: Run) -> list[SeenEdge]:
    """Return every edge of a run's line: what a branch did not do again is still part of it."""
    return [*inherited_edges(run), *own_edges(run)]


def own_edges(run: Run) -> list[SeenEdge]:
    """Return how often each edge was seen in a run itself, as it was counted when its receipts came."""
    rows = EdgeCount.objects.filter(run=run).order_by("source", "target", "kind", "version", "status")
    names = ("source", "target", "kind", "version", "status", "count", "first_event")
    return [SeenEdge(*row) for row in rows.values_list(*names)]


def inherited_edges(run: Run) -> tuple[SeenEdge, ...]:
    """Return what a branch's ancestors did before its line left theirs; nothing for a root run."""
    return () if run.parent_id is None else _before(run.uid)


@lru_cache(maxsize=128)
def _before(uid: str) -> tuple[SeenEdge, ...]:
    """Read the receipts before a fork point once: no receipt is ever added there."""
    seen: Counter[tuple[str, str, str, str, str]] = Counter()
    first: dict[tuple[str, str, str, str, str], str] = {}
    fork = ForkPoint.objects.filter(branch__uid=uid).first()
    while fork is not None:
        for item in links([fork.parent_id], ("interaction",), where=Q(seq__lte=fork.seq)):
            key = _key(item)
            seen[key] += 1
            first.setdefault(key, item.event_id)
        fork = ForkPoint.objects.filter(branch_id=fork.parent_id).first()
    return tuple(SeenEdge(*key, count, first[key]) for key, count in sorted(seen.items()))


def _key(item: Link) -> tuple[str, str, str, str, str]:
    body = item.body
    return body["from"], body["to"], body["kind"], body["contract_version"] or "", body["status"]
