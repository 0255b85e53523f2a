"""Says to whom it concerns what became of an approval request, and of the permit that followed it."""

from collections.abc import Mapping
from typing import Final

from branches.commands.raise_notice import raise_notice
from branches.models import ApprovalRequest, Notice, NoticeDelivery, NoticeKind, RequestDelivery, Run
from branches.queries.authority import may_decide
from branches.queries.branch_facts import BranchView
from branches.queries.clock import now
from branches.rules.policy import Stage

_ENDS: Final = {
    "superseded": NoticeKind.SUPERSEDED,
    "revoked": NoticeKind.REVOKED,
    "expired": NoticeKind.EXPIRED,
}
_STAGES: Final[Mapping[str, NoticeKind]] = {
    Stage.PARTIAL: NoticeKind.PARTIAL,
    Stage.GRANTED: NoticeKind.GRANTED,
    Stage.REJECTED: NoticeKind.REJECTED,
}


def announce(*, request: ApprovalRequest, view: BranchView) -> None:
    """Tell whoever may decide; where nothing leaves for them, the inbox is where it arrived.

    `view` is the branch as it was asked for, before anybody voted on this request.
    """
    notice = tell(request, NoticeKind.REQUESTED, deciders(view, request))
    if notice is None or not NoticeDelivery.objects.filter(notice=notice).exists():
        RequestDelivery.objects.create(request=request, via="inbox", at=now())


def announce_decision(*, request: ApprovalRequest, view: BranchView) -> None:
    """Tell what the votes come to; `view` is the branch after the last of them."""
    if (kind := _STAGES.get(view.authority.stage)) is not None:
        concerned = deciders(view, request) if kind is NoticeKind.PARTIAL else askers(request)
        tell(request, kind, concerned, str(len(view.authority.decisions)))


def announce_end(*, request: ApprovalRequest, word: str) -> None:
    """Tell that a request ended unused; a withdrawal is told to nobody."""
    if word in _ENDS:
        tell(request, _ENDS[word], askers(request))


def announce_redemption(*, branch: Run, permit: str) -> None:
    """Tell that the permit was redeemed: the branch runs."""
    raise_notice(
        run=branch,
        kind=NoticeKind.CONSUMED,
        subject=permit,
        about=[permit],
        concerned={branch.fork_point.forker.uid},
    )


def tell(request: ApprovalRequest, kind: NoticeKind, concerned: set[str], *about: str) -> Notice | None:
    """Raise a notice about a request, once for the same words; the caller holds the family's lock."""
    return raise_notice(
        run=request.branch,
        kind=kind,
        subject=request.uid,
        about=[request.uid, *about],
        concerned=concerned,
    )


def askers(request: ApprovalRequest) -> set[str]:
    """Return whoever waits for the decision: who asked, and who forked."""
    return {request.requester.uid, request.branch.fork_point.forker.uid}


def deciders(view: BranchView, request: ApprovalRequest) -> set[str]:
    """Return whoever could still say something that the request waits for."""
    worked = set(view.branch.work.values_list("person__uid", flat=True))
    voted = set(request.decisions.values_list("approver__uid", flat=True))
    may = {uid for uid in view.asked.roster if may_decide(view.asked, uid, view.change_class)}
    return may - worked - voted - {request.requester.uid}
