"""Where a branch may begin that avoids what an audit found: at the last consistent checkpoint before it."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from django.db.models import OuterRef, Subquery

from branches.models import Receipt, Run
from branches.queries.chains import Link

# Receipts are kept in canonical form, and a checkpoint holds no free text that could say the same.
_CONSISTENT: Final = '"consistent":true'


@dataclass(frozen=True, slots=True)
class ForkPoint:
    """A receipt that an audit is about, and the last consistent checkpoint before it, where there is one."""

    before: Link
    checkpoint: str | None


def checkpoints_before(run: Run, seqs: Collection[int]) -> dict[int, str]:
    """Return by the seqs of a run's receipts the newest consistent checkpoint before each that has one."""
    if not seqs:
        return {}
    points = Receipt.objects.filter(
        run_id=OuterRef("run_id"), kind="checkpoint", seq__lt=OuterRef("seq"), body__contains=_CONSISTENT
    )
    newest = Subquery(points.order_by("-seq").values("subject")[:1])
    rows = Receipt.objects.filter(run=run, seq__in=list(seqs)).annotate(point=newest)
    return {seq: point for seq, point in rows.values_list("seq", "point") if point is not None}
