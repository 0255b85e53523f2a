"""Receipts as evidence: chains, whether they hold, where they break, and their exact bytes to take away."""

from django.contrib import messages
from django.http import HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_POST

from branches.commands.ask_for_job import ask_as_person
from branches.queries.api_views import exported
from branches.queries.job_kinds import VERIFY
from branches.queries.lookups import run_named
from branches.queries.receipt_page import CHAIN, chain_list, chain_status, receipt_window
from debugger.web.access import PageRequest, for_readers, member, number


@member
@require_GET
def receipts(request: PageRequest) -> HttpResponse:
    """Show every chain of the workspace with its length, its head and its newest check."""
    rows, older = chain_list(request.workspace, before=request.GET.get("before"))
    return render(request, "receipts.html", {"rows": rows, "older": older, "section": "receipts"})


@member
@require_GET
def run_receipts(request: PageRequest, uid: str) -> HttpResponse:
    """Show one window of a chain; htmx asks for the check's state alone while it runs."""
    run = run_named(request.workspace, uid)
    status = chain_status(run)
    if request.htmx and request.htmx.target == "chain":
        return render(request, "run_receipts.html#chain", {"run": run, "status": status})
    at = number(request.GET.get("at")) or 1
    context = {"run": run, "status": status, "window": receipt_window(run, at), "section": "receipts"}
    return render(request, "run_receipts.html", context)


@member
@for_readers
@require_POST
def verify(request: PageRequest, uid: str) -> HttpResponse:
    """Ask a worker to recompute a chain from its exact bytes."""
    run = run_named(request.workspace, uid)
    ask_as_person(person=request.user, workspace=request.workspace, kind=VERIFY, run=run, subject=CHAIN)
    messages.success(request, "Asked. The chain is recomputed from its exact bytes.")
    return redirect("run_receipts", uid=uid)


@member
@require_GET
def export(request: PageRequest, uid: str) -> HttpResponseBase:
    """Send a chain as NDJSON, exact bytes, so that it can be checked elsewhere without this product."""
    run = run_named(request.workspace, uid)
    response = StreamingHttpResponse(exported(run), content_type="application/x-ndjson")
    response["Content-Disposition"] = f'attachment; filename="{run.uid}.ndjson"'
    return response
