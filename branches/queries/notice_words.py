"""A notice in one sentence and one link: what happened and where to look, and no content."""

from typing import Final

from django.conf import settings

from branches.models import Notice, NoticeKind

_OF_REQUEST: Final = frozenset(
    {
        NoticeKind.REQUESTED,
        NoticeKind.PARTIAL,
        NoticeKind.GRANTED,
        NoticeKind.REJECTED,
        NoticeKind.EXPIRING,
        NoticeKind.EXPIRED,
        NoticeKind.SUPERSEDED,
        NoticeKind.REVOKED,
    }
)


def notice_words(notice: Notice) -> str:
    """Return what happened, with the branch by its number where it is one."""
    words = str(NoticeKind(notice.kind).label)
    return f"{words}: b{notice.run.number}" if notice.run.number is not None else words


def notice_path(notice: Notice) -> str:
    """Return where to look."""
    if notice.kind in _OF_REQUEST:
        return f"/approvals/{notice.subject}/"
    if notice.kind == NoticeKind.ROUTED:
        part = "stops" if notice.subject.startswith("evt_") else "handoffs"
        return f"/runs/{notice.run.uid}/audits/#{part}"
    return f"/branches/{notice.run.uid}/" if notice.run.parent_id is not None else f"/runs/{notice.run.uid}/"


def notice_link(notice: Notice) -> str:
    """Return the whole address; opening it changes nothing."""
    return f"{settings.BRANCHGATE_URL}{notice_path(notice)}"
