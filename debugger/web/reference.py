"""The sheet of every badge, and the shortcut keys."""

from typing import Final

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from branches.queries.badge_sheet import SHEET
from debugger.web.access import PageRequest, member

KEYS: Final = (
    ("Anywhere", (("/", "find a run or branch"), ("g r", "runs"), ("g a", "approvals"), ("?", "this page"))),
    ("In a list", (("j", "next row or gate"), ("k", "row or gate before"), ("Enter", "open it"))),
    ("On a timeline", (("n", "next checkpoint"), ("x", "next effect"), ("f", "next failure"))),
    (
        "On a branch",
        (
            ("e", "next step: ask the destination"),
            ("d", "configuration delta"),
            ("c", "compare siblings"),
            ("r", "the resume button, which is only focused"),
            ("[", "sibling before"),
            ("]", "sibling after"),
        ),
    ),
    ("On a comparison", (("o", "only differences"),)),
)


@member
@require_GET
def states(request: PageRequest) -> HttpResponse:
    """Show every badge with what it means."""
    return render(request, "states.html", {"sheet": SHEET})


@member
@require_GET
def shortcuts(request: PageRequest) -> HttpResponse:
    """Show the keys, and let a person switch them off on this device."""
    return render(request, "help.html", {"groups": KEYS})
