"""Why a root run stopped and what its outcome rests on, by the stop rules."""

from collections.abc import Sequence
from functools import reduce
from typing import Any

from branches.models import Run
from branches.queries.chains import Link
from branches.queries.loops import WORK, first_work, gone_on, is_later, is_wait
from branches.queries.words import (
    CLAIMED,
    FALSE_SUCCESS,
    NO_RECEIPT,
    OUTCOME_UNCERTAIN,
    UNFINISHED,
    Badge,
    Shape,
)
from branches.rules.facts import FactError
from branches.rules.stops import StopVerdict, judge_stop, parse_stop

_STOP_BADGES = {
    "failed": Badge("toolfail", "failed", "Failed", Shape.OUTLINE),
    "waiting": Badge("waiting", "waiting", "Waiting", Shape.OUTLINE),
    "waiting_unrouted": Badge("unrouted", "unrouted", "Waiting, unrouted", Shape.DASH),
    "stuck": Badge("stuck", "stuck", "Stuck", Shape.OUTLINE),
    "bounded_stop": Badge("bounded", "bounded", "Bounded stop", Shape.OUTLINE),
    "uncertain": Badge("uncertain", "uncertain", "Uncertain", Shape.DASH),
    "false_complete": Badge("claimed", "claimed", "Says complete", Shape.DASH),
    "verified_complete": Badge("claimed", "claimed", "Says complete", Shape.DASH),
}
CONFIRMED = Badge("verified", "verified", "Confirmed there", Shape.FILL)
RUNNING = Badge("working", "working", "Running", Shape.OUTLINE)
# What was imported is not seen to run: that no stop came with it says nothing of what it does now.
NO_END = Badge("none", "none", "No end recorded", Shape.DASH)
WENT_ON = Badge("none", "none", "Went on", Shape.DASH)
TOOL_LIST = Badge("none", "none", "Not a run: a tool list", Shape.DASH)


def stop_verdict(stopped: Link, checked: Link | None, routed: Link | None = None) -> StopVerdict | None:
    """Judge a stop receipt; None where the receipt leaves out what the rules need.

    `routed` is the newest receipt that names whom its approval waits for, where somebody has said so.
    """
    body = stopped.body
    facts: dict[str, Any] = {
        "sdk": "recorded",
        "policy": {
            "version": body["policy"]["version"] or "unversioned",
            "conditions": body["policy"]["conditions"],
        },
        "stop_cause": body["stop_cause"],
        "done_tool": body.get("done_tool") or "done",
        "steps": [{"tools": step["tools"], "tokens": step["tokens"] or 0} for step in body["steps"]],
        "tool_failed": body["tool_failed"],
        "approval": approval_of(stopped, routed),
        "useful_progress": body["useful_progress"],
        "outcome": None,
    }
    if checked is not None and checked.body["check"] in {"passed", "failed"}:
        passed = checked.body["check"] == "passed" and checked.body["fresh"]
        facts["outcome"] = {"issuer": "destination", "verified": passed}
    try:
        return judge_stop(parse_stop(facts))
    except FactError:
        return None


def approval_of(stopped: Link, routed: Link | None) -> dict[str, Any] | None:
    """Return whom an approval waits for: what the loop said, completed by what a person said afterwards."""
    own: dict[str, Any] | None = stopped.body["approval"]
    if routed is None or routed.body["stopped"] != stopped.event_id:
        return own
    said = {name: routed.body[name] for name in ("owner", "deadline", "resume_token")}
    return {name: (own or {}).get(name) or value for name, value in said.items()}


def end_of(stops: Sequence[Link], on: dict[str, Link]) -> Link | None:
    """Return the stop that ended a run, or None while it may go on; `on` is what `gone_on` says of them.

    It is the newest, of a known cause, with no work after it; and nothing of the run waits for an approval.
    """
    if not stops or any(is_wait(item) and item.event_id not in on for item in stops):
        return None
    newest = reduce(lambda one, other: other if is_later(other, one) else one, stops)
    if is_wait(newest) or newest.body["stop_cause"] is None or stop_verdict(newest, None) is None:
        return None
    return None if first_work([newest], WORK) else newest


def stop_state_badge(state: str) -> Badge:
    """Return the badge of a stop's state."""
    return _STOP_BADGES[state]


def stop_badge(stopped: Link | None, checked: Link | None, routed: Link | None = None) -> Badge:
    """Return the stop slot of a run."""
    if stopped is None:
        return RUNNING
    verdict = stop_verdict(stopped, checked, routed)
    return _STOP_BADGES[str(verdict.state)] if verdict else _STOP_BADGES["uncertain"]


def run_stop_badge(
    run: Run, stopped: Link | None, checked: Link | None, routed: Link | None, started: Link | None
) -> Badge:
    """Return the stop slot of a root run by its newest stop; a wait that was answered is no stop any more."""
    if stopped is None or stopped.event_id in gone_on([stopped]):
        return unstopped_badge(run, started)
    return stop_badge(stopped, checked, routed)


def unstopped_badge(run: Run, started: Link | None) -> Badge:
    """Return the stop slot of a root run without a stop receipt: only what is recorded live is running."""
    if not is_imported(run, started):
        return RUNNING
    is_list = started is not None and started.body["runtime"]["name"] == "mcp"
    return TOOL_LIST if is_list else NO_END


def is_imported(run: Run, started: Link | None) -> bool:
    """Return whether a run was read from what its runtime wrote, and not recorded while it ran."""
    by_importer = run.recorder is not None and run.recorder.runtime == "import"
    return by_importer or (
        started is not None and started.body["recording"] in {"imported", "imported_whole"}
    )


def run_outcome_badge(stopped: Link | None, checked: Link | None) -> Badge:
    """Return the outcome slot of a root run; what gate 6 says of a branch is never said of a run."""
    if checked is not None and checked.body["check"] == "unreachable":
        return OUTCOME_UNCERTAIN
    if checked is not None and checked.body["check"] == "passed" and checked.body["fresh"]:
        return CONFIRMED
    if stopped is None:
        return NO_RECEIPT
    if stopped.body["loop"] != "claimed":
        return UNFINISHED
    return CLAIMED if checked is None else FALSE_SUCCESS
