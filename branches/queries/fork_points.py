"""Where a branch may begin that avoids what an audit found: at the last consistent checkpoint before it."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from django.db.models import OuterRef, Subquery

from branches.models import Receipt, Run
from branches.queries.chains import Link, link

# Receipts are kept in canonical form. A declared fact may be called the same, so the member is read as well.
_CONSISTENT: Final = '"consistent":true'
_MOST: Final = 20
"""Behind so many checkpoints in a row that only look consistent, none is known."""


@dataclass(frozen=True, slots=True)
class ForkPoint:
    """A receipt that an audit is about, and the last consistent checkpoint before it, where there is one."""

    before: Link
    checkpoint: str | None


def checkpoints_before(run: Run, seqs: Collection[int]) -> dict[int, str]:
    """Return by the seqs of a run's receipts the newest consistent checkpoint before each that has one."""
    known: dict[int, str] = {}
    sought = {seq: seq for seq in seqs}
    for _ in range(_MOST):
        if not sought:
            break
        points = _points_before(run, set(sought.values()))
        found = {seq: points[before] for seq, before in sought.items() if before in points}
        known |= {seq: str(each.subject) for seq, each in found.items() if each.body["consistent"]}
        sought = {seq: each.seq for seq, each in found.items() if not each.body["consistent"]}
    return known


def _points_before(run: Run, seqs: Collection[int]) -> dict[int, Link]:
    """Return by seqs the newest checkpoint before each that may be consistent."""
    points = Receipt.objects.filter(
        run_id=OuterRef("run_id"), kind="checkpoint", seq__lt=OuterRef("seq"), body__contains=_CONSISTENT
    )
    newest = Subquery(points.order_by("-seq").values("pk")[:1])
    rows = Receipt.objects.filter(run=run, seq__in=list(seqs)).annotate(point=newest)
    places = {seq: point for seq, point in rows.values_list("seq", "point") if point is not None}
    found = {row.pk: link(row) for row in Receipt.objects.filter(pk__in=set(places.values()))}
    return {seq: found[point] for seq, point in places.items()}
