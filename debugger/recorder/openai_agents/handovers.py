"""Hand-overs and edges of a running loop, from its spans: who was given the work, and who took it.

A hand-over of this SDK never comes back: control goes to the receiver until it gives an output or hands over
itself. What is promised with each one is therefore the last output of the run. An import says the same.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from branches.evidence.domains import REF, THREAD
from debugger.recorder.record import RunRecord

# Words of ours for what has no name in the SDK; a workflow that means to use them declares them.
APPROVAL: Final = "approval"
HANDOFF: Final = "handoff"
AGENT_AS_TOOL: Final = "agent_as_tool"
MANY_HANDOFFS: Final = "Multiple handoffs requested"
_OUTER: Final = ""


@dataclass(frozen=True, slots=True)
class Handover:
    """One hand-over by its span."""

    own: str
    sender: str
    receiver: str


@dataclass(slots=True)
class _Loop:
    """One loop: that of the run (named by nothing), or that of an agent called as a tool (by its call)."""

    first: str | None = None
    caller: str | None = None
    given: Handover | None = None
    """Given away, and not taken yet."""
    held: Handover | None = None
    """Taken by the agent that works now."""


@dataclass(slots=True)
class Handovers:
    """Writes the receipts of one run's hand-overs."""

    record: RunRecord
    trace: str
    _loops: dict[str, _Loop] = field(default_factory=dict)

    def agent_began(self, loop: str, agent: str, caller: str | None) -> None:
        """Note that an agent works now: for whom it was given, that is the acceptance."""
        own = self._loop(loop)
        if own.first is None:
            own.first, own.caller = agent, caller
        given = own.given
        if given is not None and given.receiver == agent:
            own.held, own.given = given, None
            self._event("accepted", given, agent)
            self._edge(given.sender, agent, HANDOFF, "ok")

    def handed_over(self, loop: str, handover: Handover, requested: tuple[str, ...], *, failed: bool) -> None:
        """Record that the work was given away, and what the SDK did with further wishes.

        Of several hand-overs asked for at once it takes the first and drops the others. Each wish is an edge
        of its own, and none of them is ok: so the one that is taken is seen twice, which is a route that was
        ambiguous wherever it may be taken once.
        """
        own = self._loop(loop)
        if own.held is not None and own.held.receiver == handover.sender:
            self._event("waiting", own.held, handover.sender, dependency=handover.receiver)
        for wished in dict.fromkeys(requested):
            self._edge(handover.sender, wished, HANDOFF, "error")
            if wished != handover.receiver:
                dropped = Handover(handover.own, handover.sender, wished)
                for event in ("delegated", "released"):
                    self._event(event, dropped, handover.sender)
        self._event("delegated", handover, handover.sender)
        own.held = None
        if failed:
            self._edge(handover.sender, handover.receiver, HANDOFF, "error")
        else:
            own.given = handover

    def tool_ended(self, call: str, status: str) -> None:
        """Record the edge to an agent that was called as a tool."""
        own = self._loops.pop(call, None)
        if own is None or own.first is None or own.caller is None:
            return
        self._edge(own.caller, own.first, AGENT_AS_TOOL, status)
        if own.held is not None and status == "ok":
            self._event("completed", own.held, own.held.receiver)

    def stopped(self, cause: str | None, deadline: str | None) -> None:
        """Record what the end of the loop says of the work that its last agent has."""
        own = self._loop(_OUTER)
        if own.given is not None:
            self._edge(own.given.sender, own.given.receiver, HANDOFF, "unset")
        if own.held is None:
            return
        if cause == "approval_requested":
            self._event("waiting", own.held, own.held.receiver, dependency=APPROVAL, deadline=deadline)
        elif cause in {"natural_finish", "done_tool"}:
            self._event("completed", own.held, own.held.receiver)

    def _loop(self, name: str) -> _Loop:
        return self._loops.setdefault(name, _Loop())

    def _event(
        self,
        event: str,
        handover: Handover,
        agent: str,
        *,
        dependency: str | None = None,
        deadline: str | None = None,
    ) -> None:
        body: dict[str, Any] = {
            "operation": self._id("operation", handover),
            "handoff": self._id("handoff", handover),
            "event": event,
            "trace": self.record.key.digest(THREAD, self.trace),
        }
        if event == "delegated":
            body["receiver"] = handover.receiver
            body["expected_artifact"] = self._id("output", Handover("", "", ""))
        said: Mapping[str, str | None] = {"dependency": dependency, "deadline": deadline}
        body.update({name: value for name, value in said.items() if value is not None})
        self.record.emit("handoff", body, agent=agent, durable=True)

    def _edge(self, source: str, receiver: str, kind: str, status: str) -> None:
        declaration = self.record.declaration
        named = kind if kind in declaration.kinds else declaration.edge_kind(source, receiver) or kind
        body = {"from": source, "to": receiver, "kind": named, "status": status}
        self.record.emit("interaction", {**body, "contract_version": self.record.contract_version})

    def _id(self, sort: str, handover: Handover) -> str:
        parts = ("openai-agents", sort, self.trace, handover.own, handover.receiver)
        return self.record.key.digest(REF, "\0".join(parts))
