"""Why a loop of the Vercel AI SDK stopped, by what was recorded where it was called.

The SDK asks its stop conditions only where the loop could go on, so a limit counts only where it was seen to
fire: as many steps as the limit allows prove nothing by themselves.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from branches.evidence.domains import REF
from branches.evidence.keys import HmacKey
from branches.evidence.kinds.forms import Declared
from debugger.adapters.runtimes.ai_sdk_facts import Call, End, Loop, Route
from debugger.adapters.runtimes.stop_bodies import Cause, Step, Stop, named

_TIMEOUTS: Final = frozenset({"TimeoutError"})
_ABORTS: Final = frozenset({"AbortError", "ResponseAborted"})
_CUT_SHORT: Final = _TIMEOUTS | _ABORTS
_BY_FINISH: Final[Mapping[str | None, Cause]] = {
    "stop": Cause.NATURAL_FINISH,
    "length": Cause.OUTPUT_LIMIT,
    "content-filter": Cause.PROVIDER_ERROR,
    "error": Cause.PROVIDER_ERROR,
}
_BY_CONDITION: Final[Mapping[str, Cause]] = {
    # Where two fired at once, the loop's own word that it is done is what is to be checked.
    "tool_call": Cause.DONE_TOOL,
    "token_budget": Cause.TOKEN_BUDGET,
    "step_count": Cause.STEP_LIMIT,
}
_RETURNED: Final = "returned"


def stop_of(loop: Loop, key: HmacKey) -> Stop:
    """Return why a loop stopped; the cause is None where nothing recorded says it."""
    cause, done_tool = _cause(loop)
    return Stop(
        cause=cause,
        steps=[Step(tuple(call.tool for call in each.calls), each.tokens) for each in loop.steps],
        conditions=_conditions(loop),
        done_tool=done_tool,
        tool_failed=_tool_failed(loop, cause),
        useful_progress=any(call.returned for _, call in _in_order(loop)),
        approval=_approval(loop.route, key) if _pending(loop) else None,
        policy_version=loop.policy_version,
    )


def _conditions(loop: Loop) -> list[Mapping[str, Any]]:
    """Return what the loop ran under; a default that nobody wrote down is recorded like any other."""
    found = [body for each in loop.conditions for body in each.bodies]
    if loop.default_steps is not None and not loop.conditions:
        found.append({"type": "step_count", "n": loop.default_steps})
    return found


def _pending(loop: Loop) -> bool:
    return any(call.pending for each in loop.steps for call in each.calls)


def _cause(loop: Loop) -> tuple[Cause | None, str | None]:
    """Return the cause, and the tool that says done where it is that."""
    if loop.end.kind != _RETURNED or loop.end.thrown is not None or loop.end.aborted:
        return _cause_of_throw(loop.end), None
    if loop.end.steps is not None and loop.end.steps != len(loop.steps):
        return None, None  # steps are missing here, and which ones is not known
    if _pending(loop):
        return Cause.APPROVAL_REQUESTED, None
    if any(each.fired for each in loop.conditions):
        return _cause_of_condition(loop)
    if loop.end.finish in _BY_FINISH:
        return _BY_FINISH[loop.end.finish], None
    return _cause_of_tool_calls(loop)


def _cause_of_throw(end: End) -> Cause | None:
    """Return the cause by the class of what was thrown; a stream that is aborted throws nothing."""
    if end.thrown in _TIMEOUTS:
        return Cause.TIMEOUT
    if end.thrown in _ABORTS:
        return Cause.USER_ABORT
    if end.thrown is None:
        # Aborted and finished as well: the two disagree.
        return Cause.USER_ABORT if end.aborted and end.finish is None else None
    return Cause.TOOL_ERROR if end.is_of_sdk and "Tool" in end.thrown else Cause.PROVIDER_ERROR


def _cause_of_condition(loop: Loop) -> tuple[Cause | None, str | None]:
    """Return the cause by the conditions that fired; one that receipts have no word for is no cause."""
    fired = [body for each in loop.conditions if each.fired for body in each.bodies]
    for kind, cause in _BY_CONDITION.items():
        own = [body for body in fired if body["type"] == kind]
        if own and cause == Cause.DONE_TOOL:
            called = {call.tool for call in loop.steps[-1].calls} if loop.steps else set()
            return cause, next((body["tool"] for body in own if body["tool"] in called), own[0]["tool"])
        if own:
            return cause, None
    return None, None


def _cause_of_tool_calls(loop: Loop) -> tuple[Cause | None, str | None]:
    """Return why a loop ended with tool calls though no condition was seen to fire.

    A call of the done tool that nobody runs ends it. Any other tool without a function of its own leaves the
    loop to whoever called it: that is no claim. A default limit cannot be watched from outside, but where
    every call was answered and nothing else could end the loop, it is what ended it.
    """
    calls = loop.steps[-1].calls if loop.steps else ()
    if loop.end.finish != "tool-calls" or not calls:
        return None, None
    open_calls = [call for call in calls if not call.returned and call.error is None]
    if any(call.tool == loop.done_tool and not _is_run(loop, call) for call in open_calls):
        return Cause.DONE_TOOL, loop.done_tool
    limits = _conditions(loop)
    is_unwatched = loop.default_steps is not None and not any(each.was_asked for each in loop.conditions)
    is_alone = all(each["type"] == "step_count" for each in limits)
    if is_unwatched and is_alone and not open_calls and any(each["n"] == len(loop.steps) for each in limits):
        return Cause.STEP_LIMIT, None
    return None, None


def _is_run(loop: Loop, call: Call) -> bool:
    return loop.executes.get(call.tool, True)


def _tool_failed(loop: Loop, cause: Cause | None) -> bool:
    """Whether a tool failed that did not succeed later; what the loop's own end cut short does not count."""
    ends = cause in {Cause.TIMEOUT, Cause.USER_ABORT}
    failed: set[str] = set()
    for number, call in _in_order(loop):
        if call.returned:
            failed.discard(call.tool)
        elif ends and number == len(loop.steps) and call.error in _CUT_SHORT:
            continue
        elif call.error is not None or not call.is_valid:
            failed.add(call.tool)
    return bool(failed)


def _in_order(loop: Loop) -> Iterator[tuple[int, Call]]:
    """Yield every call with the number of the step it was made in, or made after where no step shows it."""
    for number in range(len(loop.steps) + 1):
        if number:
            yield from ((number, call) for call in loop.steps[number - 1].calls)
        yield from ((number, each.call) for each in loop.outside if each.after_step == number)


def _approval(route: Route | None, key: HmacKey) -> dict[str, str | None]:
    """Return who decides, as far as it was recorded; the SDK itself routes nothing to anybody."""
    if route is None:
        return {"owner": None, "deadline": None, "resume_token": None}
    return {
        "owner": None if route.owner is None else named(key, Declared.OWNER, route.owner),
        "deadline": route.deadline,
        "resume_token": None if route.resume_token is None else key.digest(REF, route.resume_token),
    }
