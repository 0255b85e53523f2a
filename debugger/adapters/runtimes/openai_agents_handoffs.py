"""Hand-overs between agents: who was given the work, who took it, and which edges were seen.

A hand-over of this SDK never comes back: control goes to the receiver until it gives an output or hands over
itself. What is promised with each one is therefore the last output of the run.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from branches.ports import SourceReceipt
from debugger.adapters.runtimes.openai_agents_calls import Calls, Result
from debugger.adapters.runtimes.openai_agents_spans import Fault, Span
from debugger.adapters.runtimes.openai_agents_state import SavedHandoff
from debugger.adapters.runtimes.openai_agents_trace import Loop, TraceView
from debugger.adapters.runtimes.openai_agents_writer import Writer
from debugger.adapters.runtimes.stop_bodies import Cause

# Words of ours for what has no name in the SDK; a workflow that means to use them declares them.
APPROVAL: Final = "approval"
HANDOFF: Final = "handoff"
AGENT_AS_TOOL: Final = "agent_as_tool"


class Handoffs:
    """Walks the loops of a trace; `causes` are why each of them stopped, by its task."""

    def __init__(self, view: TraceView, causes: Mapping[str, Cause | None], writer: Writer) -> None:
        self._view = view
        self._causes = causes
        self._write = writer
        self._following = {each.before.task.id: each for each in view.loops if each.before is not None}
        self._held: Span | None = None
        """The hand-over whose receiver has the work."""

    def receipts(self) -> Iterator[SourceReceipt]:
        """Yield the events and edges of every hand-over."""
        for loop in self._view.all_loops():
            if loop.before is None:
                self._held = None
            yield from self._loop(loop)

    def _loop(self, loop: Loop) -> Iterator[SourceReceipt]:
        agents = iter(loop.agents)
        for span in loop.handoffs:
            if not span.name or span.to is None:
                continue  # it failed before there was a receiver
            yield from self._handed_over(span)
            taken = next((each for each in agents if each.start >= span.start and each.name == span.to), None)
            if taken is None and span is loop.handoffs[-1]:
                taken = self._taken_later(loop, span)
            yield from self._taken(span, taken)
        yield from self._ended(loop)

    def _taken_later(self, loop: Loop, span: Span) -> Span | None:
        """Return the receiver of a loop's last hand-over where it is the first agent of what went on from it.

        A run that was cancelled after the turn of a hand-over has its receiver only in the loop that goes on.
        """
        later = self._following.get(loop.task.id)
        while later is not None and not later.agents:
            later = self._following.get(later.task.id)
        first = None if later is None else later.agents[0]
        return first if first is not None and first.name == span.to and first.start >= span.start else None

    def _handed_over(self, span: Span) -> Iterator[SourceReceipt]:
        """Yield that the work was given away, and what the runtime did with further wishes.

        Of several hand-overs asked for at once the SDK takes the first and drops the others. Each wish is an
        edge of its own, and none of them is ok: so the one that is taken is seen twice, which is a route that
        was ambiguous wherever it may be taken once.
        """
        at, receiver = span.start.text, span.to or ""
        if self._held is not None and self._held.to == span.name:
            yield self._event("waiting", at, self._held, agent=span.name, dependency=receiver)
        if span.fault == Fault.MANY_HANDOFFS:
            for wished in dict.fromkeys(span.requested):
                yield self._edge(at, f"{span.id}\0{wished}", (span.name, wished), "error")
                if wished != receiver:
                    for event in ("delegated", "released"):
                        yield self._write.handoff(event, at, span.id, wished, agent=span.name)
        yield self._event("delegated", at, span, agent=span.name)

    def _taken(self, span: Span, agent: Span | None) -> Iterator[SourceReceipt]:
        """Yield that the receiver began, or only that it should have."""
        failed = span.fault not in {None, Fault.MANY_HANDOFFS}
        self._held = span if agent is not None else None
        status = "error" if failed else "unset" if agent is None else "ok"
        at = span.start if agent is None else agent.start
        if agent is not None:
            yield self._event("accepted", at.text, span, agent=agent.name)
        yield self._edge(at.text, span.id, (span.name, span.to or ""), status)

    def _ended(self, loop: Loop) -> Iterator[SourceReceipt]:
        """Yield what the end of a loop says of the work that its last agent has."""
        agent, held = loop.last_agent, self._held
        cause = self._causes.get(loop.task.id)
        if agent is None or held is None or held.to != agent.name or cause is None:
            return
        at = (agent.end or agent.start).text
        if cause == Cause.APPROVAL_REQUESTED:
            yield self._event("waiting", at, held, agent=agent.name, dependency=APPROVAL)
        elif cause.is_claim:
            yield self._event("completed", at, held, agent=agent.name)

    def _event(
        self, event: str, at: str, span: Span, *, agent: str, dependency: str | None = None
    ) -> SourceReceipt:
        return self._write.handoff(event, at, span.id, span.to or "", agent=agent, dependency=dependency)

    def _edge(self, at: str, own: str, ends: tuple[str, str], status: str) -> SourceReceipt:
        return self._write.interaction(at, own, ends, HANDOFF, status)


def agents_as_tools(view: TraceView, calls: Calls, writer: Writer) -> Iterator[SourceReceipt]:
    """Yield an edge for each agent that another one called as a tool."""
    for call, loop in view.nested():
        caller = view.agent_of(call)
        if caller is None or not loop.agents:
            continue
        agent = loop.agents[0]
        result = calls.results[call.id]
        failed = result in {Result.FAILED, Result.NO_ANSWER} or agent.fault is not None
        status = "error" if failed else "ok" if result == Result.ACKNOWLEDGED else "unset"
        yield writer.interaction(agent.start.text, agent.id, (caller, agent.name), AGENT_AS_TOOL, status)


def saved_handoffs(
    handoffs: Iterable[SavedHandoff], agent: str, cause: Cause | None, at: str, writer: Writer
) -> Iterator[SourceReceipt]:
    """Yield the events and edges of a saved run's hand-overs; `agent` is the one that had the work last."""
    made = list(handoffs)
    for place, each in enumerate(made):
        own = f"call\0{each.call}"
        ends = (each.sender, each.receiver)
        yield writer.handoff("delegated", at, own, each.receiver, agent=each.sender)
        if each.accepted:
            yield writer.handoff("accepted", at, own, each.receiver, agent=each.receiver)
        yield writer.interaction(at, own, ends, HANDOFF, "ok" if each.accepted else "unset")
        if not each.accepted:
            continue
        if onward := made[place + 1 : place + 2]:
            waits = onward[0].receiver if onward[0].sender == each.receiver else None
        else:
            waits = APPROVAL if cause == Cause.APPROVAL_REQUESTED and each.receiver == agent else None
            if cause is not None and cause.is_claim and each.receiver == agent:
                yield writer.handoff("completed", at, own, each.receiver, agent=each.receiver)
        if waits is not None:
            yield writer.handoff("waiting", at, own, each.receiver, agent=each.receiver, dependency=waits)
