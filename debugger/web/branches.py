"""The branch page and what an engineer does on it."""

from collections.abc import Callable
from typing import Any, Final

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_POST

from branches.commands.acknowledge_drift import acknowledge_drift
from branches.commands.check_outcome import offer_outcome
from branches.commands.confirm_outcome import confirm_outcome
from branches.commands.decide import REJECT_REASONS
from branches.commands.issue_permit import issue_permit
from branches.commands.pin_configuration import change_configuration
from branches.commands.reconcile_effect import attest_ledger, judge_effect, reconcile_effect
from branches.commands.refusal import Refused
from branches.commands.request_approval import request_approval, withdraw_request
from branches.queries.branch_page import page_now
from branches.queries.governance import governance_receipt
from branches.queries.lookups import RunRow, branch_named, request_named, run_named
from branches.queries.registry_drift import registry_drift
from debugger.web.access import PageRequest, member, number, refuse, said_no


@member
@require_GET
def branch(request: PageRequest, uid: str) -> HttpResponse:
    """Show a branch; htmx asks for its moving part alone."""
    row = branch_named(request.workspace, uid)
    page = page_now(row)
    if request.htmx and request.GET.get("seen") == page.signature:
        # Nothing moved: what the person opened or focused stays as it is.
        return HttpResponse(status=204)
    context = {"page": page, "reject_reasons": REJECT_REASONS, "section": "branches"}
    if request.htmx:
        return render(request, "branch.html#live", context)
    return render(request, "branch.html", {**context, "registry": registry_drift(row)})


@member
@require_GET
def branch_effects(request: PageRequest, uid: str) -> HttpResponse:
    """Show the whole ledger of a branch."""
    page = page_now(branch_named(request.workspace, uid))
    return render(request, "effects.html", {"page": page, "section": "branches"})


# The person was shown something else than what is there: nothing is done, and they look again.
_CHANGED: Final = frozenset({"digest_changed", "changed_since_shown"})


def _act(
    request: PageRequest, uid: str, act: Callable[[RunRow], Any], done: str, anchor: str
) -> HttpResponse:
    """Run one command on a branch; come back to where the person was, with its answer in words."""
    row = branch_named(request.workspace, uid)
    try:
        act(row)
    except Refused as refused:
        if refused.rule in _CHANGED:
            return _conflict(request, row, refused)
        refuse(request, refused)
    else:
        messages.success(request, done)
    back = redirect("branch", uid=uid)
    back["Location"] += anchor
    return back


def _conflict(request: PageRequest, row: RunRow, refused: Refused) -> HttpResponse:
    context = {
        "branch": row,
        "words": said_no(request, refused),
        "difference": refused.difference,
        "section": "branches",
    }
    return render(request, "changed.html", context, status=409)


@member
@require_POST
def reconcile(request: PageRequest, uid: str) -> HttpResponse:
    """Accept what the destination's answer supports, or propose skip or repeat."""
    form = request.POST
    return _act(
        request,
        uid,
        lambda row: reconcile_effect(
            person=request.user,
            branch=row,
            operation_key=form.get("operation", ""),
            shown=form.get("shown", ""),
            decision=form.get("decision") or None,
        ),
        "Recorded, with the destination’s answer as its basis.",
        "#gate-3",
    )


@member
@require_POST
def judge(request: PageRequest, uid: str) -> HttpResponse:
    """Judge an effect that no answer of a destination can settle."""
    form = request.POST
    return _act(
        request,
        uid,
        lambda row: judge_effect(
            person=request.user,
            branch=row,
            operation_key=form.get("operation", ""),
            shown=form.get("shown", ""),
            judgement=form.get("judgement", ""),
            reason=form.get("reason", ""),
        ),
        "Recorded as your judgement.",
        "#gate-3",
    )


@member
@require_POST
def acknowledge(request: PageRequest, uid: str) -> HttpResponse:
    """Accept a key's drift: the branch becomes a diagnosis."""
    form = request.POST
    return _act(
        request,
        uid,
        lambda row: acknowledge_drift(
            person=request.user,
            branch=row,
            key=form.get("key", ""),
            shown=form.get("shown", ""),
            reason=form.get("reason", ""),
        ),
        "Drift acknowledged. This branch is a diagnosis, not an exact reproduction.",
        "#gate-2",
    )


@member
@require_POST
def attest(request: PageRequest, uid: str) -> HttpResponse:
    """Vouch that a run's effects are all recorded."""
    run = run_named(request.workspace, request.POST.get("run", ""))
    reason, through = request.POST.get("reason", ""), number(request.POST.get("through")) or 0
    return _act(
        request,
        uid,
        lambda row: attest_ledger(person=request.user, branch=row, run=run, through=through, reason=reason),
        "Attested under your name.",
        "#gate-3",
    )


@member
@require_POST
def ask_approval(request: PageRequest, uid: str) -> HttpResponse:
    """Ask for authority over the branch as it is now."""
    return _act(
        request,
        uid,
        lambda row: request_approval(person=request.user, branch=row),
        "Approval requested. Any change of the branch supersedes it.",
        "#gate-4",
    )


@member
@require_POST
def withdraw(request: PageRequest, uid: str) -> HttpResponse:
    """Take a request back."""
    asked = request_named(request.workspace, request.POST.get("request", ""))
    return _act(
        request,
        uid,
        lambda _row: withdraw_request(person=request.user, request=asked),
        "Request withdrawn.",
        "#gate-4",
    )


@member
@require_POST
def resume(request: PageRequest, uid: str) -> HttpResponse:
    """Issue the one-time permit, bound to the digest the page displayed."""
    digest = request.POST.get("digest", "")
    return _act(
        request,
        uid,
        lambda row: issue_permit(person=request.user, branch=row, digest=digest),
        "Permit issued. The recorder redeems it where the agent runs.",
        "#resume",
    )


@member
@require_GET
def governance(request: PageRequest, uid: str) -> HttpResponse:
    """Download the signed, content-free receipt of the six gates."""
    row = branch_named(request.workspace, uid)
    response = HttpResponse(governance_receipt(row), content_type="application/json")
    response["Content-Disposition"] = f'attachment; filename="{row.uid}.governance.json"'
    return response


@member
@require_POST
def configure(request: PageRequest, uid: str) -> HttpResponse:
    """Change one part of the branch's configuration."""
    form = request.POST
    return _act(
        request,
        uid,
        lambda row: change_configuration(
            person=request.user,
            branch=row,
            agent=form.get("agent", ""),
            key=form.get("key", ""),
            value=form.get("value", ""),
        ),
        "Configuration changed and pinned anew.",
        "#gate-5",
    )


@member
@require_POST
def confirm(request: PageRequest, uid: str) -> HttpResponse:
    """Take a reviewer's word on an outcome that only a person can find."""
    check = request.POST.get("check", "")
    return _act(
        request,
        uid,
        lambda row: confirm_outcome(person=request.user, branch=row, check=check),
        "Recorded under your name.",
        "#gate-6",
    )


@member
@require_POST
def offer(request: PageRequest, uid: str) -> HttpResponse:
    """Offer a version at the destination as this branch's outcome; the destination is asked."""
    version = request.POST.get("version", "")
    return _act(
        request,
        uid,
        lambda row: offer_outcome(person=request.user, branch=row, version=version),
        "The destination confirmed it.",
        "#gate-6",
    )
