"""The three audits of a run: who owns the work, was it the coordination that was meant, why did it stop."""

from collections.abc import Callable

from django.contrib import messages
from django.http import HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_POST

from branches.commands.recover_handoff import recover_handoff
from branches.commands.refusal import Refused
from branches.commands.route_approval import route_approval
from branches.queries.audit_page import audit_page
from branches.queries.clock import now
from branches.queries.lookups import RunRow, run_named
from branches.queries.registry_drift import registry_drift
from debugger.web.access import PageRequest, member, moment, refuse


@member
@require_GET
def audits(request: PageRequest, uid: str) -> HttpResponse:
    """Show the handoff board, the topology matrix and the stops of a run, judged now."""
    return _page(request, run_named(request.workspace, uid), QueryDict(), status=200)


def _page(request: PageRequest, run: RunRow, sent: QueryDict, *, status: int) -> HttpResponse:
    """Show the page with what was typed before, where a form was refused."""
    context = {
        "run": run,
        "sent": sent,
        "page": audit_page(run, now()),
        "registry": registry_drift(run),
        "section": "branches" if run.parent_id else "runs",
    }
    return render(request, "audits.html", context, status=status)


@member
@require_POST
def recover(request: PageRequest, uid: str) -> HttpResponse:
    """Decide how a handoff is recovered, within its bounds."""
    form = request.POST
    return _act(
        request,
        uid,
        lambda run: recover_handoff(
            person=request.user,
            run=run,
            operation=form.get("operation", ""),
            action=form.get("action", ""),
            shown=form.get("shown", ""),
            owner=form.get("owner", ""),
        ),
        "Decided, within the bounds that are shown. Nothing happens by itself: the runtime carries it out.",
        "#handoffs",
    )


@member
@require_POST
def route(request: PageRequest, uid: str) -> HttpResponse:
    """Name whom an unrouted approval waits for."""
    form = request.POST
    return _act(
        request,
        uid,
        lambda run: route_approval(
            person=request.user,
            run=run,
            stopped=form.get("stopped", ""),
            owner=form.get("owner", ""),
            deadline=moment(form.get("deadline", "")),
            resume_token=form.get("resume_token", ""),
        ),
        "Routed. It is waiting now, and not stuck.",
        "#stops",
    )


def _act(
    request: PageRequest, uid: str, act: Callable[[RunRow], None], done: str, anchor: str
) -> HttpResponse:
    """Run one command on a run; come back to where the person was, with its answer in words."""
    run = run_named(request.workspace, uid)
    try:
        act(run)
    except Refused as refused:
        refuse(request, refused)
        status = 409 if refused.rule == "changed_since_shown" else 422
        return _page(request, run, request.POST, status=status)
    messages.success(request, done)
    back = redirect("audits", uid=uid)
    back["Location"] += anchor
    return back
