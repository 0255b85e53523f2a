"""Invitations: made by a policy admin, shown once, and accepted by whoever has the link."""

from typing import Any

from allauth.account.internal.flows.login import record_authentication
from django.conf import settings
from django.contrib.auth import login
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from branches.commands.invite_person import (
    Accepted,
    PasswordRefused,
    accept_invitation,
    invitation_digest,
    invite_person,
    join_by_invitation,
    require_open,
    withdraw_invitation,
)
from branches.commands.refusal import Refused
from branches.queries.lookups import InvitationRow, NotHere, invitation_by, invitation_named
from branches.queries.people_page import invited_words
from debugger.web.access import PageRequest, member, number, refuse
from debugger.web.confirmation import confirmed
from debugger.web.invited import forget_invitation, remember_invitation
from debugger.web.refusals import refusal_words
from debugger.web.workspaces import choose_workspace

_BACKEND = "django.contrib.auth.backends.ModelBackend"


@member
@never_cache
@require_POST
@confirmed
def invite(request: PageRequest) -> HttpResponse:
    """Make an invitation and show its link, this once."""
    form = request.POST
    roles = [dict(zip(("role", "scope"), _split(each), strict=True)) for each in form.getlist("role")]
    try:
        invitation, secret = invite_person(
            person=request.user, workspace=request.workspace, roles=roles, days=number(form.get("days", "7"))
        )
    except Refused as refused:
        refuse(request, refused)
        return redirect("people")
    context = {
        "link": request.build_absolute_uri(reverse("invitation", args=[secret])),
        "invitation": invitation,
        "invited": invited_words(invitation),
        "section": "workspace",
        "tab": "people",
    }
    return render(request, "invitation_made.html", context)


def _split(choice: str) -> tuple[str, str]:
    role, _, scope = choice.partition(":")
    return role, scope


@member
@require_POST
@confirmed
def withdraw(request: PageRequest, uid: str) -> HttpResponse:
    """Take an invitation back."""
    row = invitation_named(request.workspace, uid)
    try:
        withdraw_invitation(person=request.user, invitation=row)
    except Refused as refused:
        refuse(request, refused)
    return redirect("people")


@never_cache
@require_http_methods(["GET", "POST"])
def invitation(request: HttpRequest, secret: str) -> HttpResponse:
    """Show an invitation, which changes nothing; or accept it."""
    try:
        row = invitation_by(invitation_digest(secret))
    except NotHere:
        raise Http404 from None
    try:
        require_open(row)
        if request.method == "POST":
            return _accept(request, row, secret)
    except PasswordRefused as refused:
        return _page(request, row, status=422, sentences=refused.sentences)
    except Refused as refused:
        is_over = refused.rule.startswith(("invitation_", "inviter_"))
        return _page(
            request, row, status=410 if is_over else 422, refused=refusal_words(refused), is_over=is_over
        )
    return _page(request, row, status=200)


def _accept(request: HttpRequest, row: InvitationRow, secret: str) -> HttpResponse:
    form = request.POST
    if form.get("way") == "provider" and settings.BRANCHGATE_OIDC_ISSUER:
        remember_invitation(request, secret)
        back = reverse("invitation", args=[secret])
        page = reverse("openid_connect_login", args=["oidc"])
        return redirect(f"{page}?{urlencode({'next': back, 'process': 'login'})}")
    if request.user.is_authenticated:
        done = accept_invitation(person=request.user, invitation=row)
    else:
        if form.get("password") != form.get("again"):
            raise Refused(rule="passwords_differ", field="password")
        done = join_by_invitation(
            invitation=row, username=form.get("name", "").strip(), password=form.get("password", "")
        )
        record_authentication(request, done.person, method="password")
        login(request, done.person, backend=_BACKEND)
    return _welcome(request, done)


def _welcome(request: Any, done: Accepted) -> HttpResponse:
    forget_invitation(request)
    request.__dict__.pop("workspaces_here", None)
    choose_workspace(request, done.invitation.workspace.uid)
    return redirect("runs")


def _page(request: HttpRequest, row: InvitationRow, *, status: int, **more: Any) -> HttpResponse:
    context = {
        "row": row,
        "invited": invited_words(row),
        "name": request.POST.get("name", ""),
        "provider": settings.BRANCHGATE_OIDC_NAME if settings.BRANCHGATE_OIDC_ISSUER else "",
        **more,
    }
    return render(request, "invitation.html", context, status=status)
