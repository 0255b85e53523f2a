"""Reads what AutoGen AgentChat dumped, strictly: messages, how a task ended, and what the team's state is."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from branches.evidence.autogen_loop import STREAMED, Said, ToolCall, ToolResult
from branches.evidence.autogen_state import TEAM, Doubled, Memory, agents_of, doubled_in, memory_of
from branches.evidence.keys import HmacKey
from debugger.adapters.runtimes.source_json import Fields, Unfit, check_bounds, written

STATE_VERSION: Final = "1.0.0"
_WORDS: Final = """
    type version agent_states agent_state llm_context messages message_buffer message_thread current_turn
    current_speaker next_speaker_index previous_speaker stop_reason id source models_usage prompt_tokens
    completion_tokens metadata created_at content target context name arguments call_id is_error tool_calls
    results thought team_id
"""
KNOWN: Final = frozenset(_WORDS.split())
_CALLS: Final = "ToolCallRequestEvent"
_RESULTS: Final = "ToolCallExecutionEvent"
_HANDOFF: Final = "HandoffMessage"
# What the team's own orchestrator says: it is no participant.
_ORCHESTRATOR: Final = frozenset({"SelectSpeakerEvent", "SelectorEvent"})
_PERSON: Final = "user"


@dataclass(frozen=True, slots=True)
class Dump:
    """One file: its messages in order; `participants` only where the file names them."""

    label: str
    said: tuple[Said, ...]
    participants: frozenset[str] | None = None
    has_end: bool = False
    stop_reason: str | None = None
    memory: Memory | None = None
    doubled: tuple[Doubled, ...] = ()


def read_dump(label: str, value: Any, key: HmacKey) -> Dump:
    """Return what a parsed file holds. Raises Unfit."""
    check_bounds(value, "", KNOWN)
    if isinstance(value, list):
        return _stream(label, value)
    file = Fields(value)
    if "agent_states" in file:
        return _state(label, file, key)
    if "messages" in file and "stop_reason" in file:
        return Dump(label, _messages(file), has_end=True, stop_reason=file.maybe_text("stop_reason"))
    raise Unfit("agent_states", "not_a_run")


def sources(said: Sequence[Said]) -> frozenset[str]:
    """Return who takes part by what was said alone: everybody but the person and the orchestrator."""
    return frozenset(
        each.source for each in said if each.source != _PERSON and each.sort not in _ORCHESTRATOR
    )


def _stream(label: str, value: list[Any]) -> Dump:
    """Return a list of messages; a result may stand last, and then holds them all again."""
    last = value[-1] if value else None
    if not isinstance(last, dict) or "stop_reason" not in last:
        return Dump(label, _messages(Fields({"messages": value})))
    before = _messages(Fields({"messages": value[:-1]})) if len(value) > 1 else ()
    result = Fields(last, f"messages.{len(value) - 1}")
    within = _messages(result) if result.value("messages") else ()
    said = {each.id: each for each in (*before, *within)}
    if not said:
        raise Unfit("messages", "empty")
    return Dump(label, tuple(said.values()), has_end=True, stop_reason=result.maybe_text("stop_reason"))


def _state(label: str, file: Fields, key: HmacKey) -> Dump:
    if "team_id" in file:
        raise Unfit("team_id", "version_unknown")  # a state from before 0.4.9
    if file.text("type") != TEAM:
        raise Unfit("type", "unknown")
    if file.text("version") != STATE_VERSION:
        raise Unfit("version", "version_unknown")
    states = file.fields("agent_states")
    threads = list(_threads(states))
    if len(threads) != 1:
        raise Unfit("agent_states", "one_thread")
    said = _messages(threads[0], "message_thread")
    for name in states.whole:
        _check_agent(states, name)
    state = dict(file.whole)
    return Dump(
        label,
        said,
        participants=frozenset(agents_of(state)),
        memory=memory_of(state, key),
        doubled=tuple(doubled_in(state)),
    )


def _threads(states: Fields) -> Iterator[Fields]:
    for each in states.whole.values():
        own = Fields(each, "agent_states.*")
        if "message_thread" in own:
            list(own.items("message_thread"))
            yield own


def _check_agent(states: Fields, name: str) -> None:
    """Refuse an agent's state of another form: what is not read there could be a message twice."""
    own = Fields(states.value(name), "agent_states.*")
    if "message_thread" in own:
        return
    buffered = [_said(each) for each in own.objects("message_buffer")]
    if len({each.id for each in buffered}) != len(buffered):
        return  # told by name with the others
    context = Fields(own.value("agent_state") or {}, own.at("agent_state")).maybe_fields("llm_context")
    if context is not None:
        for message in context.objects("messages"):
            message.text("type")


def _messages(file: Fields, name: str = "messages") -> tuple[Said, ...]:
    """Return the messages of a list; the same id with the same content counts once. Raises Unfit."""
    found: dict[str, Said] = {}
    for each in file.objects(name):
        said = _said(each)
        if said.sort == STREAMED:
            continue
        if found.setdefault(said.id, said) != said:
            raise Unfit(each.at("id"), "unique")
    if not found:
        raise Unfit(file.at(name), "empty")
    return tuple(found.values())


def _said(message: Fields) -> Said:
    sort = message.text("type")
    usage = message.maybe_fields("models_usage")
    prompt = None if usage is None else usage.count("prompt_tokens")
    given = None if usage is None else usage.count("completion_tokens")
    return Said(
        id=message.text("id"),
        sort=sort,
        source=message.text("source"),
        at=_at(message),
        text=_text(message.value("content")),
        is_chat=not sort.endswith("Event"),
        tokens=None if prompt is None or given is None else prompt + given,
        written=given,
        target=message.text("target") if sort == _HANDOFF else None,
        calls=tuple(_call(each) for each in message.objects("content")) if sort == _CALLS else (),
        results=tuple(_result(each) for each in message.objects("content")) if sort == _RESULTS else (),
    )


def _at(message: Fields) -> str:
    message.required("created_at")
    found = message.maybe_moment("created_at")
    if found is None:
        raise Unfit(message.at("created_at"), "timestamp")
    return found.text


def _call(call: Fields) -> ToolCall:
    return ToolCall(call.text("id"), call.text("name"), call.maybe_text("arguments") or "")


def _result(result: Fields) -> ToolResult:
    return ToolResult(result.text("call_id"), result.text("name"), bool(result.maybe_flag("is_error")))


def _text(content: Any) -> str:
    return content if isinstance(content, str) else written(content)
