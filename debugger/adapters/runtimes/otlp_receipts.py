"""What placed spans say as receipts: names plain where they have a name's form, ids under keyed digests."""

import re
from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

from branches.evidence.canonical import MAX_INTEGER
from branches.evidence.domains import OPERATION, PAYLOAD, REF, STATE, THREAD
from branches.evidence.keys import HmacKey, is_hmac
from branches.evidence.kinds.forms import NAME_PATTERN, Declared
from branches.evidence.names import cover_name
from branches.ports import SourceReceipt, SourceRun
from debugger.adapters.runtimes.otlp_attributes import WORKFLOW
from debugger.adapters.runtimes.otlp_calls import Answer, Step, answer_of, awaits_person
from debugger.adapters.runtimes.otlp_edges import Edge, edges_of
from debugger.adapters.runtimes.otlp_gaps import words_of
from debugger.adapters.runtimes.otlp_roles import Role, call_id, tool_name
from debugger.adapters.runtimes.otlp_stops import Stop, stops_of
from debugger.adapters.runtimes.otlp_tree import Forest, Placed

MAX_STEPS: Final = 512
MAX_TOOLS: Final = 64
STEP_ROOM: Final = 7000
"""Bytes of a receipt's body for the steps, every name in them covered."""
_STEP_BYTES: Final = 44
_NAME_BYTES: Final = 100

_NAME: Final = re.compile(NAME_PATTERN)
# Of facts at one moment, what was before what.
_RANKS: Final[Mapping[str, int]] = {
    "run_started": 0,
    "recording_gap": 1,
    "interaction": 2,
    "effect_intended": 3,
    "effect_answered": 4,
    "progress": 5,
    "stopped": 6,
}

_WORK: Final = frozenset({Role.TOOL, Role.CHAT})

type _Sorted = tuple[int, int, str, SourceReceipt]


class Receipts:
    """Collects the receipts of a forest by run."""

    def __init__(self, key: HmacKey) -> None:
        self._key = key
        self._names: dict[tuple[Declared, str], str] = {}
        self._runs: dict[str, list[_Sorted]] = defaultdict(list)
        self._began: dict[str, int] = {}
        self._workflows: dict[str, str] = {}

    def runs(self, forest: Forest) -> tuple[SourceRun, ...]:
        """Return the runs, oldest first; each begins with its start."""
        for each in forest.placed.values():
            if each.top is None and each.role not in _WORK:
                continue  # a web request round an agent, or another program altogether
            self._began.setdefault(each.run, each.span.start)
            if (workflow := each.span.text(WORKFLOW)) is not None:
                self._workflows.setdefault(each.run, workflow)
            if each.role is Role.TOOL and not awaits_person(each):
                self._call(each)
            elif each.role is Role.CHAT and each.span.end and not each.span.failed:
                self._add(each, each.span.end, "progress", {"measure": "message"})
        for edge in edges_of(forest):
            self._edge(edge)
        for stop in stops_of(forest):
            self._stop(stop)
        self._say_gaps(forest)
        return tuple(self._run(run, began) for run, began in self._began.items())

    def _run(self, run: str, began: int) -> SourceRun:
        ref = self._key.digest(THREAD, run)
        started = SourceReceipt("run_started", _at(began), "started", _started(ref))
        found = sorted(self._runs[run], key=lambda each: each[:3])
        receipts = (started, *(receipt for *_, receipt in found))
        return SourceRun(ref, receipts, workflow=self._workflows.get(run))

    def _say_gaps(self, forest: Forest) -> None:
        """Add once per run and word that something is missing, at the first span that says so."""
        first: dict[tuple[str, str], Placed] = {}
        for each in forest.placed.values():
            for word in words_of(each):
                first.setdefault((each.run, word), each)
        for (run, word), each in first.items():
            if run in self._began:
                start = each.span.start
                receipt = SourceReceipt("recording_gap", _at(start), f"gap/{word}", {"gap": word})
                self._runs[run].append((start, _RANKS[receipt.kind], receipt.place, receipt))

    def _add(self, each: Placed, nanos: int, kind: str, body: Mapping[str, Any], mark: str = "") -> None:
        place = f"{each.span.trace}/{each.span.span}{mark}"
        agent = None if each.agent is None else self._name(Declared.AGENT, each.agent)
        receipt = SourceReceipt(kind, _at(nanos), place, body, agent)
        self._runs[each.run].append((nanos, _RANKS[kind], place, receipt))

    def _name(self, category: Declared, text: str) -> str:
        """Return a name as it is, or the digest that covers it: a text of another form may be content."""
        found = self._names.get((category, text))
        if found is None:
            plain = _NAME.fullmatch(text) is not None and not is_hmac(text)
            found = text if plain else cover_name(self._key, category, text)
            self._names[category, text] = found
        return found

    def _call(self, each: Placed) -> None:
        span = each.span
        call = call_id(span) or f"{span.trace}/{span.span}"
        tool = tool_name(span)
        operation = self._key.digest(OPERATION, f"{each.run}\0{tool}\0{call}")
        intended = {
            "operation_key": operation,
            "key_strength": "weak",
            "checkpoint": None,
            "destination": None,
            "tool": self._name(Declared.TOOL, tool),
            "effect_class": "unknown",
            "payload": self._key.digest(PAYLOAD, call),
        }
        self._add(each, span.start, "effect_intended", intended)
        answer = answer_of(span)
        if answer is None:
            return
        answered = {
            "operation_key": operation,
            "answer": str(answer),
            "destination_ref": None,
            "destination_version": None,
        }
        self._add(each, span.end, "effect_answered", answered)
        if answer is Answer.ACKNOWLEDGED:
            self._add(each, span.end, "progress", {"measure": "tool_result"})

    def _edge(self, edge: Edge) -> None:
        body = {
            "from": self._name(Declared.AGENT, edge.source),
            "to": self._name(Declared.AGENT, str(edge.to.agent)),
            "kind": str(edge.kind),
            "contract_version": None,
            "status": str(edge.status),
        }
        source = cover_name(self._key, Declared.AGENT, edge.source)
        self._add(edge.to, edge.to.span.start, "interaction", body, f"/{edge.kind}/{source}")

    def _stop(self, stop: Stop) -> None:
        body: dict[str, Any] = {
            "policy": {"version": None, "conditions": []},
            "stop_cause": None if stop.cause is None else str(stop.cause),
            "steps": self._steps(stop),
            "tool_failed": stop.tool_failed,
            "useful_progress": stop.useful_progress,
            "approval": self._approval(stop),
            "loop": "claimed" if stop.claimed else "ended",
            "loop_ref": self._key.digest(REF, f"{stop.top.span.trace}/{stop.top.span.span}"),
        }
        # A span that came late can change what is known of the end: that is another fact about it.
        self._add(stop.top, stop.top.span.end, "stopped", body, f"/{self._key.digest_of(STATE, body)}")

    def _approval(self, stop: Stop) -> dict[str, Any] | None:
        if not stop.waits:
            return None
        token = None if stop.task is None else self._key.digest(REF, stop.task)
        return {"owner": None, "deadline": None, "resume_token": token}

    def _steps(self, stop: Stop) -> list[dict[str, Any]]:
        """Return the newest steps that fit into a receipt, oldest first: the rules look at the last."""
        room, kept = STEP_ROOM, []
        for step in reversed(stop.steps[-MAX_STEPS:]):
            tools = step.tools[-MAX_TOOLS:]
            room -= _STEP_BYTES + _NAME_BYTES * len(tools)
            if room < 0:
                break
            kept.append(self._step(step, tools))
        return kept[::-1]

    def _step(self, step: Step, tools: list[str]) -> dict[str, Any]:
        tokens = None if step.tokens is None else min(step.tokens, MAX_INTEGER)
        return {"tools": [self._name(Declared.TOOL, each) for each in tools], "tokens": tokens}


def _started(ref: str) -> dict[str, Any]:
    return {
        "workflow": None,
        "workflow_version": None,
        "runtime": {"name": "otlp", "version": None},
        "external_ref": ref,
        "configuration": None,
        "contract_version": None,
        "phase": None,
        "recording": "imported",
    }


def _at(nanos: int) -> str:
    """Return a time as a receipt writes it, to the microsecond."""
    seconds, rest = divmod(nanos, 1_000_000_000)
    return f"{_second(seconds)}.{rest // 1000:06d}Z"


@lru_cache(maxsize=4096)
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
