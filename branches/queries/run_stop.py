"""Why a root run stopped and what its outcome rests on, by the stop rules."""

from collections.abc import Iterable, Sequence
from functools import reduce
from itertools import chain
from typing import Any, Final

from django.db.models import Max

from branches.models import Receipt, Run
from branches.queries.chains import Link, link
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


# What only a loop that goes on does. An answer may still come to what was asked for before the stop, and
# handoffs are written outside of it: neither says that the loop went on.
_GOING_ON: Final = frozenset(
    {
        *("message", "checkpoint", "interaction", "progress"),
        *("effect_intended", "effect_reused", "effect_held", "effect_skipped"),
    }
)
_WORK: Final = _GOING_ON | {"effect_answered", "handoff"}
_SETTLING: Final = frozenset({"completed", "rejected", "released", "outcome_verified", "outcome_failed"})
"""Handoff events that settle what was done before, and are no work themselves."""
_MOST_AFTER: Final = 500
_MOST_BEFORE: Final = 50
"""A stop that comes so many receipts late still has its place by when it happened."""
_FIRST_YEAR: Final = 1971
"""Importers write the epoch where their source holds no time."""


def one_a_loop(stops: Iterable[Link]) -> list[Link]:
    """Return the stops of a run, oldest first as recorded, of a loop that has a name only its newest word."""
    return list({item.body.get("loop_ref") or item.event_id: item for item in stops}.values())


def gone_on(stops: Sequence[Link]) -> dict[str, Link]:
    """Return by event id of each stop for an approval what shows that its loop went on after it.

    That is a later stop of the same loop, else the first work after it. Of a loop with a name only its next
    stop could say so, because several may work at once; and a loop whose stop names its agent is answered by
    that agent alone. A stop that is not there waits still, for all that is known.
    """
    found: dict[str, Link] = {}
    for item in stops:
        if not _is_wait(item) or item.body.get("loop_ref") is not None:
            continue
        later = [each for each in stops if _is_of_the_loop(each, item) and _is_later(each, item)]
        on = reduce(lambda one, other: one if _is_later(other, one) else other, later) if later else None
        on = on or _work_after(item, _GOING_ON)
        if on is not None:
            found[item.event_id] = on
    return found


def went_on(newest: Iterable[Link]) -> frozenset[int]:
    """Return the runs whose newest stop waited for an approval and that went on, by the order of receipts.

    One query for any number of runs; the page of a run looks at times as well.
    """
    waits = {item.run_id: item for item in newest if _is_wait(item) and item.body.get("loop_ref") is None}
    rows = Receipt.objects.filter(run_id__in=waits, kind__in=_GOING_ON)
    last = rows.values_list("run_id", "writer").annotate(last=Max("seq"))
    return frozenset(
        run_id for run_id, writer, seq in last if writer == waits[run_id].writer and seq > waits[run_id].seq
    )


def end_of(stops: Sequence[Link], on: dict[str, Link]) -> Link | None:
    """Return the stop that ended a run, or None while it may go on; `on` is what `gone_on` says of them.

    It is the newest, of a known cause, with no work after it; and nothing of the run waits for an approval.
    """
    if not stops or any(_is_wait(item) and item.event_id not in on for item in stops):
        return None
    newest = reduce(lambda one, other: other if _is_later(other, one) else one, stops)
    if _is_wait(newest) or newest.body["stop_cause"] is None or stop_verdict(newest, None) is None:
        return None
    return None if _work_after(newest, _WORK) is not None else newest


def _is_wait(stopped: Link) -> bool:
    return stopped.body["stop_cause"] == "approval_requested" or stopped.body["approval"] is not None


def _is_of_the_loop(item: Link, stopped: Link) -> bool:
    """Return whether a receipt is of the loop of a stop without a name, as far as writers and agents say."""
    same_agent = stopped.actor.get("name") in {None, item.actor.get("name")}
    return item.writer == stopped.writer and item.body.get("loop_ref") is None and same_agent


def _is_later(item: Link, other: Link) -> bool:
    """Return whether one of a writer's receipts is the later: by their times, where both have one."""
    one, two = min(item.at, item.recorded_at), min(other.at, other.recorded_at)
    if one == two or one.year < _FIRST_YEAR or two.year < _FIRST_YEAR:
        return item.id > other.id
    return one > two


def _work_after(stopped: Link, kinds: frozenset[str]) -> Link | None:
    """Return some work of the loop's writer after its stop; what came late is told by its time."""
    rows = Receipt.objects.filter(run_id=stopped.run_id, writer=stopped.writer, kind__in=kinds)
    after = rows.filter(seq__gt=stopped.seq).order_by("seq")[:_MOST_AFTER].iterator(chunk_size=50)
    before = rows.filter(seq__lt=stopped.seq).order_by("-seq")[:_MOST_BEFORE].iterator()
    for item in map(link, chain(after, before)):
        if item.kind == "handoff" and item.body["event"] in _SETTLING:
            continue
        own = kinds is _WORK or _is_of_the_loop(item, stopped)
        if own and _is_later(item, stopped):
            return item
    return None


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
