"""Content, shown live: it comes from the recorder, sealed, is shown once and kept nowhere."""

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from branches.queries.chains import Link
from branches.queries.content import Wanted, message_request, state_request
from branches.queries.lookups import RunRow, run_named
from debugger.exchange import fetch_content
from debugger.web.access import PageRequest, member


@member
@never_cache
@require_GET
def message(request: PageRequest, uid: str, seq: int) -> HttpResponse:
    """Show one message as the recorder holds it."""
    run = run_named(request.workspace, uid)
    item, wanted = message_request(run, seq)
    return _shown(request, run, item, wanted)


@member
@never_cache
@require_GET
def state(request: PageRequest, uid: str, seq: int, key: str) -> HttpResponse:
    """Show the value of a state key at a checkpoint as the recorder holds it."""
    run = run_named(request.workspace, uid)
    item, wanted = state_request(run, seq, key)
    return _shown(request, run, item, wanted)


def _shown(request: PageRequest, run: RunRow, item: Link, wanted: Wanted) -> HttpResponse:
    text, problem = fetch_content(wanted)
    context = {
        "run": run,
        "seq": item.seq,
        "item": item,
        "text": text,
        "problem": problem,
        "section": "runs",
    }
    template = "message.html#shown" if request.htmx else "message.html"
    return render(request, template, context)
