"""Branchgate's own approval queue: which requests were made, and how each stands now or stood at a moment."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from django.db.models import Max, QuerySet

from branches.models import ApprovalRequest, Decision, Role, Run, Workspace
from branches.queries.authority import grant_ends, request_ends
from branches.queries.policies import policy_of
from branches.queries.standings import roster_of
from branches.rules.policy import Policy

PAGE: Final = 500
"""As many requests are told at once: an answer stays under the 64 kB that a probe reads."""


class Standing(StrEnum):
    """How one request stands; every word but the first says how it was resolved."""

    PENDING = "pending"
    APPROVED = "approved"
    REJECTED = "rejected"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"
    SUPERSEDED = "superseded"
    REVOKED = "revoked"
    CONSUMED = "consumed"


@dataclass(frozen=True, slots=True)
class QueuedRequest:
    """One request by its id, and how it stands."""

    request: str
    state: Standing


@dataclass(frozen=True, slots=True)
class ApprovalQueue:
    """Requests in the order in which they were made; `more` where some were left off."""

    as_of: datetime
    requests: tuple[QueuedRequest, ...]
    more: bool


@dataclass(frozen=True, slots=True)
class _Known:
    """What is read once for all requests of an answer."""

    newest: dict[int, int]
    """Branch -> its newest request: what a redemption used up and a revocation took back."""
    approvers: frozenset[str]
    """Who could give a word at the moment: approvers and destinations' owners."""
    policy: Policy


def approval_queue(
    workspace: Workspace,
    *,
    until: datetime,
    as_of: datetime,
    beside: str | None = None,
    after: ApprovalRequest | None = None,
) -> ApprovalQueue:
    """Return the requests made up to `until`, past `after`, each as it stood at `as_of`.

    Those of the family of the run `beside` are left out: a branch's own request is no drift of it. A run
    that is not known here has no requests.
    """
    rows = ApprovalRequest.objects.filter(branch__workspace=workspace, at__lte=until)
    if after is not None:
        rows = rows.filter(pk__gt=after.pk)
    if (family := _family(workspace, beside)) is not None:
        rows = rows.exclude(branch__root_id=family)
    found = _read(rows)
    known = _known(workspace, found[:PAGE], as_of)
    listed = tuple(QueuedRequest(each.uid, _standing(each, known, as_of)) for each in found[:PAGE])
    return ApprovalQueue(as_of, listed, more=len(found) > PAGE)


def _read(rows: "QuerySet[ApprovalRequest]") -> list[ApprovalRequest]:
    near = rows.select_related("end", "delivery", "grant", "branch__redemption", "branch__revocation")
    return list(near.prefetch_related("decisions__approver").order_by("pk")[: PAGE + 1])


def _family(workspace: Workspace, beside: str | None) -> int | None:
    run = None if beside is None else Run.objects.filter(workspace=workspace, uid=beside).first()
    return None if run is None else run.family_id


def _known(workspace: Workspace, requests: list[ApprovalRequest], as_of: datetime) -> _Known:
    of_branches = ApprovalRequest.objects.filter(branch_id__in={each.branch_id for each in requests})
    newest = dict(of_branches.values("branch_id").annotate(last=Max("pk")).values_list("branch_id", "last"))
    roster = roster_of(workspace, as_of=as_of)
    approvers = {
        uid
        for uid, voter in roster.items()
        if any(each.role in (Role.APPROVER, Role.DESTINATION_OWNER) for each in voter.standings)
    }
    return _Known(newest, frozenset(approvers), policy_of(workspace, as_of))


def _standing(request: ApprovalRequest, known: _Known, as_of: datetime) -> Standing:
    """Say what a request was worth at a moment, by the rules of `authority` on the rows there were then."""
    branch = request.branch
    is_newest = known.newest[request.branch_id] == request.pk
    if is_newest and hasattr(branch, "revocation") and branch.revocation.at <= as_of:
        return Standing.REVOKED
    votes = [vote for vote in request.decisions.all() if vote.at <= as_of]
    if any(vote.word == Standing.REJECTED for vote in votes):
        return Standing.REJECTED
    if hasattr(request, "end") and request.end.at <= as_of:
        return Standing(request.end.word)
    approvals = [vote for vote in votes if vote.word == Standing.APPROVED]
    if not hasattr(request, "grant") or request.grant.at > as_of:
        return Standing.EXPIRED if as_of > request_ends(request) else Standing.PENDING
    if is_newest and hasattr(branch, "redemption") and branch.redemption.at <= as_of:
        return Standing.CONSUMED
    return _granted(request, approvals, known, as_of)


def _granted(
    request: ApprovalRequest, approvals: Sequence[Decision], known: _Known, as_of: datetime
) -> Standing:
    """An approval is worth something for its time, and while its giver may still give it."""
    is_over = as_of > grant_ends(request, known.policy)
    may_give = all(vote.approver.uid in known.approvers for vote in approvals)
    return Standing.APPROVED if may_give and not is_over else Standing.EXPIRED
