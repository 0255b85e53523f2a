"""Tells a person that something waits for them now: an operation, or an approval that a loop stopped for."""

from branches.commands.raise_notice import raise_notice
from branches.evidence import ids
from branches.models import Notice, NoticeKind, Receipt, Run


def announce_route(*, run: Run, subject: str, owner: str, receipt: Receipt) -> Notice | None:
    """Raise a notice to whom `receipt` routes `subject`; the caller holds the family's lock.

    A name that a workflow declares is nobody's address: then nobody is told, and None is returned.
    """
    if not ids.is_id(owner, "per"):
        return None
    return raise_notice(
        run=run, kind=NoticeKind.ROUTED, subject=subject, about=[receipt.digest], concerned={owner}
    )
