"""The machines' tokens: issued and shown once, listed with when they were last used, ended."""

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from branches.commands.admit import SCOPES
from branches.commands.give_token import LIVES, give_token, take_token
from branches.commands.refusal import Refused
from branches.queries.lookups import token_named
from branches.queries.tokens_page import tokens_page
from debugger.web.access import PageRequest, member, number, refuse, require_role, said_no
from debugger.web.confirmation import confirmed


@member
@never_cache
@require_http_methods(["GET", "POST"])
@confirmed
def tokens(request: PageRequest) -> HttpResponse:
    """Show the tokens of the workspace, or issue one and show its secret, this once."""
    require_role(request, "policy_admin", "auditor")
    if request.method == "GET":
        return _page(request, status=200)
    form = request.POST
    try:
        row, secret = give_token(
            person=request.user,
            workspace=request.workspace,
            name=form.get("name", ""),
            scopes=form.getlist("scope"),
            days=number(form.get("days")),
        )
    except Refused as refused:
        status = 403 if refused.rule.startswith("role:") else 422
        return _page(request, status=status, refused=said_no(request, refused))
    return _page(request, status=200, made=row, secret=secret)


@member
@require_POST
@confirmed
def end(request: PageRequest, uid: str) -> HttpResponse:
    """Accept a token no longer."""
    row = token_named(request.workspace, uid)
    try:
        take_token(person=request.user, token=row)
    except Refused as refused:
        refuse(request, refused)
    else:
        messages.success(request, "The token is ended. Its next request is refused.")
    return redirect("tokens")


def _page(request: PageRequest, *, status: int, **more: object) -> HttpResponse:
    context = {
        "rows": tokens_page(request.workspace),
        "scopes": SCOPES,
        "lives": LIVES,
        "is_admin": "policy_admin" in request.roles,
        "name": request.POST.get("name", ""),
        "section": "workspace",
        "tab": "tokens",
        **more,
    }
    return render(request, "tokens.html", context, status=status)
