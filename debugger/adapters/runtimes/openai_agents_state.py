"""A saved RunState of the OpenAI Agents SDK: where its loop stood, what it had called, and what waits."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

from branches.evidence.domains import REF
from branches.evidence.keys import HmacKey
from debugger.adapters.runtimes.openai_agents_spans import Output, output_of, payload_of, tokens_of
from debugger.adapters.runtimes.source_json import Fields, Unfit, check_bounds, written
from debugger.adapters.runtimes.stop_bodies import Cause, Step

SCHEMA: Final = "1.21"
_WORDS: Final = """
    $schemaVersion current_turn current_agent name original_input model_responses usage output arguments
    call_id type id context tool_invocations executed completed max_turns generated_items session_items
    raw_item agent source_agent target_agent tool_name current_step data interruptions trace content text
"""
KNOWN: Final = frozenset(_WORDS.split())
_WAITS: Final = "next_step_interruption"
_ENDED: Final = "next_step_final_output"
# Calls that the loop makes itself; every other sort was made by the provider within its answer.
_BY_NAME: Final = frozenset({"function_call", "custom_tool_call"})
_BY_TYPE: Final = frozenset({"computer_call", "local_shell_call", "shell_call", "apply_patch_call"})


@dataclass(frozen=True, slots=True)
class SavedCall:
    """One call of a tool by its id; `output` is None where it has not come back."""

    agent: str
    tool: str
    call: str
    payload: str | None
    started: bool
    output: Output | None


@dataclass(frozen=True, slots=True)
class SavedHandoff:
    """A hand-over that was made, and whether the receiver did anything after it."""

    sender: str
    receiver: str
    call: str
    accepted: bool


@dataclass(frozen=True, slots=True)
class SavedRun:
    """A run as it was saved. `identity` is a digest of the whole file."""

    identity: str
    trace: str | None
    turn: int
    agent: str
    cause: Cause | None
    max_turns: int | None
    steps: tuple[Step, ...]
    calls: tuple[SavedCall, ...]
    handoffs: tuple[SavedHandoff, ...]
    pending: tuple[tuple[str, str], ...]
    """(tool, id of the call) of what waits for a person."""
    resume_token: str | None


def read_state(value: Mapping[str, Any], key: HmacKey) -> SavedRun:
    """Return a saved run. Raises Unfit; versions other than the one that was tested are refused."""
    state = Fields(value)
    if state.text("$schemaVersion") != SCHEMA:
        raise Unfit("$schemaVersion", "version_unknown")
    check_bounds(value, "", KNOWN)
    for name in ("model_responses", "generated_items", "current_step"):
        state.required(name)
    found = state.maybe_fields("trace")
    trace = None if found is None else found.text("id")
    identity = hashlib.sha256(written(value).encode()).hexdigest()
    pending = tuple(_pending(state))
    # A filtered history still names its calls and hand-overs in the session.
    items = [list(state.objects(name)) for name in ("session_items", "generated_items")]
    responses = list(state.objects("model_responses"))
    return SavedRun(
        identity=identity,
        trace=trace,
        turn=state.count("current_turn"),
        agent=state.fields("current_agent").text("name"),
        cause=_cause(state, pending, responses),
        max_turns=state.maybe_count("max_turns") or None,
        steps=tuple(Step(tuple(_called(each)), tokens_of(each.maybe_fields("usage"))) for each in responses),
        calls=tuple(_calls(state, list(chain(*items)), {call for _, call in pending}, key)),
        handoffs=tuple({each.call: each for own in items for each in _handoffs(own)}.values()),
        pending=pending,
        resume_token=_resume_token(identity, trace, pending, key) if pending else None,
    )


def _resume_token(
    identity: str, trace: str | None, pending: tuple[tuple[str, str], ...], key: HmacKey
) -> str:
    """Return what stands for this wait: the calls that it names, in the run that they are of."""
    return key.digest(REF, written(["resume", trace or identity, sorted(call for _, call in pending)]))


def _pending(state: Fields) -> Iterator[tuple[str, str]]:
    """Yield what a run waits with; one that does not wait has none."""
    step = state.maybe_fields("current_step")
    if step is None or step.text("type") != _WAITS:
        return
    for item in step.fields("data").objects("interruptions"):
        raw = item.fields("raw_item")
        yield _tool(item, raw), _call_id(raw)


def _cause(state: Fields, pending: tuple[tuple[str, str], ...], responses: list[Fields]) -> Cause | None:
    """Return why the loop stands still. A state that was saved between two turns does not say it."""
    step = state.maybe_fields("current_step")
    kind = None if step is None else step.text("type")
    if kind == _WAITS:
        return Cause.APPROVAL_REQUESTED if pending else None
    if kind not in {None, _ENDED} or not responses or any(_called(responses[-1])):
        return None
    answers = any(each.text("type") == "message" for each in responses[-1].objects("output"))
    made = [item.text("type") for item in state.objects("generated_items")]
    return Cause.NATURAL_FINISH if answers and made[-1:] == ["message_output_item"] else None


def _called(response: Fields) -> Iterator[str]:
    """Yield the tools that a model's answer made the loop call."""
    for item in response.objects("output"):
        kind = item.text("type")
        if kind in _BY_NAME:
            yield item.text("name")
        elif kind in _BY_TYPE:
            yield kind


def _tool(item: Fields, raw: Fields) -> str:
    return item.maybe_text("tool_name") or raw.maybe_text("name") or raw.text("type")


def _call_id(raw: Fields) -> str:
    return raw.maybe_text("call_id") or raw.text("id")


def _calls(state: Fields, items: list[Fields], pending: set[str], key: HmacKey) -> Iterator[SavedCall]:
    """Yield each call once. What waits for a person was not made, whatever else is said of it."""
    invocations = (state.maybe_fields("context") or Fields({})).maybe_fields("tool_invocations")
    known = {} if invocations is None else invocations.whole
    outputs = dict(_outputs(items))
    seen: set[str] = set(pending)
    for item in items:
        if item.text("type") != "tool_call_item":
            continue
        raw = item.fields("raw_item")
        call = _call_id(raw)
        if call in seen:
            continue
        seen.add(call)
        executed, completed = _flags(known, call)
        sent = raw.value("arguments")
        tool = _tool(item, raw)
        yield SavedCall(
            agent=_agent(item, "agent"),
            tool=tool,
            call=call,
            payload=None if sent is None else payload_of(tool, sent, key),
            started=executed or call in outputs,
            output=outputs.get(call) if completed else None,
        )


def _flags(known: Mapping[str, Any], call: str) -> tuple[bool, bool]:
    """Return whether a call was executed and is completed; of one that is not listed both may be so."""
    if call not in known:
        return True, True
    own = Fields(known[call], "context.tool_invocations.*")
    return own.flag("executed"), own.flag("completed")


def _outputs(items: list[Fields]) -> Iterator[tuple[str, Output]]:
    for item in items:
        if item.text("type") == "tool_call_output_item":
            raw = item.fields("raw_item")
            output = output_of(item.value("output") if "output" in item else raw.value("output"))
            # The loop holds the call's result, also where that is nothing.
            yield _call_id(raw), Output.RETURNED if output == Output.NONE else output


def _agent(item: Fields, name: str) -> str:
    return item.fields(name).text("name")


def _handoffs(items: list[Fields]) -> Iterator[SavedHandoff]:
    acted = {_agent(item, "agent"): place for place, item in enumerate(items) if "agent" in item}
    for place, item in enumerate(items):
        if item.text("type") == "handoff_output_item":
            receiver = _agent(item, "target_agent")
            yield SavedHandoff(
                sender=_agent(item, "source_agent"),
                receiver=receiver,
                call=_call_id(item.fields("raw_item")),
                accepted=acted.get(receiver, -1) > place,
            )
