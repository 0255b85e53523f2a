"""Messages of a branch's own past: those of its line before the fork point."""

from itertools import pairwise

from branches.models import Receipt, Run
from branches.queries.family import family_of


def is_message_before(branch: Run, message: str) -> bool:
    """Return whether a message (by its HMAC) was recorded on the branch's line before it forked."""
    family = family_of(branch)
    path = family.path(family.runs[branch.pk])
    for parent, child in pairwise(path):
        rows = Receipt.objects.filter(
            run=parent, kind="message", subject=message, seq__lte=family.forks[child.pk].seq
        )
        if rows.exists():
            return True
    return False
