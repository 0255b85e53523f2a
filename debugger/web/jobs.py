"""Jobs: asking for them, seeing them move, asking again, cancelling."""

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_POST

from branches.commands.ask_for_job import ask_as_person
from branches.commands.refusal import Refused
from branches.commands.run_job import cancel_job
from branches.queries.branch_facts import subjects_of
from branches.queries.lookups import job_named, run_named
from debugger.web.access import PageRequest, member, refuse

_ANCHORS = frozenset({"#gate-2", "#gate-3", "#gate-6"})


@member
@require_POST
def ask(request: PageRequest, uid: str) -> HttpResponse:
    """Ask for one piece of work on a run or branch, or for all of its kind."""
    run = run_named(request.workspace, uid)
    kind, subject = request.POST.get("kind", ""), request.POST.get("subject", "")
    try:
        for item in subjects_of(run, kind) if subject == "all" else [subject]:
            ask_as_person(person=request.user, workspace=request.workspace, kind=kind, run=run, subject=item)
    except Refused as refused:
        refuse(request, refused)
    else:
        messages.success(request, "Asked. The answer appears here as it comes.")
    back = redirect("branch" if run.parent_id else "run", uid=uid)
    anchor = request.POST.get("anchor", "")
    if anchor in _ANCHORS:
        back["Location"] += anchor
    return back


@member
@require_GET
def job(request: PageRequest, uid: str) -> HttpResponse:
    """Show one job; htmx polls the fragment only while it runs."""
    row = job_named(request.workspace, uid)
    template = "job.html#state" if request.htmx else "job.html"
    return render(request, template, {"job": row, "section": "runs"})


@member
@require_POST
def cancel(request: PageRequest, uid: str) -> HttpResponse:
    """Cancel a job that has not ended."""
    row = job_named(request.workspace, uid)
    try:
        cancel_job(person=request.user, job=row)
    except Refused as refused:
        refuse(request, refused)
    else:
        messages.success(request, "Cancelled.")
    return redirect("job", uid=uid)
