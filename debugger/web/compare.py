"""Sibling branches side by side, and the reviewer's conclusion over them."""

from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_POST

from branches.commands.conclude import CONCLUSIONS, conclude
from branches.commands.refusal import Refused
from branches.evidence.kinds.product import LESSONS
from branches.queries.compare import MAX_COLUMNS, comparison
from branches.queries.lookups import branch_named, run_named
from debugger.web.access import PageRequest, member, refuse


@member
@require_GET
def compare(request: PageRequest, uid: str) -> HttpResponse:
    """Compare up to four branches: `with` chooses them, `branch` is the one looked from."""
    run = run_named(request.workspace, uid)
    here = request.GET.get("branch") or (uid if run.parent_id else "")
    chosen = request.GET.getlist("with")
    only = request.GET.get("only") == "differences"
    found = comparison(run, chosen=chosen, only_differences=only, here=here)
    kept = [("branch", here)] if here else []
    kept += [("with", branch.uid) for branch in found.columns]
    toggled = kept if only else [*kept, ("only", "differences")]
    context = {
        "run": run,
        "compared": found,
        "here": here,
        "shown": {branch.uid for branch in found.columns},
        "only": only,
        "toggle": urlencode(toggled),
        "most": MAX_COLUMNS,
        "span": len(found.columns) + 1,
        "conclusions": CONCLUSIONS,
        "lessons": LESSONS,
        "section": "runs",
    }
    return render(request, "compare.html", context)


@member
@require_POST
def conclude_family(request: PageRequest, uid: str) -> HttpResponse:
    """Write a reviewer's conclusion on the root's chain."""
    run = run_named(request.workspace, uid)
    root = run.root if run.root is not None else run
    chosen = request.POST.get("chosen", "")
    try:
        conclude(
            person=request.user,
            root=root,
            conclusion=request.POST.get("conclusion", ""),
            chosen=branch_named(request.workspace, chosen) if chosen else None,
            learnt=request.POST.getlist("learnt"),
            note=request.POST.get("note", ""),
            closes="closes" in request.POST,
        )
    except Refused as refused:
        refuse(request, refused)
    else:
        messages.success(request, "The conclusion is written.")
    return redirect("compare", uid=root.uid)
