"""Whether everything that a run's writer counted is on record."""

import json
from typing import Final

from django.db.models import Q

from branches.models import Receipt, Run
from branches.queries.chains import head, latest

_IN_A_RECORDERS_NAME: Final = ("permit_redeemed", "refused")
_NEWEST: Final = 100
"""The writer's highest number is looked for among so many of its newest receipts: some come out of order."""
_AT_ONCE: Final = 128
_FURTHEST: Final = 4096
"""Behind so many of others a writer's newest receipts are not looked for any more."""


def is_counted(run: Run) -> bool:
    """Return whether the writer has closed its recording and as many receipts are there as it counted.

    A recording that says itself that something is missing is not complete, whatever was counted.
    """
    closed = latest(run.pk, "recording_closed")
    if closed is None or latest(run.pk, "recording_gap") is not None:
        return False
    return bool(_written(run, closed.writer) == closed.body["count"])


def is_closed(run: Run) -> bool:
    """Return whether the writer has said its last word."""
    return latest(run.pk, "recording_closed") is not None


def is_short(run: Run) -> bool:
    """Return whether the writer counted more receipts than are on record: some were lost, or are late.

    One that did not close its recording has numbered what it sent, so that a hole shows all the same.
    """
    if latest(run.pk, "recording_closed") is not None:
        return not is_counted(run)
    return run.recorder is not None and _has_hole(run, run.recorder.uid)


def _written(run: Run, writer: str) -> int:
    """Return how many receipts of a run its writer sent, without reading them."""
    # Two ranges beside the writer, each of which the index of events has in order: asked for as one, both
    # databases read the whole run.
    by_others = sum(
        Receipt.objects.filter(beside, run=run).count()
        for beside in (Q(writer__lt=writer), Q(writer__gt=writer))
    )
    # A redemption stands under the recorder's name, but the product wrote it and no recorder counted it.
    in_its_name = Receipt.objects.filter(run=run, kind__in=_IN_A_RECORDERS_NAME, writer=writer).count()
    last, _ = head(run.pk)
    return last - by_others - in_its_name


def _has_hole(run: Run, writer: str) -> bool:
    """Return whether a writer numbered a receipt higher than there are of it, or nobody can tell."""
    written = _written(run, writer)
    if written == 0:
        return False
    numbers: list[int] = []
    last, _ = head(run.pk)
    for top in range(last, max(0, last - _FURTHEST), -_AT_ONCE):
        # By the place alone: asked for by the writer too, the databases read all that it ever sent.
        rows = Receipt.objects.filter(run=run, seq__lte=top, seq__gt=top - _AT_ONCE).order_by("-seq")
        numbers += [
            int(json.loads(body)["writer_seq"])
            for by, kind, body in rows.values_list("writer", "kind", "body")
            if by == writer and kind not in _IN_A_RECORDERS_NAME
        ]
        if len(numbers) >= min(written, _NEWEST):
            return max(numbers) > written
    return True
