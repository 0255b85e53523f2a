"""Says that something happened of which people of a workspace ought to hear: where, and no content."""

from collections.abc import Iterable

from branches.commands.queue_deliveries import queue_deliveries
from branches.evidence import canonical, ids
from branches.models import Notice, NoticeKind, Run
from branches.queries.clock import now


def raise_notice(
    *, run: Run, kind: NoticeKind, subject: str, about: list[str], concerned: Iterable[str] = ()
) -> Notice | None:
    """Write a notice once for what it is about; returns it where it is new, else None.

    The caller holds the family's lock.
    """
    if is_raised(run=run, kind=kind, subject=subject, about=about):
        return None
    notice = Notice.objects.create(
        uid=ids.mint("note"),
        workspace=run.workspace,
        kind=kind,
        run=run,
        subject=subject,
        digest=_digest(about),
        made_at=now(),
    )
    queue_deliveries(notice=notice, concerned=concerned)
    return notice


def is_raised(*, run: Run, kind: NoticeKind, subject: str, about: list[str]) -> bool:
    """Return whether just this was said before."""
    return Notice.objects.filter(run=run, kind=kind, subject=subject, digest=_digest(about)).exists()


def _digest(about: list[str]) -> str:
    return canonical.digest(canonical.NOTICE, sorted(about))
