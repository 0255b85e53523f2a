"""Why a loop of the OpenAI Agents SDK stopped, by its spans, its boundary and a saved state of it.

Spans say what went wrong, never that a loop finished: a stream that somebody cancelled leaves the same ones.
So without a word from the boundary or a saved state the cause of a loop without an error is not recorded.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from branches.evidence.keys import HmacKey
from debugger.adapters.runtimes.openai_agents_calls import Calls, Result
from debugger.adapters.runtimes.openai_agents_evidence import Evidence
from debugger.adapters.runtimes.openai_agents_spans import Fault, Output, Span
from debugger.adapters.runtimes.openai_agents_state import SavedCall, SavedRun
from debugger.adapters.runtimes.openai_agents_trace import Loop, TraceView
from debugger.adapters.runtimes.stop_bodies import Cause, Stop, StoppedBody, stopped_body

_BY_FAULT: Final[Mapping[Fault, Cause]] = {
    # In this order: a run may be stopped by its limit while the program makes an output that looks usual.
    Fault.MAX_TURNS: Cause.STEP_LIMIT,
    # The rules have no word of their own for a guardrail: the call was refused before it had an answer.
    Fault.GUARDRAIL: Cause.PROVIDER_ERROR,
    Fault.TOOL_UNKNOWN: Cause.TOOL_ERROR,
    Fault.OTHER: Cause.PROVIDER_ERROR,
}
_BY_OUTPUT: Final[Mapping[Output, Result]] = {
    Output.NONE: Result.ACKNOWLEDGED,
    Output.RETURNED: Result.ACKNOWLEDGED,
    Output.FAILED: Result.FAILED,
    Output.TIMED_OUT: Result.NO_ANSWER,
}


@dataclass(frozen=True, slots=True)
class LoopEnd:
    """What is known of one loop's end beside its spans."""

    evidence: Evidence | None = None
    state: SavedRun | None = None
    is_broken: bool = False
    """Something of this trace was refused, so nothing proves that the loop was done."""


def cause_of(view: TraceView, loop: Loop, end: LoopEnd) -> tuple[Cause | None, str | None]:
    """Return the cause, and the tool whose result was the last output where it is that."""
    cause = _cause_of_faults(loop) or _cause_at_boundary(end.evidence)
    if cause is None and end.state is not None:
        cause = end.state.cause
    if cause is None or not cause.is_claim:
        return cause, None
    if end.is_broken or loop.task.end is None:
        return None, None
    tools = set(view.steps(loop)[-1].tools) if loop.turns else set()
    if not tools:
        return Cause.NATURAL_FINISH, None
    # The result of a tool was the output. Of several tools, which one it was is not recorded.
    return (Cause.DONE_TOOL, tools.pop()) if len(tools) == 1 else (None, None)


def _cause_of_faults(loop: Loop) -> Cause | None:
    faults = loop.faults
    if Fault.OTHER in faults and any(_raised(each, loop) for each in loop.functions):
        return Cause.TOOL_ERROR
    return next((cause for fault, cause in _BY_FAULT.items() if fault in faults), None)


def _raised(call: Span, loop: Loop) -> bool:
    """Whether a call raised in the loop's last turn, which ended it."""
    return call.fault == Fault.TOOL_RAISED and bool(loop.turns) and call.parent == loop.turns[-1].id


def _cause_at_boundary(seen: Evidence | None) -> Cause | None:
    """Return what the program that called the runner saw."""
    if seen is None:
        return None
    if seen.thrown is not None:
        return seen.thrown
    if seen.cancelled:
        return Cause.USER_ABORT
    return Cause.NATURAL_FINISH if seen.finished else None


def stop_of(view: TraceView, calls: Calls, loop: Loop, end: LoopEnd, key: HmacKey) -> StoppedBody:
    """Return the body of a loop's stop."""
    cause, done_tool = cause_of(view, loop, end)
    waits = cause == Cause.APPROVAL_REQUESTED and end.state is not None
    results = list(calls.of(loop.all_functions()))
    stop = Stop(
        cause=cause,
        steps=view.steps(loop),
        conditions=_conditions(loop, end.state),
        done_tool=done_tool,
        tool_failed=_has_failed(results),
        useful_progress=any(result == Result.ACKNOWLEDGED for _, result in results),
        approval=_approval(end.state) if waits and end.state else None,
    )
    return stopped_body(stop, key)


def stop_of_state(state: SavedRun, key: HmacKey) -> StoppedBody:
    """Return the body of the stop of a saved run whose spans are not here."""
    results = [(each.tool, result_of(each)) for each in state.calls]
    stop = Stop(
        cause=state.cause,
        steps=state.steps,
        conditions=_limits(state.max_turns),
        tool_failed=_has_failed(results),
        useful_progress=any(result == Result.ACKNOWLEDGED for _, result in results),
        approval=_approval(state) if state.cause == Cause.APPROVAL_REQUESTED else None,
    )
    return stopped_body(stop, key)


def stop_unknown(key: HmacKey) -> StoppedBody:
    """Return the body of the stop of a trace whose loop is not here: nothing says why it ended."""
    return stopped_body(Stop(cause=None), key)


def result_of(call: SavedCall) -> Result:
    """Return what came back from a call of a saved run."""
    if not call.started:
        return Result.NOT_MADE
    return Result.OPEN if call.output is None else _BY_OUTPUT[call.output]


def _approval(state: SavedRun) -> dict[str, str | None]:
    """Return what a pending approval names: the SDK knows no owner and no deadline."""
    return {"owner": None, "deadline": None, "resume_token": state.resume_token}


def _conditions(loop: Loop, state: SavedRun | None) -> list[Mapping[str, Any]]:
    """Return the limit of turns: a span says it where it was exceeded, a saved state always."""
    exceeded = [each.max_turns for each in loop.agents if each.fault == Fault.MAX_TURNS and each.max_turns]
    return _limits(exceeded[-1] if exceeded else None if state is None else state.max_turns)


def _limits(max_turns: int | None) -> list[Mapping[str, Any]]:
    return [] if max_turns is None else [{"type": "step_count", "n": max_turns}]


def _has_failed(results: Iterable[tuple[str, Result]]) -> bool:
    """Whether a tool failed that did not succeed later; what never came back does not count."""
    failed: set[str] = set()
    for tool, result in results:
        if result == Result.ACKNOWLEDGED:
            failed.discard(tool)
        elif result in {Result.FAILED, Result.NO_ANSWER}:
            failed.add(tool)
    return bool(failed)
