"""Who belongs to the workspace: roles, groups and leaving."""

from datetime import UTC, date, datetime, time

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_POST

from branches.commands.change_group import add_group, change_membership
from branches.commands.change_role import CLASSES, give_role, withdraw_role
from branches.commands.invite_person import LIVES
from branches.commands.refusal import Refused
from branches.commands.remove_person import remove_person
from branches.queries.lookups import group_named, member_named
from branches.queries.people_page import people_page
from debugger.web.access import PageRequest, for_readers, member, refuse
from debugger.web.changes import waits
from debugger.web.confirmation import confirmed
from debugger.web.second_factor import with_second_factor
from debugger.web.workspaces import choose_workspace


@member
@require_GET
def people(request: PageRequest) -> HttpResponse:
    """Show everybody with their roles and groups, and to those who may the forms that change them."""
    page = people_page(request.workspace, request.user)
    context = {
        "page": page,
        "secured": with_second_factor(each.person.pk for each in page.members),
        "classes": CLASSES,
        "lives": LIVES,
        "is_admin": "policy_admin" in request.roles,
        "sees_invitations": not request.roles.isdisjoint({"policy_admin", "auditor"}),
        "section": "workspace",
        "tab": "people",
    }
    return render(request, "people.html", context)


@member
@require_POST
@confirmed
def give(request: PageRequest) -> HttpResponse:
    """Give or prolong a role; one that gives authority is proposed to others."""
    form = request.POST
    subject = member_named(request.workspace, form.get("person", ""))
    try:
        change = give_role(
            person=request.user,
            workspace=request.workspace,
            subject=subject,
            role=form.get("role", ""),
            scope=form.get("scope", ""),
            until=last_day(form.get("until", "")),
        )
    except Refused as refused:
        refuse(request, refused)
        return redirect("people")
    messages.success(request, waits(change) or "The role is given.")
    return redirect("people")


@member
@require_POST
@confirmed
def withdraw(request: PageRequest) -> HttpResponse:
    """Take a role, at once."""
    form = request.POST
    subject = member_named(request.workspace, form.get("person", ""))
    try:
        withdraw_role(
            person=request.user,
            workspace=request.workspace,
            subject=subject,
            role=form.get("role", ""),
            scope=form.get("scope", ""),
        )
    except Refused as refused:
        refuse(request, refused)
    else:
        messages.success(request, "The role is withdrawn.")
    return redirect("people")


@member
@require_POST
@confirmed
def remove(request: PageRequest, uid: str) -> HttpResponse:
    """Take every role and membership of somebody."""
    subject = member_named(request.workspace, uid)
    try:
        remove_person(person=request.user, workspace=request.workspace, subject=subject)
    except Refused as refused:
        refuse(request, refused)
    else:
        messages.success(request, f"{subject.get_username()} belongs here no longer.")
    return redirect("people")


@member
@require_POST
@confirmed
def make_group(request: PageRequest) -> HttpResponse:
    """Make a group of people."""
    try:
        add_group(person=request.user, workspace=request.workspace, name=request.POST.get("name", ""))
    except Refused as refused:
        refuse(request, refused)
    else:
        messages.success(request, "The group is made.")
    return redirect("people")


@member
@require_POST
@confirmed
def membership(request: PageRequest, uid: str) -> HttpResponse:
    """Let somebody join a group, or leave it."""
    form = request.POST
    group = group_named(request.workspace, uid)
    subject = member_named(request.workspace, form.get("person", ""))
    try:
        change = change_membership(
            person=request.user, group=group, subject=subject, held=form.get("act") == "join"
        )
    except Refused as refused:
        refuse(request, refused)
    else:
        messages.success(request, waits(change) or "The group is changed.")
    return redirect("people")


@member
@for_readers
@require_POST
def switch(request: PageRequest) -> HttpResponse:
    """Look at another workspace that this person belongs to."""
    choose_workspace(request, request.POST.get("workspace", ""))
    return redirect("runs")


def last_day(text: str) -> datetime | None:
    """Return the end of the day that a date field gives, or None for an empty one. Raises Refused."""
    if not text:
        return None
    try:
        return datetime.combine(date.fromisoformat(text), time(23, 59, 59), tzinfo=UTC)
    except ValueError:
        raise Refused(rule="moment", field="until") from None
