"""The run list, and a run's timeline: its map, one window of its receipts, and its branches."""

from typing import Any, Final
from urllib.parse import urlencode

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET

from branches.queries.audit_page import audit_summary
from branches.queries.branch_list import branch_rows, branches_of
from branches.queries.clock import now
from branches.queries.lookups import RunRow, run_named
from branches.queries.message_map import message_map
from branches.queries.registry_drift import registry_drift
from branches.queries.run_list import FILTERS, run_list
from branches.queries.run_page import BEFORE, found_runs, opening
from branches.queries.timeline import MARKS, jump, run_head, window
from debugger.web.access import PageRequest, member, number
from debugger.web.map_bytes import map_bytes

FILTER_NAMES: Final = {
    "needs-me": "Needs me",
    "failed": "Failed",
    "false-success": "False success",
    "uncertain": "Uncertain",
    "all": "All",
}


@member
@require_GET
def runs(request: PageRequest) -> HttpResponse:
    """Show the newest runs; the filter and the page are in the address."""
    chosen = request.GET.get("show", "all")
    chosen = chosen if chosen in FILTERS else "all"
    found = run_list(request.workspace, chosen=chosen, before=request.GET.get("before"), find="")
    filters = [(name, FILTER_NAMES[name], found.counts[name]) for name in FILTERS]
    context = {"list": found, "filters": filters, "chosen": chosen, "section": "runs"}
    return render(request, "runs.html", context)


@member
@require_GET
def find(request: PageRequest) -> HttpResponse:
    """Go to the run or branch that is meant, or show those that may be."""
    text = request.GET.get("q", "").strip()[:96]
    found = found_runs(request.workspace, text)
    if len(found) == 1:
        return redirect("branch" if found[0].parent_id else "run", uid=found[0].uid)
    return render(request, "find.html", {"found": found, "text": text, "section": "runs"})


@member
@require_GET
def run(request: PageRequest, uid: str) -> HttpResponse:
    """Show a run or a branch's own receipts; opens at the failure unless the address says where."""
    row = run_named(request.workspace, uid)
    head = run_head(row)
    opened = opening(row, head.stopped)
    at, mark = _place(request)
    shown = _window(row, at if at is not None else opened.at, mark if at is not None else opened.mark)
    context = {
        **shown,
        "head": head,
        "branch": branch_rows([row])[0] if row.parent_id is not None else None,
        "audits": audit_summary(row, now()),
        "branches": branches_of(row, before=request.GET.get("before")),
        "registry": registry_drift(row),
        "section": "branches" if row.parent_id else "runs",
    }
    return render(request, "run.html", context)


@member
@require_GET
def run_window(request: PageRequest, uid: str) -> HttpResponse:
    """Return one window of the timeline for htmx; without it, the page at that place."""
    row = run_named(request.workspace, uid)
    at, mark = _place(request)
    if not request.htmx:
        return redirect(_address(uid, at or 1, mark))
    return _fragment(request, row, at or 1, mark)


@member
@require_GET
def run_jump(request: PageRequest, uid: str, mark: str) -> HttpResponse:
    """Go to the next checkpoint, effect or failure after a seq; past the last one, to the first."""
    row = run_named(request.workspace, uid)
    if mark not in MARKS:
        raise Http404
    after = number(request.GET.get("after")) or 0
    found = jump(row, mark, after)
    if found is None:
        if request.htmx:
            return _fragment(request, row, max(1, after - BEFORE), None, note=f"This run has no {mark}.")
        messages.info(request, f"This run has no {mark}.")
        return redirect("run", uid=uid)
    at = max(1, found - BEFORE)
    return _fragment(request, row, at, found) if request.htmx else redirect(_address(uid, at, found))


@member
@require_GET
def run_map(request: PageRequest, uid: str) -> HttpResponse:
    """Return the message map as one small binary; its address carries the length, so it may be kept."""
    body = map_bytes(message_map(run_named(request.workspace, uid).pk))
    response = HttpResponse(body, content_type="application/octet-stream")
    response["Cache-Control"] = "private, max-age=600"
    return response


def _fragment(
    request: PageRequest, row: RunRow, at: int, mark: int | None, *, note: str = ""
) -> HttpResponse:
    response = render(request, "run.html#window", {**_window(row, at, mark), "note": note})
    response["HX-Replace-Url"] = _address(row.uid, at, mark)
    return response


def _window(row: RunRow, at: int, mark: int | None) -> dict[str, Any]:
    shown = window(row, at)
    lanes = message_map(row.pk).lanes
    after = mark if mark is not None else shown.first - 1
    return {"run": row, "window": shown, "lanes": lanes, "mark": mark, "after": after}


def _address(uid: str, at: int, mark: int | None) -> str:
    place = {"at": at} if mark is None else {"at": at, "mark": mark}
    anchor = "" if mark is None else f"#r{mark}"
    return f"{reverse('run', args=[uid])}?{urlencode(place)}{anchor}"


def _place(request: PageRequest) -> tuple[int | None, int | None]:
    return number(request.GET.get("at")), number(request.GET.get("mark"))
