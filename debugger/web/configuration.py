"""A branch's configuration beside its parent's."""

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from branches.commands.pin_configuration import CHANGEABLE
from branches.queries.configuration_page import configuration_page
from branches.queries.declarations import declaration_of
from branches.queries.lookups import branch_named, redemption_of
from debugger.web.access import PageRequest, member


@member
@require_GET
def configuration(request: PageRequest, uid: str) -> HttpResponse:
    """Show what changed first; an engineer may change a part while the branch is not sealed."""
    branch = branch_named(request.workspace, uid)
    declaration = declaration_of(branch)
    context = {
        "page": configuration_page(branch),
        "branch": branch,
        "agents": declaration.agents if declaration else (),
        "models": sorted(declaration.names["model"]) if declaration else (),
        "changeable": CHANGEABLE,
        "sealed": redemption_of(branch),
        "section": "branches",
    }
    return render(request, "configuration.html", context)
