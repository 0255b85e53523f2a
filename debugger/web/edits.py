"""Editing a message or a state value: the old text comes live from the recorder, the new one goes to it."""

import json
from dataclasses import dataclass, replace

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from branches.commands.edit_content import edit_message, edit_value
from branches.commands.fork_branch import EDIT_CLASSES
from branches.commands.refusal import Refused
from branches.evidence.keys import is_hmac
from branches.queries.content import Wanted
from branches.queries.edit_page import edit_page
from branches.queries.lookups import RunRow, branch_named
from debugger.exchange import fetch_content
from debugger.web.access import PageRequest, member, said_no

_UNREADABLE = "answer_unreadable"


@dataclass(frozen=True, slots=True)
class Value:
    """One value of a state key: its name from the recorder, the HMAC of that, and why it is not edited."""

    channel: str
    target: str
    problem: str | None


@dataclass(frozen=True, slots=True)
class Shown:
    """What the recorder showed: the text of what was chosen, the values of a chosen key, or a problem."""

    text: str | None = None
    problem: str | None = None
    values: tuple[Value, ...] = ()
    value: Value | None = None


@member
@never_cache
@require_http_methods(["GET", "POST"])
def edit(request: PageRequest, uid: str) -> HttpResponse:
    """Show what can be edited and the chosen text live, or record an edit by its digest."""
    row = branch_named(request.workspace, uid)
    if request.method == "GET":
        chosen = request.GET
        return _page(request, row, chosen.get("message"), chosen.get("key"), chosen.get("value"))
    form = request.POST
    key, target = form.get("state_key"), form.get("target", "")
    try:
        _record(request, row)
    except Refused as refused:
        message, value = (None, target) if key else (target, None)
        return _page(request, row, message, key, value, refused)
    messages.success(
        request, "Edit recorded by its digest. The text is sealed to the recorder and is not kept here."
    )
    back = redirect("branch", uid=uid)
    back["Location"] += "#edits"
    return back


def _record(request: PageRequest, row: RunRow) -> None:
    form = request.POST
    target, text, edit_class = form.get("target", ""), form.get("text", ""), form.get("edit_class", "")
    if state_key := form.get("state_key"):
        edit_value(
            person=request.user,
            branch=row,
            state_key=state_key,
            target=target,
            text=text,
            edit_class=edit_class,
        )
    else:
        edit_message(person=request.user, branch=row, target=target, text=text, edit_class=edit_class)


def _page(
    request: PageRequest,
    row: RunRow,
    message: str | None,
    key: str | None,
    value: str | None,
    refused: Refused | None = None,
) -> HttpResponse:
    """Render the page; after a refusal with what the person typed, which is nowhere else."""
    page = edit_page(row, message=message, key=key)
    shown = _live(page.wanted, value)
    if refused is not None:
        shown = replace(shown, text=request.POST.get("text", ""))
    context = {
        "branch": row,
        "page": page,
        "shown": shown,
        "refused": None if refused is None else said_no(request, refused),
        "edit_class": request.POST.get("edit_class") or row.fork_point.edit_class,
        "edit_classes": EDIT_CLASSES,
        "section": "branches",
    }
    return render(request, "edit.html", context, status=200 if refused is None else 422)


def _live(wanted: Wanted | None, value: str | None) -> Shown:
    if wanted is None:
        return Shown()
    text, problem = fetch_content(wanted)
    if wanted.kind != "values":
        return Shown(text, problem)
    values = _values(text)
    if values is None:
        return Shown(problem=problem or _UNREADABLE)
    chosen = next((each for each in values if each.target == value and each.problem is None), None)
    if chosen is None:
        return Shown(values=values)
    text, problem = fetch_content(replace(wanted, kind="value", subject=chosen.target))
    return Shown(text, problem, values, chosen)


def _values(text: str | None) -> tuple[Value, ...] | None:
    """Read a recorder's list; None where it is not one."""
    try:
        found = tuple(
            Value(each["channel"], each["target"], each["problem"]) for each in json.loads(text or "")
        )
    except (ValueError, TypeError, KeyError):
        return None
    return found if all(_is_fit(each) for each in found) else None


def _is_fit(value: Value) -> bool:
    return (
        isinstance(value.channel, str)
        and isinstance(value.target, str)
        and is_hmac(value.target)
        and (value.problem is None or isinstance(value.problem, str))
    )
