"""The one access rule: a person signs in, and sees only the workspace they hold a role in."""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import wraps
from typing import Any, Concatenate, Final, cast

from django.contrib import messages
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import BadRequest, PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django_htmx.middleware import HtmxDetails

from branches.commands.note_refusal import note_refusal
from branches.commands.refusal import Refused
from branches.queries.authority import roles_of
from branches.queries.lookups import NotHere, PersonRow, WorkspaceRow
from debugger.web.refusals import refusal_words
from debugger.web.second_factor import must_set_up
from debugger.web.workspaces import workspace_now

READERS: Final = frozenset({"viewer", "auditor"})
"""Roles that see everything and change nothing."""
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})


class PageRequest(HttpRequest):
    """A request of somebody who belongs here."""

    htmx: HtmxDetails
    user: PersonRow
    workspace: WorkspaceRow
    roles: frozenset[str]


type View[**P] = Callable[Concatenate[PageRequest, P], HttpResponseBase]


def member[**P](view: View[P]) -> Callable[Concatenate[Any, P], HttpResponseBase]:
    """Let a view be seen by members of a workspace only; what is not theirs is 404, as if not there."""

    @wraps(view)
    def guarded(request: Any, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
        if not request.user.is_authenticated:
            return sign_in_first(request)
        if _has_nul(request.GET) or _has_nul(request.POST):
            raise BadRequest  # no database takes one, and no field of ours means it
        workspace = workspace_now(request)
        roles = roles_of(request.user, workspace) if workspace is not None else frozenset[str]()
        if workspace is None or not roles:
            return render(request, "no_workspace.html", status=403)
        request.workspace, request.roles = workspace, roles
        if must_set_up(request, request.user, roles):
            return _set_up(request)
        if roles <= READERS and request.method not in _SAFE and not hasattr(view, "for_readers"):
            _note(request, "readers_change_nothing")
            return render(request, "readers.html", status=403)
        try:
            return view(request, *args, **kwargs)
        except NotHere:
            raise Http404 from None
        except PermissionDenied:
            if request.method not in _SAFE:
                _note(request, "role")
            raise

    return cast("Callable[Concatenate[Any, P], HttpResponseBase]", guarded)


def for_readers[V: Callable[..., Any]](view: V) -> V:
    """Let a POST be sent even by those who only read: it changes nothing of the workspace."""
    view.for_readers = True  # type: ignore[attr-defined]
    return view


def require_role(request: PageRequest, *roles: str) -> None:
    """Refuse whoever holds none of these roles. Raises PermissionDenied, with what it takes."""
    if request.roles.isdisjoint(roles):
        raise PermissionDenied(
            f"This page is for {' and '.join(role.replace('_', ' ') + 's' for role in roles)}."
        )


def _set_up(request: PageRequest) -> HttpResponseBase:
    """Send somebody to the pages where a second factor is set up."""
    if request.htmx:
        return HttpResponse(status=401, headers={"HX-Refresh": "true"})
    messages.warning(
        request,
        "Approvers, destination owners and policy admins need a second factor. Set one up, then go on.",
    )
    return redirect("mfa_index")


def _has_nul(form: QueryDict) -> bool:
    return any("\0" in value for _, values in form.lists() for value in values)


def sign_in_first(request: Any) -> HttpResponseBase:
    """Send a stranger to the sign-in page; a fragment's page is reloaded rather than filled with a form."""
    if request.htmx:
        return HttpResponse(status=401, headers={"HX-Refresh": "true"})
    return redirect_to_login(request.get_full_path())


def number(text: str | None) -> int | None:
    """Return a number that a form or an address gives, no more than a database takes, or None."""
    if not text or not text.isascii() or not text.isdigit():
        return None
    return min(int(text[:12]), 2**31)


def moment(text: str) -> datetime:
    """Return the moment that a date-and-time field of a form gives, in UTC. Raises Refused."""
    try:
        found = datetime.fromisoformat(text)
        return found.astimezone(UTC) if found.tzinfo is not None else found.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise Refused(rule="moment", field="deadline") from None


def refuse(request: PageRequest, refused: Refused) -> None:
    """Show a refusal on the next page: what rule said no, in words."""
    messages.error(request, said_no(request, refused))


def said_no(request: PageRequest, refused: Refused) -> str:
    """Record a refusal of what a person wanted to do, and return it in words."""
    _note(request, refused.rule)
    return refusal_words(refused)


def _note(request: PageRequest, rule: str) -> None:
    match = request.resolver_match
    if match is not None and match.url_name is not None:
        note_refusal(
            person=request.user,
            workspace=request.workspace,
            action=match.url_name.replace("-", "_"),
            rule=rule,
            subject=match.kwargs.get("uid"),
        )
