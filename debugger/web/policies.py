"""Policies: the one in effect, what the linter says of it, and changes that wait for others' word."""

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from branches.commands.decide_change import decide_change, withdraw_change
from branches.commands.propose_change import PolicyRefused, propose_policy
from branches.commands.refusal import Refused
from branches.queries.lookups import change_named
from branches.queries.policy_page import policy_page
from debugger.web.access import PageRequest, member, refuse
from debugger.web.confirmation import confirmed


@member
@require_http_methods(["GET", "POST"])
@confirmed
def policies(request: PageRequest) -> HttpResponse:
    """Show the policy in effect and the form that proposes another, or propose it."""
    if request.method == "POST":
        return _propose(request)
    return _page(request, None, status=200)


@member
@require_POST
@confirmed
def change(request: PageRequest, uid: str) -> HttpResponse:
    """Take this person's decision on a change of class CP, or take their own proposal back."""
    row, form = change_named(request.workspace, uid), request.POST
    try:
        if form.get("decision") == "withdrawn":
            withdraw_change(person=request.user, change=row)
        else:
            decide_change(
                person=request.user,
                change=row,
                word=form.get("decision", ""),
                digest=form.get("digest", ""),
            )
    except Refused as refused:
        refuse(request, refused)
    else:
        messages.success(request, f"You have {form.get('decision')} the change.")
    return redirect("policies")


def _propose(request: PageRequest) -> HttpResponse:
    text = request.POST.get("policy", "")
    try:
        row = propose_policy(person=request.user, workspace=request.workspace, text=text)
    except PolicyRefused as refused:
        return _page(request, text, status=422, problems=refused.problems)
    except Refused as refused:
        refuse(request, refused)
        return _page(request, text, status=403 if refused.rule.startswith("role:") else 422)
    words = "Adopted" if hasattr(row, "end") else f"Proposed: {row.needed} of the others have to agree"
    messages.success(request, f"{words}.")
    return redirect("policies")


def _page(
    request: PageRequest, text: str | None, *, status: int, problems: tuple[object, ...] = ()
) -> HttpResponse:
    page = policy_page(request.workspace, request.user)
    context = {
        "page": page,
        "text": page.text if text is None else text,
        "problems": problems,
        "section": "workspace",
        "tab": "policies",
    }
    return render(request, "policies.html", context, status=status)
