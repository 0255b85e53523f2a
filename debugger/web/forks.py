"""Forking: choose a checkpoint, see what a replay would repeat, and name why."""

from django.contrib import messages
from django.http import HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from branches.commands.fork_branch import EDIT_CLASSES, fork_branch
from branches.commands.refusal import Refused
from branches.evidence.kinds.product import CHANGE_KINDS, REASON_CODES
from branches.queries.declarations import ExpectedOutcome
from branches.queries.fork_page import fork_page
from branches.queries.lookups import RunRow, is_online, run_named
from branches.queries.targets import expectations
from branches.registry import names
from debugger.web.access import PageRequest, member, refuse


@member
@require_http_methods(["GET", "POST"])
def fork(request: PageRequest, uid: str) -> HttpResponse:
    """Show the fork page, or fork."""
    run = run_named(request.workspace, uid)
    if request.method == "POST":
        return _fork(request, run)
    return _page(request, run, request.GET, status=200)


def _page(request: PageRequest, run: RunRow, form: QueryDict, *, status: int) -> HttpResponse:
    """Show the page with what was typed before, where something was."""
    page = fork_page(run, form.get("checkpoint"))
    context = {
        "page": page,
        "run": run,
        "section": "runs",
        "reasons": REASON_CODES,
        "edit_classes": EDIT_CLASSES,
        "kinds": CHANGE_KINDS,
        "verifiers": names("verifiers"),
        "expectations": expectations(),
        "own": {
            "reason_code": form.get("reason_code", "false_success"),
            "edit_class": form.get("edit_class", ""),
            "hypothesis": form.get("hypothesis", ""),
            "expected": form.get("expected", ""),
            "kinds": form.getlist("kinds"),
            "verifier": form.get("verifier", page.declared.verifier if page.declared else ""),
        },
        "online": is_online(run.recorder),
    }
    return render(request, "fork.html", context, status=status)


def _fork(request: PageRequest, run: RunRow) -> HttpResponse:
    form = request.POST
    try:
        branch = fork_branch(
            person=request.user,
            parent=run,
            checkpoint=form.get("checkpoint", ""),
            reason_code=form.get("reason_code", ""),
            edit_class=form.get("edit_class", ""),
            hypothesis=form.get("hypothesis", ""),
            outcome=_expected(form),
            kinds=form.getlist("kinds"),
        )
    except Refused as refused:
        refuse(request, refused)
        return _page(request, run, form, status=422)
    messages.success(request, "Branch forked. The parent is untouched; nothing runs before five gates pass.")
    return redirect("branch", uid=branch.uid)


def _expected(form: QueryDict) -> ExpectedOutcome | None:
    """Return the outcome that the form chooses (its target and its name), or None for the declared one."""
    place, _, expected = form.get("expected", "").partition(" ")
    return ExpectedOutcome(expected, form.get("verifier", ""), place) if place else None
