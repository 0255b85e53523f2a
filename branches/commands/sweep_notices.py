"""Says what the clock makes true: what expires soon or did, and outcomes that are due or deny a claim."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from django.db import transaction

from branches.commands.announce import askers, deciders, tell
from branches.commands.append_receipt import lock_families
from branches.commands.raise_notice import is_raised, raise_notice
from branches.models import ApprovalRequest, NoticeKind, Redemption
from branches.queries.authority import grant_ends, request_ends
from branches.queries.branch_facts import branch_view
from branches.queries.chains import latest
from branches.queries.clock import now
from branches.queries.open_requests import unrevoked, unvetoed_requests
from branches.queries.policies import policy_of
from branches.rules.branch_facts import Decision as Word
from branches.rules.policy import Stage
from branches.rules.verdicts import BranchStatus

SOON: Final = timedelta(minutes=15)
"""So long before its end a request or a grant is said to expire."""
OUTCOME_DUE: Final = timedelta(minutes=30)
"""So long after its resume a branch without an outcome is asked about."""
WATCHED: Final = timedelta(hours=24)
"""For so long after a resume, or after the end of a grant, something is said of it."""
_MOST: Final = 500
_GRANT, _OPEN = "grant", "open"


def sweep_notices() -> None:
    """Raise each notice once; what is far from its end is not looked at closely."""
    at = now()
    for request, ends in _ending(at):
        with transaction.atomic():
            lock_families([request.branch.family_id])
            _tell_of_expiry(request, ends, at)
    for done in _unsettled(at):
        with transaction.atomic():
            lock_families([done.branch.family_id])
            _tell_of_outcome(done, at)


def _ending(at: datetime) -> Iterator[tuple[ApprovalRequest, datetime]]:
    """Yield the requests of which something is to be said now, each with its end."""
    near = unrevoked(unvetoed_requests()).select_related(
        "branch__workspace", "branch__workflow", "branch__root", "requester", "delivery", "grant"
    )
    for request in near.order_by("-id")[:_MOST]:
        is_granted = hasattr(request, "grant")
        policy = policy_of(request.branch.workspace) if is_granted else None
        ends = grant_ends(request, policy) if policy is not None else request_ends(request)
        if at <= ends <= at + SOON:
            about = [request.uid, _GRANT if is_granted else _OPEN]
            is_told = is_raised(
                run=request.branch, kind=NoticeKind.EXPIRING, subject=request.uid, about=about
            )
        else:
            about = [request.uid, _GRANT]
            is_told = not (is_granted and ends < at <= ends + WATCHED) or is_raised(
                run=request.branch, kind=NoticeKind.EXPIRED, subject=request.uid, about=about
            )
        if not is_told:
            yield request, ends


def _tell_of_expiry(request: ApprovalRequest, ends: datetime, at: datetime) -> None:
    """Say it where this is still the branch's newest request, and stands as it did."""
    view = branch_view(request.branch)
    authority = view.authority
    if authority.request is None or authority.request.pk != request.pk:
        return
    if authority.stage == Stage.GRANTED:
        tell(request, NoticeKind.EXPIRING, askers(request), _GRANT)
    elif authority.stage in (Stage.REQUESTED, Stage.PARTIAL) and at <= ends:
        tell(request, NoticeKind.EXPIRING, deciders(view, request), _OPEN)
    elif authority.word is Word.EXPIRED and hasattr(request, "grant") and at > ends:
        tell(request, NoticeKind.EXPIRED, askers(request), _GRANT)


def _unsettled(at: datetime) -> Iterator[Redemption]:
    """Yield the young branches that ran, or should have, and whose outcome was not found."""
    young = Redemption.objects.filter(at__gt=at - WATCHED).select_related(
        "branch__workspace", "branch__workflow", "branch__root", "branch__fork_point__forker"
    )
    for done in young.order_by("-id")[:_MOST]:
        checked = latest(done.branch_id, "outcome_checked")
        if checked is not None and checked.body["check"] == "passed" and checked.body["fresh"]:
            continue
        may_be_denied = checked is not None or latest(done.branch_id, "stopped") is not None
        may_be_due = at - done.at > OUTCOME_DUE and not _is_told(done, NoticeKind.OUTCOME_DUE)
        if (may_be_denied or may_be_due) and not _is_told(done, NoticeKind.FALSE_SUCCESS):
            yield done


def _is_told(done: Redemption, kind: NoticeKind) -> bool:
    return is_raised(run=done.branch, kind=kind, subject="outcome", about=[done.attempt])


def _tell_of_outcome(done: Redemption, at: datetime) -> None:
    status = branch_view(done.branch).verdict.status
    if status is BranchStatus.FALSE_SUCCESS:
        kind = NoticeKind.FALSE_SUCCESS
    elif status is BranchStatus.AWAITING_OUTCOME and at - done.at > OUTCOME_DUE:
        kind = NoticeKind.OUTCOME_DUE
    else:
        return
    concerned = {done.branch.fork_point.forker.uid}
    raise_notice(run=done.branch, kind=kind, subject="outcome", about=[done.attempt], concerned=concerned)
