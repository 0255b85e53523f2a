"""The workspace's own chain for those who audit it."""

from django.http import HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.views.decorators.http import require_GET

from branches.queries.workspace_chain import chain_page, exported_chain, verify_workspace
from debugger.web.access import PageRequest, member, number, require_role


@member
@require_GET
def trail(request: PageRequest) -> HttpResponse:
    """Show who did what, newest first, one kind of receipt or all; with `check` recompute the chain."""
    require_role(request, "policy_admin", "auditor")
    context = {
        "page": chain_page(
            request.workspace, kind=request.GET.get("kind", ""), before=number(request.GET.get("before"))
        ),
        "verdict": verify_workspace(request.workspace) if "check" in request.GET else None,
        "section": "workspace",
        "tab": "trail",
    }
    return render(request, "trail.html", context)


@member
@require_GET
def export(request: PageRequest) -> HttpResponseBase:
    """Give the chain away as NDJSON, exact bytes."""
    require_role(request, "policy_admin", "auditor")
    lines = exported_chain(request.workspace)
    answer = StreamingHttpResponse(lines, content_type="application/x-ndjson")
    answer["Content-Disposition"] = f'attachment; filename="{request.workspace.uid}.ndjson"'
    return answer
