"""Writes single receipts of a run of the OpenAI Agents SDK; every id of the runtime's own leaves as HMAC."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from branches.evidence.domains import OPERATION, PAYLOAD, REF, THREAD
from branches.evidence.keys import HmacKey
from branches.evidence.kinds.forms import Declared
from branches.ports import SourceReceipt
from debugger.adapters.runtimes.source_json import written
from debugger.adapters.runtimes.stop_bodies import named


@dataclass(frozen=True, slots=True)
class Writer:
    """Makes receipts of one run; `run` is the runtime's own id of it."""

    key: HmacKey
    run: str

    def receipt(
        self, kind: str, at: str, own: str, body: Mapping[str, Any], agent: str | None
    ) -> SourceReceipt:
        """Return a fact about `own`. One that is known better later is another fact, never a conflict."""
        place = self.key.digest(REF, "\0".join(("place", kind, own, at, written(body))))
        who = None if not agent else named(self.key, Declared.AGENT, agent)
        return SourceReceipt(kind=kind, at=at, place=place, body=body, agent=who)

    def handoff(
        self, event: str, at: str, own: str, receiver: str, *, agent: str, dependency: str | None = None
    ) -> SourceReceipt:
        """Return an event of the hand-over `own` to a receiver, written by an agent."""
        body: dict[str, Any] = {
            "operation": self._id("operation", own, receiver),
            "handoff": self._id("handoff", own, receiver),
            "event": event,
            "trace": self.key.digest(THREAD, self.run),
        }
        if event == "delegated":
            body["receiver"] = named(self.key, Declared.AGENT, receiver)
            body["expected_artifact"] = self._id("output", "", "")
        if dependency is not None:
            body["dependency"] = named(self.key, Declared.DEPENDENCY, dependency)
        return self.receipt("handoff", at, f"{own}\0{receiver}", body, agent)

    def interaction(self, at: str, own: str, ends: tuple[str, str], kind: str, status: str) -> SourceReceipt:
        """Return an edge that was seen."""
        sender, receiver = (named(self.key, Declared.AGENT, end) for end in ends)
        body = {"from": sender, "to": receiver, "kind": kind, "contract_version": None, "status": status}
        return self.receipt("interaction", at, own, body, ends[0])

    def intended(
        self, at: str, call: str, agent: str | None, tool: str, payload: str | None
    ) -> SourceReceipt:
        """Return that a call reached its tool.

        Its key is weak, for a retry has another id. A payload that is not there is a digest that equals no
        other: nothing may ever take two such calls for the same.
        """
        operation = self.operation(call)
        body = {
            "operation_key": operation,
            "key_strength": "weak",
            "checkpoint": None,
            "destination": None,
            "tool": named(self.key, Declared.TOOL, tool),
            "effect_class": "unknown",
            "payload": payload or self.key.digest(PAYLOAD, f"unseen\0{operation}"),
        }
        return self.receipt("effect_intended", at, call, body, agent)

    def answered(self, at: str, call: str, agent: str | None, answer: str) -> SourceReceipt:
        """Return what came back from a call."""
        body = {
            "operation_key": self.operation(call),
            "answer": answer,
            "destination_ref": None,
            "destination_version": None,
        }
        return self.receipt("effect_answered", at, call, body, agent)

    def operation(self, call: str) -> str:
        """Return the key of a call."""
        return self.key.digest(OPERATION, f"openai-agents\0{self.run}\0{call}")

    def _id(self, sort: str, own: str, receiver: str) -> str:
        parts = ("openai-agents", sort, self.run, own, receiver)
        return self.key.digest(REF, "\0".join(parts))
