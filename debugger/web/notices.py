"""Notices: what happened, where it was sent and what became of that; one's own mail, and webhooks."""

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from branches.commands.notice_choice import choose_notices
from branches.commands.refusal import Refused
from branches.commands.webhooks import add_webhook, end_webhook
from branches.queries.notices_page import mail_is_sent, notices_page, webhook_named
from debugger.web.access import PageRequest, for_readers, member, refuse, said_no
from debugger.web.confirmation import confirmed


@member
@never_cache
@require_GET
def notices(request: PageRequest) -> HttpResponse:
    """Show the newest notices, and where they go."""
    return _page(request, status=200)


@member
@for_readers
@require_POST
def mail(request: PageRequest) -> HttpResponse:
    """Keep where this person's own notices go by mail, and whether any do."""
    form = request.POST
    email = form.get("email", "")
    try:
        choose_notices(person=request.user, email=email, by_mail=form.get("by_mail") == "on")
    except Refused as refused:
        return _page(request, status=422, refused=said_no(request, refused), email=email)
    messages.success(request, "Your choice is kept.")
    return redirect("notices")


@member
@never_cache
@require_POST
@confirmed
def add(request: PageRequest) -> HttpResponse:
    """Add a webhook and show its secret, this once."""
    form = request.POST
    try:
        row, secret = add_webhook(
            person=request.user,
            workspace=request.workspace,
            target=form.get("target", ""),
            kinds=form.getlist("kind"),
        )
    except Refused as refused:
        status = 403 if refused.rule.startswith("role:") else 422
        return _page(request, status=status, refused=said_no(request, refused))
    return _page(request, status=200, made=row, secret=secret, chosen=())


@member
@require_POST
@confirmed
def end(request: PageRequest, uid: str) -> HttpResponse:
    """Send no more notices to a webhook."""
    row = webhook_named(request.workspace, uid)
    try:
        end_webhook(person=request.user, webhook=row)
    except Refused as refused:
        refuse(request, refused)
    else:
        messages.success(request, "The webhook is ended.")
    return redirect("notices")


def _page(request: PageRequest, *, status: int, **more: object) -> HttpResponse:
    context = {
        "page": notices_page(request.workspace),
        "mail_is_sent": mail_is_sent(),
        "is_admin": "policy_admin" in request.roles,
        "chosen": request.POST.getlist("kind"),
        "target": request.POST.get("target", ""),
        "email": request.user.email,
        "section": "workspace",
        "tab": "notices",
        **more,
    }
    return render(request, "notices.html", context, status=status)
