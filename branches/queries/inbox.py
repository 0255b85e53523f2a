"""The inbox: open requests, oldest first, with whether this person may decide them."""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from branches.models import ApprovalRequest, BranchWork, Decision, Person, Workspace
from branches.queries.authority import request_ends
from branches.queries.authority_words import why_not
from branches.queries.branch_facts import BranchView, branch_view
from branches.queries.clock import now
from branches.queries.next_step import limits_of
from branches.queries.open_requests import undecided_requests, unrevoked
from branches.rules.branch_facts import EffectDecision, EffectStatus

MOST: Final = 60
"""As many open requests are looked at."""


@dataclass(frozen=True, slots=True)
class InboxRow:
    """One open request as the inbox shows it, with whether this person's word is one that it waits for."""

    request: ApprovalRequest
    is_mine: bool
    why_not: str
    barred: str | None
    stage: str
    needed: int
    effects: int
    irreversible: int
    """How many of them cannot be undone; before anybody is asked each of them was decided on."""
    repeated: int
    """How many of these the branch will do again."""
    edits: int
    changed_configuration: bool
    limits: int
    expires_at: datetime


def _open(workspace: Workspace) -> list[ApprovalRequest]:
    rows = unrevoked(undecided_requests()).filter(branch__workspace=workspace)
    near = rows.select_related(
        "branch__workspace", "branch__workflow", "branch__root", "requester", "delivery"
    )
    return list(near.order_by("id")[:MOST])


def inbox(person: Person, workspace: Workspace) -> list[InboxRow]:
    """Return the requests that wait for a decision: those this person can give first, the oldest first."""
    rows = [_row(request, branch_view(request.branch), person) for request in _open(workspace)]
    return sorted((row for row in rows if row is not None), key=lambda row: not row.is_mine)


def waiting_for(person: Person, workspace: Workspace) -> int:
    """Return how many open requests this person neither worked on nor has decided, and that are not over."""
    worked = BranchWork.objects.filter(person=person).values("branch_id")
    voted = Decision.objects.filter(approver=person).values("request_id")
    rows = unrevoked(undecided_requests()).filter(branch__workspace=workspace)
    rows = rows.exclude(branch_id__in=worked).exclude(pk__in=voted).select_related("delivery")
    at = now()
    return sum(1 for row in rows.order_by("id")[:MOST] if request_ends(row) >= at)


def _row(request: ApprovalRequest, view: BranchView, person: Person) -> InboxRow | None:
    """Return a request's row; none where the branch has moved on, or its time is over."""
    authority = view.authority
    if not authority.is_open or authority.request is None or authority.request.pk != request.pk:
        return None
    subject = json.loads(request.subject)
    configuration, effects = subject["configuration"], list(subject["effects"].values())
    reason = why_not(view, person)
    return InboxRow(
        request=request,
        is_mine=not reason,
        why_not=reason.partition(":")[0],
        barred=reason.partition(":")[2] or None,
        stage=authority.stage,
        needed=authority.quorum.needed,
        effects=len(effects),
        irreversible=sum(1 for effect in effects if effect["status"] == EffectStatus.IRREVERSIBLE),
        repeated=sum(1 for effect in effects if effect["decision"] == EffectDecision.REPEAT),
        edits=len(subject["edits"]),
        changed_configuration=configuration["original"] != configuration["pinned"],
        limits=sum(1 for _ in limits_of(view)),
        expires_at=request_ends(request),
    )
