"""Who decides on a call that waits for a person, until when, and what stands for the wait."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from branches.evidence.domains import REF
from branches.evidence.keys import HmacKey
from debugger.recorder.stops import in_utc


@dataclass(frozen=True, slots=True)
class Approval:
    """Who decides on a call that waits, and until when; the owner is a name that the workflow declares."""

    owner: str | None = None
    deadline: datetime | None = None


type Routes = Callable[[Any], Approval | None] | Mapping[str, Approval]
"""Who decides on what: by the tool's name, or asked with the SDK's own item of the waiting call."""


def route_of(interruptions: Sequence[Any], routes: Routes | None) -> Approval:
    """Return who decides. Of several calls that wait, the one that is routed worst speaks for all."""
    found = [_route(each, routes) for each in interruptions]
    routed = [each for each in found if each.owner and each.deadline is not None]
    if len(routed) < len(found) or not routed:
        return next((each for each in found if each not in routed), Approval())
    return min(routed, key=lambda each: str(each.deadline))


def _route(interruption: Any, routes: Routes | None) -> Approval:
    if routes is None:
        return Approval()
    if isinstance(routes, Mapping):
        found = routes.get(interruption.tool_name or "")
    else:
        try:
            found = routes(interruption)
        except Exception:  # noqa: BLE001 - the program's own; the stop is recorded all the same, as unrouted
            found = None
    return Approval() if found is None else Approval(found.owner, in_utc(found.deadline))


def approval_body(route: Approval, token: str | None) -> dict[str, Any]:
    """Return an approval as a receipt carries it."""
    deadline = None if route.deadline is None else route.deadline.isoformat()
    return {"owner": route.owner or None, "deadline": deadline, "resume_token": token}


def resume_token(key: HmacKey, trace: str, interruptions: Sequence[Any]) -> str:
    """Return what stands for a wait: the calls that it names, in the run that they are of.

    An import of the saved state gives the same.
    """
    calls = sorted(str(each.call_id) for each in interruptions)
    text = json.dumps(["resume", trace, calls], sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return key.digest(REF, text)


def held_token(key: HmacKey, operation: str) -> str:
    """Return what stands for an effect that a person must decide on first."""
    return key.digest(REF, operation)
