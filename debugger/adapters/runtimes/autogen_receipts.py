"""The receipts of one AutoGen team: its start, what was said, tool calls, its state, and why it stopped."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from branches.evidence import drift
from branches.evidence.autogen_loop import Loop, Said
from branches.evidence.autogen_talk import Talk
from branches.evidence.autogen_words import UNKNOWN, Reason, done_tool_of, reason_of
from branches.evidence.domains import CHECKPOINT, OPERATION, PAYLOAD, REF, THREAD
from branches.evidence.keys import HmacKey
from branches.evidence.kinds.forms import Declared
from branches.ports import SourceReceipt, SourceRun
from debugger.adapters.runtimes.autogen_files import Dump, sources
from debugger.adapters.runtimes.source_json import written
from debugger.adapters.runtimes.stop_bodies import Cause, Cut, Step, Stop, named, stopped_body

RUNTIME: Final = "autogen"
MEMORY_KEY: Final = "agent_memory"


def run_of(dumps: list[Dump], key: HmacKey) -> tuple[SourceRun, tuple[Cut, ...]]:
    """Return a team as a run, and what had to be cut of it. Its first message is its id: nothing else is."""
    said = _in_order(dumps)
    known = [each.participants for each in dumps if each.participants is not None]
    participants = frozenset().union(*known) if known else sources(said)
    writing = _Writing(dumps, said, participants, key, said[0].id)
    return writing.run()


@dataclass(slots=True)
class _Writing:
    dumps: list[Dump]
    said: list[Said]
    participants: frozenset[str]
    key: HmacKey
    identity: str
    talk: Talk = field(init=False)
    receipts: list[SourceReceipt] = field(default_factory=list)
    cut: list[Cut] = field(default_factory=list)
    calls: dict[str, str] = field(default_factory=dict)
    """Id of a call → its operation key; a model may use an id again, and then the newest is meant."""

    def __post_init__(self) -> None:
        targets = {each.target for each in self.said if each.target is not None}
        self.talk = Talk(
            self.key,
            self.identity,
            self.participants,
            {f"transfer_to_{target}".lower(): target for target in targets | self.participants},
            name=lambda category, text: named(self.key, Declared(category), text),
        )

    def run(self) -> tuple[SourceRun, tuple[Cut, ...]]:
        external_ref = self.key.digest(THREAD, f"{RUNTIME}\0{self.identity}")
        self._add("run_started", self.said[0].at, "start", _started(external_ref))
        ends = {each.id: dump for dump in self.dumps if dump.has_end for each in dump.said}
        current: Dump | None = None
        for number, each in enumerate(self.said):
            owner = ends.get(each.id)
            if number == 0 or owner is not current:
                if current is not None:
                    self._stopped(self.said[number - 1], current)
                self.talk.begin()
                current = owner
            self._heard(each)
        last = self.said[-1]
        for dump in self.dumps:
            self._state(dump, last)
        self._stopped(last, current)
        return SourceRun(external_ref, tuple(self.receipts)), tuple(self.cut)

    def _heard(self, said: Said) -> None:
        for fact in self.talk.heard(said):
            agent = None if fact.agent is None else named(self.key, Declared.AGENT, fact.agent)
            self._add(fact.kind, said.at, fact.own, fact.body, agent if fact.kind == "handoff" else None)
        for kind, own, body in self._effects(said):
            self._add(kind, said.at, own, body)

    def _effects(self, said: Said) -> Iterator[tuple[str, str, dict[str, Any]]]:
        for place, call in enumerate(said.calls):
            if call.tool in self.talk.handoff_tools:
                continue
            own = f"{said.id}\0{place}"
            operation = self.key.digest(OPERATION, f"{RUNTIME}\0{self.identity}\0{own}")
            self.calls[call.id] = operation
            body = {
                "operation_key": operation,
                "key_strength": "weak",
                "checkpoint": None,
                "destination": None,
                "tool": named(self.key, Declared.TOOL, call.tool),
                "effect_class": "unknown",
                "payload": self.key.digest(PAYLOAD, f"{call.tool}\0{call.arguments}"),
            }
            yield "effect_intended", own, body
        for result in said.results:
            if (known := self.calls.get(result.call)) is not None:
                answer = "failed" if result.is_error else "acknowledged"
                body = {"operation_key": known, "answer": answer}
                rest = {"destination_ref": None, "destination_version": None}
                yield "effect_answered", f"{said.id}\0{result.call}", {**body, **rest}

    def _state(self, dump: Dump, last: Said) -> None:
        memory = dump.memory
        if memory is None:
            return
        facts: dict[str, Any] = {"agents": memory.agents, "messages": memory.messages}
        parts = drift.fitting({MEMORY_KEY: memory.parts}, {MEMORY_KEY: len(facts)}).get(MEMORY_KEY, {})
        body = {
            "checkpoint": self.key.digest(CHECKPOINT, f"{RUNTIME}\0{memory.fingerprint}"),
            "parent_checkpoint": None,
            "step": None,
            "state": {MEMORY_KEY: {"fingerprint": memory.fingerprint, "facts": {**facts, **parts}}},
            "consistent": not dump.doubled,
        }
        self._add("checkpoint", last.at, memory.fingerprint, body)

    def _stopped(self, last: Said, dump: Dump | None) -> None:
        """Write why a loop ended. A saved state alone says so only where it waits for a person."""
        text = None if dump is None else dump.stop_reason
        reason = reason_of(text)
        if dump is None and self.talk.waits_outside:
            reason = Reason(Cause.APPROVAL_REQUESTED)
        for fact in self.talk.ended(reason.cause, last.at):
            agent = None if fact.agent is None else named(self.key, Declared.AGENT, fact.agent)
            self._add(fact.kind, last.at, fact.own, fact.body, agent)
        stopped = stopped_body(_stop(reason, done_tool_of(text), self.talk.loop, self._route(last)), self.key)
        self.cut += stopped.cut
        self._add("stopped", last.at, f"{last.id}\0{written(stopped.body)}", stopped.body)

    def _route(self, last: Said) -> dict[str, Any]:
        """Return who decides: the library routes nothing to anybody, but the message can be answered."""
        return {"owner": None, "deadline": None, "resume_token": self.key.digest(REF, last.id)}

    def _add(self, kind: str, at: str, own: str, body: Mapping[str, Any], agent: str | None = None) -> None:
        place = self.key.digest(REF, f"place\0{RUNTIME}\0{kind}\0{own}")
        self.receipts.append(SourceReceipt(kind=kind, at=at, place=place, body=body, agent=agent))


def _in_order(dumps: list[Dump]) -> list[Said]:
    """Return every message once, in the order of time; equal times stay in the order of the files."""
    found = {each.id: each for dump in dumps for each in dump.said}
    return sorted(found.values(), key=lambda each: datetime.fromisoformat(each.at))


def _started(external_ref: str) -> dict[str, Any]:
    return {
        "workflow": None,
        "workflow_version": None,
        "runtime": {"name": RUNTIME, "version": None},
        "external_ref": external_ref,
        "configuration": None,
        "contract_version": None,
        "phase": None,
        "recording": "imported",
    }


def _stop(reason: Reason, done_tool: str | None, loop: Loop, route: Mapping[str, Any]) -> Stop:
    """Return the stop; a done tool is taken from the text only where the last turn called it."""
    if reason.cause == Cause.DONE_TOOL and done_tool not in loop.last_tools():
        reason = UNKNOWN
    cause = None if reason.cause is None else Cause(reason.cause)
    return Stop(
        cause=cause,
        steps=[Step(each.tools, each.tokens) for each in loop.steps(reason)],
        conditions=list(_conditions(reason, done_tool)),
        done_tool=done_tool if cause == Cause.DONE_TOOL else None,
        tool_failed=bool(loop.failed_tools()),
        useful_progress=loop.has_result() and not reason.stands_still,
        approval=route if cause == Cause.APPROVAL_REQUESTED else None,
    )


def _conditions(reason: Reason, done_tool: str | None) -> Iterator[Mapping[str, Any]]:
    """Yield the condition that fired, as far as the library's words say it.

    A token limit does not name its number: the count at which it stopped stands for it, for the limit was no
    higher.
    """
    if reason.cause == Cause.DONE_TOOL:
        yield {"type": "tool_call", "tool": done_tool}
    if reason.limit is None:
        return
    if reason.unit is not None and reason.limit > 0:
        yield {"type": "step_count", "n": reason.limit}
    elif reason.cause == Cause.TOKEN_BUDGET:
        yield {"type": "token_budget", "n": reason.limit}
    elif reason.cause == Cause.TIMEOUT:
        yield {"type": "deadline", "ms": reason.limit}
