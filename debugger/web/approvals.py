"""The approver's pages: the inbox and one decision."""

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from branches.commands.decide import APPROVE_REASONS, REJECT_REASONS, decide, revoke_authority
from branches.commands.disclose_edit import disclose_edit
from branches.commands.refusal import Refused
from branches.queries.content import edit_request
from branches.queries.decision_page import decision_page
from branches.queries.inbox import inbox as inbox_rows
from branches.queries.lookups import RequestRow, branch_named, request_named
from branches.queries.notices_page import notice_rows
from debugger.exchange import fetch_content
from debugger.web.access import PageRequest, member, refuse, said_no
from debugger.web.confirmation import confirmed


@member
@require_GET
def inbox(request: PageRequest) -> HttpResponse:
    """Show what waits for a decision, oldest first."""
    rows = inbox_rows(request.user, request.workspace)
    context = {"rows": rows, "notices": notice_rows(request.workspace, 20), "section": "approvals"}
    return render(request, "inbox.html", context)


@member
@require_http_methods(["GET", "POST"])
@confirmed
def decision(request: PageRequest, uid: str) -> HttpResponse:
    """Show a request and what it is bound to, or take this person's decision on it."""
    asked = request_named(request.workspace, uid)
    if request.method == "POST":
        return _decide(request, asked)
    return _page(request, asked, status=200)


def _page(request: PageRequest, asked: RequestRow, *, status: int, refused: str = "") -> HttpResponse:
    context = {
        "found": decision_page(asked, request.user),
        "approve_reasons": APPROVE_REASONS,
        "reject_reasons": REJECT_REASONS,
        "refused": refused,
        "section": "approvals",
    }
    return render(request, "decision.html", context, status=status)


def _decide(request: PageRequest, asked: RequestRow) -> HttpResponse:
    form = request.POST
    word = form.get("decision", "")
    try:
        decide(
            person=request.user,
            request=asked,
            word=word,
            reason=form.get(f"reason_{word}", ""),
            digest=form.get("digest", ""),
        )
    except Refused as refused:
        status = 403 if refused.rule.startswith(("role:", "own_work")) else 409
        return _page(request, asked, status=status, refused=said_no(request, refused))
    messages.success(request, f"You {word} the branch as it was shown.")
    return redirect("decision", uid=asked.uid)


@member
@never_cache
@require_POST
def disclose(request: PageRequest, uid: str, edit: int) -> HttpResponse:
    """Show the text of an edit live, to whoever looks at the request; that it was shown is recorded."""
    asked = request_named(request.workspace, uid)
    row, wanted = edit_request(asked, edit)
    text, problem = fetch_content(wanted)
    if text is not None:
        disclose_edit(person=request.user, request=asked, edit=row)
    context = {"asked": asked, "edit": row, "text": text, "problem": problem, "section": "approvals"}
    return render(request, "edit_shown.html", context)


@member
@require_POST
@confirmed
def revoke(request: PageRequest, uid: str) -> HttpResponse:
    """Take authority over a branch back for good."""
    row = branch_named(request.workspace, uid)
    try:
        revoke_authority(person=request.user, branch=row, reason=request.POST.get("reason", ""))
    except Refused as refused:
        refuse(request, refused)
    else:
        messages.success(request, "Authority revoked. A running branch stops at its next step.")
    return redirect("branch", uid=uid)
