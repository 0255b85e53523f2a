"""Whether everything that a run's writer counted is on record."""

from typing import Final

from django.db.models import Q

from branches.models import Receipt, Run
from branches.queries.chains import head, latest

_IN_A_RECORDERS_NAME: Final = ("permit_redeemed", "refused")


def is_counted(run: Run) -> bool:
    """Return whether the writer has closed its recording and as many receipts are there as it counted.

    A recording that says itself that something is missing is not complete, whatever was counted.
    """
    closed = latest(run.pk, "recording_closed")
    if closed is None or latest(run.pk, "recording_gap") is not None:
        return False
    # Two ranges beside the writer, each of which the index of events has in order: asked for as one, both
    # databases read the whole run.
    by_others = sum(
        Receipt.objects.filter(beside, run=run).count()
        for beside in (Q(writer__lt=closed.writer), Q(writer__gt=closed.writer))
    )
    # A redemption stands under the recorder's name, but the product wrote it and no recorder counted it.
    in_its_name = Receipt.objects.filter(run=run, kind__in=_IN_A_RECORDERS_NAME, writer=closed.writer).count()
    last, _ = head(run.pk)
    return bool(last - by_others - in_its_name == closed.body["count"])


def is_short(run: Run) -> bool:
    """Return whether the writer counted more receipts than are on record: some were lost, or are late."""
    return latest(run.pk, "recording_closed") is not None and not is_counted(run)
