"""Tool calls: what they came to, which of them only wait for a person, and the steps they were made in."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from debugger.adapters.runtimes.otlp_attributes import INPUT, OUTPUT, Failure
from debugger.adapters.runtimes.otlp_roles import Role, tool_name
from debugger.adapters.runtimes.otlp_sampling import Gap
from debugger.adapters.runtimes.otlp_spans import OPENAI_AGENTS, Span
from debugger.adapters.runtimes.otlp_tree import Placed

_INPUT_TOKENS: Final = (
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.prompt_tokens",
    "llm.token_count.prompt",
    "llm.usage.prompt_tokens",
)
_OUTPUT_TOKENS: Final = (
    "gen_ai.usage.output_tokens",
    "gen_ai.usage.completion_tokens",
    "llm.token_count.completion",
    "llm.usage.completion_tokens",
)


class Answer(StrEnum):
    """What a call's span says came of it; that it failed does not say that nothing happened."""

    ACKNOWLEDGED = "acknowledged"
    FAILED = "failed"
    NO_ANSWER = "no_answer"


@dataclass(slots=True)
class Step:
    """One model call, or round of a loop: the tools called after it, and its tokens where they are said."""

    tools: list[str] = field(default_factory=list)
    tokens: int | None = None


def answer_of(span: Span) -> Answer | None:
    """Return what came of a tool's call; None while it has not ended.

    Where events were dropped one of them may have said that it waits.
    """
    if not span.end:
        return None
    if span.failed:
        cut = span.failures & {Failure.TIMEOUT, Failure.CANCELLED}
        return Answer.NO_ANSWER if cut else Answer.FAILED
    return Answer.NO_ANSWER if _is_silent(span) or Gap.EVENTS in span.gaps else Answer.ACKNOWLEDGED


def returned(span: Span) -> bool:
    """Whether a tool's call gave a result."""
    return answer_of(span) is Answer.ACKNOWLEDGED


def awaits_person(each: Placed) -> bool:
    """Whether this is no work done but a question to a person.

    The OpenAI Agents SDK writes a call that waits like one that ended well, only without an output; but so
    is one that returned nothing. After a question its round is the last.
    """
    span = each.span
    if span.waits:
        return True
    if each.role is not Role.TOOL or not span.end or span.failed:
        return False
    if not _is_silent(span) or INPUT not in span.present:
        return False
    turn = each.parent if each.parent is not None and each.parent.role is Role.TURN else each
    if turn.parent is None or not turn.span.end:
        return False
    last = turn.parent.children[-1]  # they are in order of their start
    return last is turn or last.span.start < turn.span.end


def _is_silent(span: Span) -> bool:
    return span.scope == OPENAI_AGENTS and OUTPUT not in span.present


def steps_of(members: Sequence[Placed]) -> list[Step]:
    """Return the steps of a loop, oldest first: its rounds, or its model calls where it has none."""
    turns = [each for each in members if each.role is Role.TURN]
    chats = [each for each in members if each.role is Role.CHAT]
    marks = turns or chats
    steps = [Step() for _ in marks]
    by_agent: dict[str | None, tuple[list[int], list[Step]]] = defaultdict(lambda: ([], []))
    for each, step in zip(marks, steps, strict=True):
        starts, own = by_agent[each.agent]
        starts.append(each.span.start)
        own.append(step)
    for each in members:
        if each.role not in {Role.TOOL, Role.CHAT}:
            continue
        starts, own = by_agent[each.agent]
        place = bisect_right(starts, each.span.start) - 1
        if place < 0:
            continue
        if each.role is Role.TOOL:
            own[place].tools.append(tool_name(each.span))
        elif (tokens := _tokens(each.span)) is not None:
            own[place].tokens = (own[place].tokens or 0) + tokens
    return steps


def _tokens(span: Span) -> int | None:
    found = [_first(span, names) for names in (_INPUT_TOKENS, _OUTPUT_TOKENS)]
    known = [each for each in found if each is not None]
    return sum(known) if known else None


def _first(span: Span, names: Sequence[str]) -> int | None:
    for name in names:
        value = span.attributes.get(name)
        if type(value) is int:
            return value
    return None
