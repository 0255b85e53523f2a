"""The decision page: exactly what a request is bound to, and whether this person may decide it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from branches.models import ApprovalRequest, Person, SealedEdit
from branches.queries.authority import barred_people, request_ends
from branches.queries.authority_words import why_not
from branches.queries.branch_facts import BranchView
from branches.queries.branch_page import BranchPage, page_now
from branches.queries.chains import links
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
    why_not: str
    """Why this person cannot decide: `own_work:…`, `voted`, `no_standing`, or empty."""
    closed: str | None
    readable: frozenset[int]
    """The edits whose text the recorder can still show."""
    disclosed: Mapping[str, tuple[str, ...]]
    """By an edit's digest, who was shown it."""


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
        why_not=why_not(view, person),
        closed=_closed(request, view),
        readable=frozenset(
            SealedEdit.objects.filter(edit__branch=request.branch).values_list("edit_id", flat=True)
        ),
        disclosed=_disclosed(request),
    )


def _disclosed(request: ApprovalRequest) -> dict[str, tuple[str, ...]]:
    found = links([request.branch_id], ("edit_disclosed",))
    names = dict(
        Person.objects.filter(uid__in={each.body["person"] for each in found}).values_list("uid", "username")
    )
    shown: dict[str, tuple[str, ...]] = {}
    for each in found:
        name = names.get(each.body["person"], "somebody")
        known = shown.get(each.body["edit"], ())
        shown[each.body["edit"]] = known if name in known else (*known, name)
    return shown


def _closed(request: ApprovalRequest, view: BranchView) -> str | None:
    if view.redemption is not None:
        return "consumed"
    if hasattr(request, "end"):
        return request.end.word
    if any(vote.word == "rejected" for vote in request.decisions.all()):
        return "rejected"
    if hasattr(request, "grant"):
        return "approved"
    return "expired" if view.at > request_ends(request) else None
