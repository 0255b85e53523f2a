"""Connecting one's own work, step by step: workflow, recorder, destinations, a first run."""

from typing import Final

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from branches.commands.connect import RECORDER_SCOPES, declare_workflow, issue_recorder_token
from branches.commands.refusal import Refused
from branches.queries.connect_page import connect_page
from branches.queries.workflow_text import starter
from debugger.web.access import PageRequest, member, said_no
from debugger.web.changes import waits
from debugger.web.confirmation import confirmed

RUNTIMES: Final = tuple(RECORDER_SCOPES)


@member
@require_GET
def connect(request: PageRequest) -> HttpResponse:
    """Show the four steps and what is missing next."""
    return _page(request, text=starter(request.GET), status=200)


@member
@require_POST
def publish(request: PageRequest) -> HttpResponse:
    """Publish a workflow from its text, or from a file that was chosen."""
    text = _text(request)
    try:
        done = declare_workflow(person=request.user, workspace=request.workspace, text=text)
    except Refused as refused:
        return _page(request, text=text, status=422, refused=refused)
    if done.workflow is None:
        words = waits(done.change) or "It is published."
        messages.info(request, f"It asks less for than what is published. {words}")
        return redirect("policies")
    name = f"{done.workflow.name} {done.workflow.version}"
    messages.success(request, f"{name} is published, and never changes from here on.")
    return redirect("connect")


@member
@never_cache
@require_POST
@confirmed
def token(request: PageRequest) -> HttpResponse:
    """Make a token for a recorder and show it this once, with the lines that use it."""
    form = request.POST
    runtime = form.get("runtime", "")
    try:
        if runtime not in RUNTIMES:
            raise Refused(rule="enum", field="runtime")
        secret = issue_recorder_token(
            person=request.user, workspace=request.workspace, name=form.get("name", ""), runtime=runtime
        )
    except Refused as refused:
        return _page(request, text=starter(request.GET), status=422, refused=refused)
    workflows = reversed(connect_page(request.workspace).workflows)
    newest = next((row for row in workflows if row.runtime == runtime), None)
    written = {
        "server": request.build_absolute_uri("/").rstrip("/"),
        "workflow": newest and newest.name,
        "version": newest and newest.version,
        "memory": newest and newest.memory,
    }
    lines = render_to_string(f"connect/{runtime}.txt", written)
    context = {
        "secret": secret,
        "lines": lines,
        "runtime": runtime,
        "scopes": RECORDER_SCOPES[runtime],
        "section": "connect",
    }
    return render(request, "connect_token.html", context)


def _text(request: PageRequest) -> str:
    chosen = request.FILES.get("file")
    if chosen is None:
        return str(request.POST.get("declaration", ""))
    return str(chosen.read(512 * 1024), "utf-8", "replace")


def _page(request: PageRequest, *, text: str, status: int, refused: Refused | None = None) -> HttpResponse:
    context = {
        "page": connect_page(request.workspace),
        "text": text,
        "runtimes": RUNTIMES,
        "refused": refused,
        "words": None if refused is None else said_no(request, refused),
        "section": "connect",
    }
    return render(request, "connect.html", context, status=status)
