"""Says to whom it concerns what became of an approval request: a notice each, and no content."""

from branches.commands.raise_notice import raise_notice
from branches.models import ApprovalRequest, NoticeDelivery, NoticeKind, RequestDelivery
from branches.queries.branch_facts import branch_view
from branches.queries.clock import now

_ENDS = {
    "superseded": NoticeKind.SUPERSEDED,
    "revoked": NoticeKind.REVOKED,
    "expired": NoticeKind.EXPIRED,
}


def announce(*, request: ApprovalRequest) -> None:
    """Tell whoever may decide; where nothing leaves for them, the inbox is where it arrived."""
    notice = raise_notice(
        run=request.branch, kind=NoticeKind.REQUESTED, subject=request.uid, about=[request.uid]
    )
    if notice is None or not NoticeDelivery.objects.filter(notice=notice).exists():
        RequestDelivery.objects.create(request=request, via="inbox", at=now())


def announce_decision(*, request: ApprovalRequest) -> None:
    """Tell what the votes come to now."""
    stage = branch_view(request.branch).authority.stage
    if stage in (NoticeKind.PARTIAL, NoticeKind.GRANTED, NoticeKind.REJECTED):
        raise_notice(
            run=request.branch, kind=NoticeKind(stage), subject=request.uid, about=[request.uid, stage]
        )


def announce_end(*, request: ApprovalRequest, word: str) -> None:
    """Tell that a request ended unused; a withdrawal is told to nobody."""
    if word in _ENDS:
        raise_notice(run=request.branch, kind=_ENDS[word], subject=request.uid, about=[request.uid, word])
