"""The decision page: exactly what a request is bound to, and whether this person may decide it."""

import json
from dataclasses import dataclass
from typing import Any

from branches.models import ApprovalRequest, Person
from branches.queries.authority import barred_people, request_ends
from branches.queries.branch_facts import BranchView
from branches.queries.branch_page import BranchPage, page_now
from branches.queries.subject import Difference, differences, subject_digest, subject_of


@dataclass(frozen=True, slots=True)
class DecisionPage:
    """A request beside its branch as it is now."""

    request: ApprovalRequest
    view: BranchView
    page: BranchPage
    digest: str
    changed: tuple[Difference, ...]
    barred: str | None
    closed: str | None


def decision_page(request: ApprovalRequest, person: Person) -> DecisionPage:
    """Return what the approver sees; `closed` says why nothing can be decided any more."""
    page = page_now(request.branch)
    view = page.view
    subject: dict[str, Any] = subject_of(view, request.requester)
    return DecisionPage(
        request=request,
        view=view,
        page=page,
        digest=subject_digest(subject),
        changed=differences(json.loads(request.subject), subject) if view.redemption is None else (),
        barred=barred_people(request.branch, request).get(person.pk),
        closed=_closed(request, view),
    )


def _closed(request: ApprovalRequest, view: BranchView) -> str | None:
    if view.redemption is not None:
        return "consumed"
    if hasattr(request, "end"):
        return request.end.word
    votes = list(request.decisions.select_related("approver"))
    if votes:
        return votes[-1].word
    return "expired" if view.at > request_ends(request) else None
