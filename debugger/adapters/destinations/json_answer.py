"""Asks a declared address and reads single values out of its JSON answer; the rest is forgotten."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from branches.evidence.kinds.forms import VERSION_PATTERN
from branches.ports import Target
from debugger.adapters.addresses import Allowed
from debugger.adapters.bearer import bearer
from debugger.adapters.options import TargetUnfit, statuses
from debugger.adapters.outbound import Page, Unreachable, get, place_of

ABSENT: Final = object()
"""Stands for a value that the answer does not hold: null is a value."""

WHOLE: Final = "."

_VERSION: Final = re.compile(VERSION_PATTERN)


@dataclass(frozen=True, slots=True)
class Found:
    """A JSON answer, or None where the place declares that it has nothing."""

    value: Any


def ask(target: Target, url: str) -> Found | None:
    """Return the JSON of a declared address. Raises TargetUnfit, and Unreachable for what proves nothing."""
    page = page_of(target, url)
    if page.status in statuses(target, "absent", ()):
        return None
    if page.status not in statuses(target, "found", (200,)):
        raise Unreachable(problem_of(page.status))
    return Found(parsed(page.body))


def parsed(body: bytes) -> Any:
    """Return a body as JSON. Raises Unreachable."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise Unreachable("unparsable") from None


def select(value: Any, selector: str) -> Any:
    """Return the value at a dotted path (`ticket.lines.0.title`, or `.` for the whole), or ABSENT."""
    if selector == WHOLE:
        return value
    for step in selector.split("."):
        if isinstance(value, Mapping):
            value = value.get(step, ABSENT)
        elif isinstance(value, list) and step.isdigit() and int(step) < len(value):
            value = value[int(step)]
        else:
            return ABSENT
    return value


def version_at(value: Any, selector: str | None) -> str | None:
    """Return a version as receipts carry it, or None where there is none of that form."""
    found = ABSENT if selector is None else select(value, selector)
    if isinstance(found, bool) or not isinstance(found, (str, int)):
        return None
    version = str(found)
    return version if _VERSION.fullmatch(version) else None


def page_of(target: Target, url: str) -> Page:
    """Return what came back from a declared address, whatever its status. Raises TargetUnfit, Unreachable."""
    try:
        allowed = Allowed.of(target.options.get("allow"))
    except ValueError:
        raise TargetUnfit("allow", "addresses") from None
    return get(url, allowed=allowed, headers=bearer(target, place_of(url)))


def problem_of(status: int) -> str:
    """Return the word for a status that the target does not declare."""
    if status in {401, 403}:
        return "not_authorized"
    if 300 <= status < 400:
        return "redirected"
    return "server_error" if status >= 500 else "status_undeclared"
