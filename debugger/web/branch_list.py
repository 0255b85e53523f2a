"""All branches of a workspace."""

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from branches.queries.branch_list import branch_list
from debugger.web.access import PageRequest, member


@member
@require_GET
def branches(request: PageRequest) -> HttpResponse:
    """Show the branches, newest first, each with its two tracks."""
    found = branch_list(request.workspace, before=request.GET.get("before"))
    return render(request, "branches.html", {"list": found, "section": "branches"})
