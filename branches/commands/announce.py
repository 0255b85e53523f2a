"""Says to whom it concerns what became of an approval request, and of the permit that followed it."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from django.db import transaction

from branches.commands.append_receipt import lock_families
from branches.commands.raise_notice import raise_notice
from branches.models import (
    ApprovalRequest,
    Notice,
    NoticeDelivery,
    NoticeKind,
    Redemption,
    RequestDelivery,
    Run,
)
from branches.queries.authority import may_decide
from branches.queries.branch_facts import BranchView, branch_view
from branches.queries.clock import now
from branches.rules.policy import Stage
from branches.rules.verdicts import BranchStatus

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
SOON: Final = timedelta(minutes=15)
"""So long before its end a request or a grant is said to expire."""
OUTCOME_DUE: Final = timedelta(minutes=30)
"""So long after its resume a branch without an outcome is asked about."""
_WATCHED: Final = timedelta(hours=24)


def announce(*, request: ApprovalRequest) -> None:
    """Tell whoever may decide; where nothing leaves for them, the inbox is where it arrived."""
    view = branch_view(request.branch)
    notice = _raise(request, NoticeKind.REQUESTED, _deciders(view))
    if notice is None or not NoticeDelivery.objects.filter(notice=notice).exists():
        RequestDelivery.objects.create(request=request, via="inbox", at=now())


def announce_decision(*, request: ApprovalRequest) -> None:
    """Tell what the votes come to now."""
    view = branch_view(request.branch)
    if (kind := _STAGES.get(view.authority.stage)) is not None:
        concerned = _deciders(view) if kind is NoticeKind.PARTIAL else _askers(request)
        _raise(request, kind, concerned, str(len(view.authority.decisions)))


def announce_end(*, request: ApprovalRequest, word: str) -> None:
    """Tell that a request ended unused; a withdrawal is told to nobody."""
    if word in _ENDS:
        _raise(request, _ENDS[word], _askers(request))


def announce_redemption(*, branch: Run, permit: str) -> None:
    """Tell that the permit was redeemed: the branch runs."""
    raise_notice(
        run=branch,
        kind=NoticeKind.CONSUMED,
        subject=permit,
        about=[permit],
        concerned={branch.fork_point.forker.uid},
    )


def sweep_notices() -> None:
    """Tell what the clock makes true: what expires soon, and outcomes that are due or deny a claim."""
    at = now()
    open_requests = ApprovalRequest.objects.filter(
        end__isnull=True, branch__redemption__isnull=True, branch__revocation__isnull=True
    ).select_related("branch__workspace", "branch__workflow", "branch__root", "requester")
    for request in open_requests.order_by("-id")[:200]:
        with transaction.atomic():
            lock_families([request.branch.family_id])
            _tell_of_expiry(request, at)
    young = Redemption.objects.filter(at__gt=at - _WATCHED).select_related(
        "branch__workspace", "branch__workflow", "branch__root", "branch__fork_point__forker"
    )
    for done in young.order_by("-id")[:200]:
        with transaction.atomic():
            lock_families([done.branch.family_id])
            _tell_of_outcome(done, at)


def _tell_of_expiry(request: ApprovalRequest, at: datetime) -> None:
    authority = branch_view(request.branch).authority
    if authority.request is None or authority.request.pk != request.pk or authority.expires_at is None:
        return
    if authority.stage not in (Stage.REQUESTED, Stage.PARTIAL, Stage.GRANTED):
        return
    if at < authority.expires_at <= at + SOON:
        is_granted = authority.stage == Stage.GRANTED
        concerned = _askers(request) if is_granted else _deciders(branch_view(request.branch))
        _raise(request, NoticeKind.EXPIRING, concerned, authority.stage)


def _tell_of_outcome(done: Redemption, at: datetime) -> None:
    status = branch_view(done.branch).verdict.status
    concerned = {done.branch.fork_point.forker.uid}
    if status is BranchStatus.FALSE_SUCCESS:
        kind = NoticeKind.FALSE_SUCCESS
    elif status is BranchStatus.AWAITING_OUTCOME and at - done.at > OUTCOME_DUE:
        kind = NoticeKind.OUTCOME_DUE
    else:
        return
    raise_notice(run=done.branch, kind=kind, subject="outcome", about=[done.attempt], concerned=concerned)


def _raise(request: ApprovalRequest, kind: NoticeKind, concerned: set[str], *about: str) -> Notice | None:
    return raise_notice(
        run=request.branch,
        kind=kind,
        subject=request.uid,
        about=[request.uid, *about],
        concerned=concerned,
    )


def _askers(request: ApprovalRequest) -> set[str]:
    return {request.requester.uid, request.branch.fork_point.forker.uid}


def _deciders(view: BranchView) -> set[str]:
    """Return whoever could still say something that the request waits for."""
    worked = set(view.branch.work.values_list("person__uid", flat=True))
    voted = {vote.approver.uid for vote in view.authority.decisions}
    may = {uid for uid in view.asked.roster if may_decide(view.asked, uid, view.change_class)}
    return may - worked - voted
