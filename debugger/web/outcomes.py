"""What was claimed beside what the destinations say."""

from typing import Final

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from branches.queries.outcomes_page import FILTERS, JUDGED, LOOKED_AT, outcomes_page
from debugger.web.access import PageRequest, member

FILTER_NAMES: Final = {
    "all": "All",
    "false": "False success",
    "uncertain": "Uncertain",
    "claimed": "Claimed only",
    "bounded": "Unfinished",
    "none": "No receipt",
    "verified": "Confirmed at destination",
}


@member
@require_GET
def outcomes(request: PageRequest) -> HttpResponse:
    """Show claims beside outcomes, the worst first."""
    chosen = request.GET.get("show", "all")
    chosen = chosen if chosen in FILTERS else "all"
    found = outcomes_page(request.workspace, chosen=chosen)
    context = {
        "page": found,
        "filters": [(name, FILTER_NAMES[name], found.counts[name]) for name in FILTERS],
        "chosen": chosen,
        "looked_at": LOOKED_AT,
        "judged": JUDGED,
        "section": "outcomes",
    }
    return render(request, "outcomes.html", context)
