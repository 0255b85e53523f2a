"""The inbox: open requests, oldest first, with whether this person may decide them; and what happened."""

import json
from dataclasses import dataclass
from datetime import datetime

from branches.models import ApprovalRequest, Notice, Person, Workspace
from branches.queries.authority import barred_people, request_ends
from branches.queries.clock import now


@dataclass(frozen=True, slots=True)
class InboxRow:
    """One open request as the inbox shows it."""

    request: ApprovalRequest
    barred: str | None
    effects: int
    undecided: int
    edits: int
    changed_configuration: bool
    expires_at: datetime
    expired: bool


def _open(workspace: Workspace) -> list[ApprovalRequest]:
    rows = ApprovalRequest.objects.filter(
        branch__workspace=workspace,
        end__isnull=True,
        branch__redemption__isnull=True,
        branch__revocation__isnull=True,
    ).exclude(decisions__word="rejected")
    near = rows.select_related("branch__fork_point__forker", "branch__root", "requester", "delivery")
    return list(near.order_by("id")[:200])


def inbox(person: Person, workspace: Workspace) -> list[InboxRow]:
    """Return what waits for somebody's decision, oldest first."""
    return [_row(request, person) for request in _open(workspace)]


def notices(workspace: Workspace) -> list[Notice]:
    """Return the newest notices of a workspace."""
    return list(Notice.objects.filter(workspace=workspace).select_related("run").order_by("-id")[:20])


def waiting_for(person: Person, workspace: Workspace) -> int:
    """Return how many open requests this person did not ask for and has not let expire."""
    rows = ApprovalRequest.objects.filter(
        branch__workspace=workspace,
        end__isnull=True,
        decisions__isnull=True,
        branch__redemption__isnull=True,
        expires_at__gt=now(),
    )
    return rows.exclude(requester=person).exclude(branch__fork_point__forker=person).count()


def _row(request: ApprovalRequest, person: Person) -> InboxRow:
    subject = json.loads(request.subject)
    configuration = subject["configuration"]
    return InboxRow(
        request=request,
        barred=barred_people(request.branch, request).get(person.pk),
        effects=len(subject["effects"]),
        undecided=sum(1 for effect in subject["effects"].values() if effect["decision"] is not None),
        edits=len(subject["edits"]),
        changed_configuration=configuration["original"] != configuration["pinned"],
        expires_at=request_ends(request),
        expired=request_ends(request) < now(),
    )
