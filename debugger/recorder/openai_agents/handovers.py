"""Hand-overs and edges of a running loop, from its spans: who was given the work, and who took it.

A hand-over of this SDK never comes back: control goes to the receiver until it gives an output or hands over
itself. What is promised with each one is therefore the last output of its loop, and in the loop of the run
itself that is the workflow's outcome. In an import each span is an operation of its own.
"""

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from branches.evidence.domains import THREAD
from debugger.recorder.handoffs import APPROVAL, OUTCOME
from debugger.recorder.pairs import Given, Pairs, pair_of
from debugger.recorder.record import RunRecord

# Words of ours for what has no name in the SDK; a workflow that means to use them declares them.
HANDOFF: Final = "handoff"
AGENT_AS_TOOL: Final = "agent_as_tool"
MANY_HANDOFFS: Final = "Multiple handoffs requested"
_OUTER: Final = ""


@dataclass(frozen=True, slots=True)
class Handover:
    """One hand-over as its span says it."""

    sender: str
    receiver: str


@dataclass(slots=True)
class _Loop:
    """One loop: that of the run (named by nothing), or that of an agent called as a tool (by its call)."""

    first: str | None = None
    caller: str | None = None
    given: Given | None = None
    """Given away, and not taken yet."""
    held: Given | None = None
    """Taken by the agent that works now."""
    open: dict[str, Given] = field(default_factory=dict)
    """By pair: what was handed over in it and is not done."""

    @property
    def name(self) -> str:
        """What it is called in its operations: an agent that is called again is the same loop."""
        return "" if self.caller is None else pair_of(self.caller, self.first)


@dataclass(slots=True)
class Handovers:
    """Writes the receipts of one run's hand-overs."""

    record: RunRecord
    trace: str
    _loops: dict[str, _Loop] = field(default_factory=dict)
    _pairs: Pairs = field(default_factory=Pairs)

    def __post_init__(self) -> None:
        self.record.handoffs.trace = self.record.key.digest(THREAD, self.trace)

    @property
    def done(self) -> dict[str, list[int]]:
        """What was completed, as a checkpoint keeps it."""
        return self._pairs.done

    def resume(self, done: Mapping[str, list[int]]) -> None:
        """Go on from a checkpoint that another run passed."""
        self._pairs.go_on(done)

    def agent_began(self, loop: str, agent: str, caller: str | None) -> None:
        """Note that an agent works now: for whom it was given, that is the acceptance."""
        own = self._loop(loop)
        if own.first is None:
            own.first, own.caller = agent, caller
        given = own.given
        if given is not None and given.attempt.receiver == agent:
            given.attempt.accepted()
            self._edge(given.attempt.sender, agent, HANDOFF, "ok")
            own.held, own.given = given, None
        elif own.held is not None and own.held.attempt.receiver == agent and own.held.attempt.waits:
            own.held.attempt.progress()

    def handed_over(self, loop: str, handover: Handover, requested: tuple[str, ...], *, failed: bool) -> None:
        """Record that the work was given away, and what the SDK did with further wishes.

        Of several hand-overs asked for at once it takes the first and drops the others. Each wish is an edge
        of its own, and none of them is ok: so the one that is taken is seen twice, which is a route that was
        ambiguous wherever it may be taken once. One that failed is given up.
        """
        own = self._loop(loop)
        if own.held is not None and own.held.attempt.receiver == handover.sender:
            own.held.attempt.waiting(handover.receiver)
        for wished in dict.fromkeys(requested):
            self._edge(handover.sender, wished, HANDOFF, "error")
            if wished != handover.receiver:
                self._give(own, Handover(handover.sender, wished)).attempt.released()
        given = self._give(own, handover)
        own.held = None
        if failed:
            given.attempt.released()
            self._edge(handover.sender, handover.receiver, HANDOFF, "error")
        else:
            own.given = given

    def tool_ended(self, call: str, status: str) -> None:
        """Record the edge to an agent that was called as a tool, and what became of the work in its loop."""
        own = self._loops.get(call)
        if own is None or own.first is None or own.caller is None:
            self._loops.pop(call, None)
            return
        if own.held is not None and status == "ok":
            self._complete(own, own.held)
        for each in own.open.values():
            if status == "error" and each.attempt.is_open:
                each.attempt.released()
            self._pairs.leave(each.pair, each.number)
        # Last: an event that is said again is written once, and an edge would be there twice.
        self._edge(own.caller, own.first, AGENT_AS_TOOL, status)
        del self._loops[call]

    def stopped(self, cause: str | None, deadline: str | None) -> None:
        """Record what the end of the loop says of the work that its last agent has."""
        own = self._loop(_OUTER)
        if own.given is not None:
            waiting = own.given.attempt
            self._edge(waiting.sender, waiting.receiver, HANDOFF, "unset")
        if own.held is None:
            return
        if cause == "approval_requested":
            until = None if deadline is None else datetime.fromisoformat(deadline)
            own.held.attempt.waiting(APPROVAL, until)
        elif cause in {"natural_finish", "done_tool"}:
            self._complete(own, own.held)

    def _loop(self, name: str) -> _Loop:
        return self._loops.setdefault(name, _Loop())

    def _give(self, loop: _Loop, handover: Handover) -> Given:
        """Hand an operation over: that of the pair in this loop which is not done, else the next one."""
        pair = pair_of("openai-agents", loop.name, handover.sender, handover.receiver)
        before = loop.open.get(pair)
        with self._pairs.taking(pair) if before is None else nullcontext(before.number) as number:
            artifact = OUTCOME if loop.caller is None else pair_of("openai-agents", loop.name)
            work = self.record.handoffs.operation(pair_of(pair, number), artifact)
            given = Given(pair, number, work, work.delegate(handover.receiver, by=handover.sender))
        loop.open[pair] = given
        return given

    def _complete(self, loop: _Loop, given: Given) -> None:
        given.attempt.completed()
        self._pairs.complete(given.pair, given.number)
        loop.open.pop(given.pair, None)

    def _edge(self, source: str, receiver: str, kind: str, status: str) -> None:
        declaration = self.record.declaration
        named = kind if kind in declaration.kinds else declaration.edge_kind(source, receiver) or kind
        body = {"from": source, "to": receiver, "kind": named, "status": status}
        self.record.emit("interaction", {**body, "contract_version": self.record.contract_version})
