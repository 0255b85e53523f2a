"""One loop of the Vercel AI SDK as its stop evidence has it: what was configured, each step, and the end."""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from branches.evidence.kinds.forms import NAME_PATTERN, VERSION_PATTERN
from debugger.adapters.runtimes.ai_sdk_facts import Call, Condition, End, Loop, LoopStep, OutsideCall, Route
from debugger.adapters.runtimes.source_json import Fields, Unfit, check_bounds
from debugger.adapters.runtimes.stop_bodies import MOST_CONDITIONS

SCHEMA: Final = "stop-evidence/1"
PACKAGE: Final = "ai"
MAJORS: Final = frozenset({"6", "7"})
# What an agent and a single call stop after where nobody said anything else.
_DEFAULT_STEPS: Final = {"ToolLoopAgent": 20, "generateText": 1, "streamText": 1}

_VERSION: Final = re.compile(r"([0-9]{1,4})\.[0-9]{1,6}\.[0-9]{1,6}(?:-[0-9A-Za-z.-]{1,12})?")
_POLICY: Final = re.compile(VERSION_PATTERN)
_NAME: Final = re.compile(NAME_PATTERN)
_STEP_COUNTS: Final = frozenset({"isStepCount", "stepCountIs"})
_BUDGETS: Final = frozenset({"custom:tokenBudget", "tokenBudget"})
# The keys that may be shown in a refusal; any other could be content.
_WORDS: Final = """
    schema runtime name package version entry agent id tools has_execute stop_conditions params n max_total
    evaluations at_steps result steps finish_reason tool_calls tool call_ref invalid error_class tool_results
    preliminary tool_errors approval_requests approval_ref automatic approval_responses approved usage input
    output total callbacks events event end kind error approval_route owner deadline resume_token done_tool
    default_stop_condition scenario situation derived loop started_at ended_at at policy_version ms
    calls_outside_steps after_step returned workflow
"""
MOST_CALLS: Final = 2_000
"""As many calls of one loop are taken in; each becomes two receipts."""
KNOWN: Final = frozenset(_WORDS.split())


def read_loop(value: Any) -> Loop:
    """Return the loop in a parsed file. Raises Unfit."""
    file = Fields(value)
    if not any(name in file for name in ("schema", "steps", "end")):
        raise Unfit("steps", "not_a_run")
    check_bounds(value, "", KNOWN)
    if file.text("schema") != SCHEMA:
        raise Unfit("schema", "unknown")
    version = _version(file.fields("runtime"))
    agent = Fields(file.value("agent") or {}, "agent")
    executes = {tool.text("name"): tool.flag("has_execute") for tool in agent.objects("tools")}
    for name in ("stop_conditions", "steps"):
        file.required(name)
    answered = dict(_answers(file))
    steps = tuple(_step(step, answered) for step in sorted(file.objects("steps"), key=_number))
    _check_numbers(file)
    if sum(len(step.calls) for step in steps) > MOST_CALLS:
        raise Unfit("steps.tool_calls", "max_items")
    return Loop(
        version=version,
        agent=agent.maybe_text("id") or None,
        executes=executes,
        conditions=tuple(_condition(each, len(steps)) for each in _conditions(file)),
        default_steps=_default_steps(file, agent),
        steps=steps,
        outside=tuple(_outside(each) for each in file.objects("calls_outside_steps")),
        end=_end(file),
        route=_route(file.maybe_fields("approval_route")),
        done_tool=file.maybe_text("done_tool") or "done",
        policy_version=_policy_version(file),
        started_at=_when(file, "started_at"),
        ended_at=_when(file, "ended_at"),
        workflow=_workflow(file),
    )


def _when(fields: Fields, name: str) -> str | None:
    moment = fields.maybe_moment(name)
    return None if moment is None else moment.text


def _policy_version(file: Fields) -> str | None:
    version = file.maybe_text("policy_version")
    if version is not None and _POLICY.fullmatch(version) is None:
        raise Unfit("policy_version", "version")
    return version


def _workflow(file: Fields) -> str | None:
    name = file.maybe_text("workflow")
    if name is not None and _NAME.fullmatch(name) is None:
        raise Unfit("workflow", "name")
    return name


def _version(runtime: Fields) -> str:
    if runtime.text("package") != PACKAGE:
        raise Unfit("runtime.package", "unknown")
    version = runtime.text("version")
    found = _VERSION.fullmatch(version)
    if found is None or found[1] not in MAJORS:
        raise Unfit("runtime.version", "version_unknown")
    return version


def _number(step: Fields) -> int:
    return step.count("n", least=1)


def _check_numbers(file: Fields) -> None:
    seen: set[int] = set()
    for step in file.objects("steps"):
        if (number := _number(step)) in seen:
            raise Unfit(step.at("n"), "unique")
        seen.add(number)


def _conditions(file: Fields) -> Iterator[Fields]:
    conditions = list(file.objects("stop_conditions"))
    if len(conditions) > MOST_CONDITIONS:
        raise Unfit("stop_conditions", "max_items")
    return iter(conditions)


def _condition(condition: Fields, steps: int) -> Condition:
    evaluations = list(condition.objects("evaluations"))
    fired = [each.flag("result") and each.count("at_steps") == steps for each in evaluations]
    return Condition(tuple(_bodies(condition)), any(fired), bool(evaluations))


def _bodies(condition: Fields) -> Iterator[Mapping[str, Any]]:
    """Yield what a condition is in the receipts' words; one of the program's own making is nothing there."""
    name = condition.text("name")
    params = condition.maybe_fields("params")
    if name == "isLoopFinished":
        yield {"type": "loop_finished"}
    elif params is None:
        return
    elif name in _STEP_COUNTS:
        yield {"type": "step_count", "n": params.count("n", least=1)}
    elif name in _BUDGETS:
        yield {"type": "token_budget", "n": params.count("max_total")}
    elif name == "timeout":
        yield {"type": "deadline", "ms": params.count("ms")}
    elif name == "hasToolCall":
        # One tool in 6, any number of them in 7.
        for tool in params.texts("tools") if "tools" in params else (params.text("tool"),):
            yield {"type": "tool_call", "tool": tool}


def _default_steps(file: Fields, agent: Fields) -> int | None:
    if not agent.maybe_flag("default_stop_condition"):
        return None
    return _DEFAULT_STEPS.get((file.maybe_text("entry") or "").split(".")[0])


def _answers(file: Fields) -> Iterator[tuple[str, bool]]:
    """Yield each approval that was answered, and how."""
    for step in file.objects("steps"):
        for response in step.objects("approval_responses"):
            yield response.text("approval_ref"), response.flag("approved")


def _step(step: Fields, answered: Mapping[str, bool]) -> LoopStep:
    for name in ("tool_calls", "tool_results", "tool_errors"):
        step.required(name)
    returned = {_which(each) for each in step.objects("tool_results") if not each.maybe_flag("preliminary")}
    errors = {_which(each): each.maybe_text("error_class") for each in step.objects("tool_errors")}
    asked = {
        _which(each): answered.get(each.text("approval_ref"))
        for each in step.objects("approval_requests")
        # What a rule of the program decides waits for nobody; what it denied was not run.
        if not each.maybe_flag("automatic") or each.text("approval_ref") in answered
    }
    return LoopStep(
        calls=tuple(_call(call, returned, errors, asked) for call in step.objects("tool_calls")),
        tokens=_tokens(step.maybe_fields("usage")),
        finish=step.maybe_text("finish_reason"),
        at=_when(step, "at"),
    )


def _outside(each: Fields) -> OutsideCall:
    call = Call(
        tool=each.text("tool"),
        ref=each.maybe_text("call_ref") or "",
        is_valid=True,
        returned=each.flag("returned"),
        error=each.maybe_text("error_class"),
        pending=False,
        denied=False,
    )
    return OutsideCall(call, each.count("after_step"))


def _which(each: Fields) -> tuple[str, str]:
    """Return the tool and the call that something is about; a model may use the id of a call again."""
    return each.text("tool"), each.maybe_text("call_ref") or ""


def _call(
    call: Fields,
    returned: Collection[tuple[str, str]],
    errors: Mapping[tuple[str, str], str | None],
    asked: Mapping[tuple[str, str], bool | None],
) -> Call:
    own = _which(call)
    error = (errors[own] or "unnamed") if own in errors else call.maybe_text("error_class")
    return Call(
        tool=own[0],
        ref=own[1],
        is_valid=not call.maybe_flag("invalid"),
        returned=own in returned and error is None,
        error=error,
        pending=own in asked and asked[own] is None,
        denied=asked.get(own) is False,
    )


def _tokens(usage: Fields | None) -> int | None:
    if usage is None:
        return None
    total = usage.maybe_count("total")
    if total is not None:
        return total
    parts = [usage.maybe_count("input"), usage.maybe_count("output")]
    return None if None in parts else sum(each or 0 for each in parts)


def _end(file: Fields) -> End:
    end = file.fields("end")
    error = end.maybe_fields("error")
    callbacks = file.maybe_fields("callbacks")
    events = [] if callbacks is None else list(callbacks.objects("events"))
    aborts = [each for each in events if each.text("event") == "onAbort"]
    thrown = None if error is None else error.maybe_text("name") or "unnamed"
    return End(
        kind=end.text("kind"),
        finish=end.maybe_text("finish_reason"),
        steps=end.maybe_count("steps"),
        thrown=thrown or next((reason for each in aborts if (reason := _reason(each))), None),
        is_of_sdk=error is not None and bool(error.maybe_flag("ai_error")),
        aborted=bool(aborts),
    )


def _reason(abort: Fields) -> str | None:
    """Return the class of what an abort was for, where the callback was told."""
    error = abort.maybe_fields("error")
    return abort.maybe_text("reason") if error is None else error.maybe_text("name")


def _route(route: Fields | None) -> Route | None:
    if route is None:
        return None
    deadline = route.maybe_moment("deadline") if route.maybe_text("deadline") else None
    return Route(
        owner=route.maybe_text("owner") or None,
        deadline=None if deadline is None else deadline.text,
        resume_token=route.maybe_text("resume_token") or None,
    )
