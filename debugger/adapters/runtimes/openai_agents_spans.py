"""The spans of the OpenAI Agents SDK, read by an allow-list: what a span says in closed words and digests."""

import hashlib
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum, auto
from typing import Any, Final

from branches.evidence.domains import PAYLOAD
from branches.evidence.keys import HmacKey
from debugger.adapters.runtimes.source_json import (
    Fields,
    Moment,
    Unfit,
    parsed_text,
    written,
)

_WORDS: Final = """
    event export object id trace_id parent_id started_at ended_at span_data type name input output error
    message data max_turns requested_agents tool_name sdk_span_type turn agent_name usage input_tokens
    output_tokens from_agent to_agent triggered handoffs tools output_type workflow_name group_id metadata
"""
KNOWN: Final = frozenset(_WORDS.split())

# The SDK's own fixed sentences; whatever else stands in an error is not looked at.
_REJECTED: Final = re.compile(r"Tool execution for .{1,256} was manually rejected by user\.", re.DOTALL)
_TIMED_OUT: Final = re.compile(r"Tool '.{1,256}' timed out after [0-9.e+-]{1,32} seconds\.", re.DOTALL)
_SOFT_FAILURE: Final = "An error occurred while running the tool. Please try again."


class Sort(StrEnum):
    """What a span is of; a `task` is one run of the loop, a `turn` one step of it."""

    TASK = auto()
    TURN = auto()
    AGENT = auto()
    FUNCTION = auto()
    HANDOFF = auto()
    GUARDRAIL = auto()
    OTHER = auto()


class Fault(StrEnum):
    """The class of a span's error."""

    MAX_TURNS = "Max turns exceeded"
    GUARDRAIL = "Guardrail tripwire triggered"
    TOOL_UNKNOWN = "Tool not found"
    TOOL_RAISED = "Error running tool"
    TOOL_FAILED = "Error running tool (non-fatal)"
    MANY_HANDOFFS = "Multiple handoffs requested"
    REJECTED = auto()
    OTHER = auto()


class Output(StrEnum):
    """What a call of a function came back with, as far as that may be said."""

    NONE = auto()
    RETURNED = auto()
    FAILED = auto()
    TIMED_OUT = auto()


@dataclass(frozen=True, slots=True)
class Span:
    """One span; texts of other people's are here only as names and digests."""

    trace: str
    id: str
    parent: str | None
    sort: Sort
    start: Moment
    end: Moment | None
    fault: Fault | None
    name: str = ""
    """The agent, the tool, or the agent that hands over."""
    to: str | None = None
    turn: int | None = None
    tokens: int | None = None
    payload: str | None = None
    """Digest of a function's input, None where the runtime hid it."""
    output: Output = Output.NONE
    max_turns: int | None = None
    requested: tuple[str, ...] = ()
    mark: str = field(default="", repr=False)
    """Digest of everything the span holds, to tell a copy from another version of it."""


def read_span(export: Fields, key: HmacKey) -> Span:
    """Return a span from its export. Raises Unfit."""
    content = export.fields("span_data")
    sort = _sort(content)
    error = export.maybe_fields("error")
    start = export.maybe_moment("started_at")
    if start is None:
        raise Unfit(export.at("started_at"), "required")
    return Span(
        trace=export.text("trace_id"),
        id=export.text("id"),
        parent=export.maybe_text("parent_id") or None,
        sort=sort,
        start=start,
        end=export.maybe_moment("ended_at"),
        fault=None if error is None else _fault(error),
        mark=hashlib.sha256(written(export.whole).encode()).hexdigest(),
        **{**_own(sort, content, key), **_of_error(error)},
    )


def _sort(content: Fields) -> Sort:
    kind = content.text("type")
    if kind == "custom":
        own = content.value("data")
        kind = str(own.get("sdk_span_type")) if isinstance(own, dict) else ""
        return Sort(kind) if kind in {Sort.TASK, Sort.TURN} else Sort.OTHER
    return Sort(kind) if kind in {Sort.AGENT, Sort.FUNCTION, Sort.HANDOFF, Sort.GUARDRAIL} else Sort.OTHER


def _own(sort: Sort, content: Fields, key: HmacKey) -> Mapping[str, Any]:
    """Return what a span of this sort says beyond what all say."""
    match sort:
        case Sort.TURN:
            turn = content.fields("data")
            return {
                "name": turn.text("agent_name"),
                "turn": turn.count("turn"),
                "tokens": tokens_of(turn.maybe_fields("usage")),
            }
        case Sort.AGENT:
            return {"name": content.text("name")}
        case Sort.FUNCTION:
            tool = content.text("name")
            sent = content.value("input")
            return {
                "name": tool,
                "payload": None if sent is None else payload_of(tool, sent, key),
                "output": output_of(content.value("output")),
            }
        case Sort.HANDOFF:
            return {
                "name": content.maybe_text("from_agent") or "",
                "to": content.maybe_text("to_agent") or None,
            }
        case Sort.GUARDRAIL:
            triggered = content.flag("triggered")
            return {"output": Output.FAILED if triggered else Output.RETURNED}
    return {}


def _fault(error: Fields) -> Fault:
    message = error.maybe_text("message")
    content = error.value("data")
    detail = content.get("error") if isinstance(content, dict) else None
    if isinstance(detail, str) and _REJECTED.fullmatch(detail):
        return Fault.REJECTED
    try:
        return Fault(message or "")
    except ValueError:
        return Fault.OTHER


def _of_error(error: Fields | None) -> Mapping[str, Any]:
    """Return the parts of an error that are counts or names of agents."""
    content = None if error is None else error.maybe_fields("data")
    if content is None:
        return {}
    return {
        "max_turns": content.maybe_count("max_turns") or None,
        "requested": content.texts("requested_agents"),
    }


def payload_of(tool: str, sent: Any, key: HmacKey) -> str:
    """Return the digest of what was sent to a tool, in the form in which a recorder writes it."""
    text = sent if isinstance(sent, str) else written(sent)
    # A model may write arguments that are no JSON: then it is the text itself.
    with suppress(Unfit, RecursionError):
        text = written(parsed_text(text))
    return key.digest(PAYLOAD, f"{tool}\0{text}".encode("utf-8", "surrogatepass"))


def output_of(output: Any) -> Output:
    """Return the class of an output: the SDK returns some failures as its own fixed sentences."""
    if output is None:
        return Output.NONE
    if isinstance(output, str) and _TIMED_OUT.fullmatch(output):
        return Output.TIMED_OUT
    if isinstance(output, str) and output.startswith(_SOFT_FAILURE):
        return Output.FAILED
    return Output.RETURNED


def tokens_of(usage: Fields | None) -> int | None:
    """Return the tokens of a usage record."""
    if usage is None:
        return None
    total = usage.maybe_count("total_tokens")
    if total is not None:
        return total
    parts = [usage.maybe_count("input_tokens"), usage.maybe_count("output_tokens")]
    return None if None in parts else sum(each or 0 for each in parts)


def newest(one: Span, other: Span) -> Span:
    """Return the fuller of two versions of a span, the same one whichever comes first."""
    return max(one, other, key=_fullness)


def _fullness(span: Span) -> tuple[bool, str, str]:
    ended = "" if span.end is None else span.end.instant.isoformat()
    return span.end is not None, ended, span.mark
