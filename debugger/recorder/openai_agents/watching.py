"""Hears the spans and the hooks of one run, and keeps what its stop will need."""

from dataclasses import dataclass, field
from typing import Any, Final

from debugger.recorder.openai_agents.graph import Graph
from debugger.recorder.openai_agents.handovers import MANY_HANDOFFS, Handover, Handovers
from debugger.recorder.record import RunRecord

_MAX_TURNS: Final = "Max turns exceeded"
_TOOL_UNKNOWN: Final = "Tool not found"
_TOOL_RAISED: Final = "Error running tool"
_CALLS: Final = frozenset({"function_call", "custom_tool_call"})
_REJECTED: Final = "was manually rejected by user."


class ToolFault(Exception):
    """A tool that is not wrapped here failed; its span says so."""


@dataclass(slots=True)
class Step:
    """One turn: the tools that the model called, and the tokens it took."""

    tools: list[str]
    tokens: int | None


@dataclass(frozen=True, slots=True)
class _Span:
    parent: str | None
    sort: str
    name: str | None


@dataclass(slots=True)
class Watch:
    """What is known of one run while it runs."""

    record: RunRecord
    graph: Graph
    handovers: Handovers
    recorded: frozenset[str]
    """The tools whose every bearer is wrapped."""
    steps: list[Step] = field(default_factory=list)
    faults: set[str] = field(default_factory=set)
    """Of `step_limit`, `tool_error`: what the spans say ended the run."""
    masked: set[str] = field(default_factory=set)
    """The sorts of errors for which one of the program's error handlers gave an output."""
    was_cut: bool = False
    """The provider cut the newest answer."""
    problem: Exception | None = None
    heard: bool = False
    _spans: dict[str, _Span] = field(default_factory=dict)
    _returned: set[str] = field(default_factory=set)

    def span_began(self, span: Any) -> None:
        """Note a span; an agent that begins may have been waited for."""
        self.heard = True
        content = span.span_data
        own = _Span(span.parent_id, content.type, getattr(content, "name", None))
        self._spans[span.span_id] = own
        if own.sort == "agent":
            call = self._call_above(own)
            caller = None if call is None else self._agent_above(self._spans[call])
            self.handovers.agent_began(call or "", own.name or "", caller)

    def span_ended(self, span: Any) -> None:
        """Take what a span says at its end."""
        own = self._spans.get(span.span_id)
        if own is None:
            return
        message = None if span.error is None else span.error["message"]
        is_inner = self._call_above(own) is not None
        if own.sort == "handoff":
            self._handed_over(span, own, message)
        elif own.sort == "function":
            self._called(span, own, message, is_inner=is_inner)
        elif own.sort == "agent" and message == _MAX_TURNS and not is_inner:
            self.faults.add("step_limit")
        elif own.sort == "turn" and message == _TOOL_UNKNOWN and not is_inner:
            self.faults.add("tool_error")

    def failed(self, error: Exception) -> None:
        """Keep what went wrong, for the next hook to raise."""
        self.problem = self.problem or error

    def learn(self, responses: list[Any]) -> None:
        """Take the turns that a saved state holds: the limit of turns counts them too."""
        for each in responses:
            calls = [item["name"] for item in each["output"] if item.get("type") in _CALLS]
            tools = [name for name in calls if name not in self.graph.handoff_tools]
            self.steps.append(Step(tools, each["usage"].get("total_tokens")))

    def answered(self, response: Any) -> None:
        """Take a model's answer as a step of the loop."""
        calls = [each for each in response.output if each.type in _CALLS]
        tools = [str(each.name) for each in calls if each.name not in self.graph.handoff_tools]
        usage = response.usage
        self.steps.append(Step(tools, usage.total_tokens if usage.requests or usage.total_tokens else None))
        self.was_cut = any(getattr(each, "status", None) == "incomplete" for each in response.output)

    def returned(self, span_id: str) -> None:
        """Note that a call came back: its span alone does not tell that from one that waits."""
        self._returned.add(span_id)

    def turned(self) -> None:
        """Forget the spans of a turn that is over."""
        self._spans.clear()
        self._returned.clear()

    def _handed_over(self, span: Any, own: _Span, message: str | None) -> None:
        content = span.span_data
        if not content.from_agent or not content.to_agent:
            return  # it failed before there was a receiver
        handover = Handover(str(content.from_agent), str(content.to_agent))
        requested: tuple[str, ...] = ()
        if message == MANY_HANDOFFS:
            requested = tuple(str(each) for each in span.error["data"].get("requested_agents", ()))
        failed = message not in {None, MANY_HANDOFFS}
        self.handovers.handed_over(self._call_above(own) or "", handover, requested, failed=failed)

    def _called(self, span: Any, own: _Span, message: str | None, *, is_inner: bool) -> None:
        is_rejected = message is not None and _REJECTED in str((span.error["data"] or {}).get("error"))
        came_back = span.span_id in self._returned
        status = "error" if message is not None else "ok" if came_back or is_inner else "unset"
        self.handovers.tool_ended(span.span_id, status)
        if message == _TOOL_RAISED and not is_inner:
            self.faults.add("tool_error")
        name = own.name or ""
        if is_rejected or name in self.recorded:
            return  # nothing was called, or its wrapper knows better
        if message is not None:
            self.record.tool_failed(name, ToolFault())
        elif came_back:
            self.record.tool_returned(name, useful=True)

    def _call_above(self, span: _Span) -> str | None:
        """Return the call of an agent as a tool that a span lies in, or None for one of the run itself."""
        parent = span.parent
        while parent is not None and (above := self._spans.get(parent)) is not None:
            if above.sort == "function":
                return parent
            parent = above.parent
        return None

    def _agent_above(self, span: _Span) -> str | None:
        parent = span.parent
        while parent is not None and (above := self._spans.get(parent)) is not None:
            if above.sort == "agent":
                return above.name
            parent = above.parent
        return None
