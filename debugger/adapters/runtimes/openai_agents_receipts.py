"""The receipts of one run of the OpenAI Agents SDK: from its spans, from saved states of it, or from both."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from branches.evidence.domains import THREAD
from branches.ports import SourceReceipt, SourceRun
from debugger.adapters.runtimes.openai_agents_calls import Calls, Result, without_span
from debugger.adapters.runtimes.openai_agents_evidence import Evidence
from debugger.adapters.runtimes.openai_agents_files import SDK, Boundary
from debugger.adapters.runtimes.openai_agents_handoffs import Handoffs, agents_as_tools, saved_handoffs
from debugger.adapters.runtimes.openai_agents_spans import Span
from debugger.adapters.runtimes.openai_agents_state import SavedCall, SavedHandoff, SavedRun
from debugger.adapters.runtimes.openai_agents_stops import (
    LoopEnd,
    cause_of,
    result_of,
    stop_of,
    stop_of_state,
    stop_unknown,
)
from debugger.adapters.runtimes.openai_agents_trace import TraceView
from debugger.adapters.runtimes.openai_agents_writer import Writer
from debugger.adapters.runtimes.source_json import moment
from debugger.adapters.runtimes.stop_bodies import Cause, Cut, StoppedBody

NO_TIME: Final = "1970-01-01T00:00:00Z"
"""A saved state holds no time at all, and the epoch stands for that."""


@dataclass(frozen=True, slots=True)
class Found:
    """Everything that the files of one call hold of one run."""

    run: str
    """The id of its trace; for a saved state without one, what stands for it."""
    version: str | None
    spans: Sequence[Span]
    has_record: bool
    """Whether the trace's own record is here: without it there are only late pieces."""
    is_broken: bool
    boundaries: Sequence[Boundary]
    states: Sequence[SavedRun]


class Run:
    """Writes the receipts of one run."""

    def __init__(self, found: Found, writer: Writer) -> None:
        self._found = found
        self._write = writer
        self._cut: list[Cut] = []
        self._view = TraceView(found.spans)
        # Of what was saved twice at one turn, the state that waits came before the one that does not.
        self._states = sorted(
            found.states, key=lambda each: (each.turn, each.cause != Cause.APPROVAL_REQUESTED, each.identity)
        )

    def whole(self) -> tuple[SourceRun, list[Cut]]:
        """Return the run with its facts, oldest first, and what had to be cut of them."""
        found = [*self._of_spans(), *self._of_states()]
        facts = list({each.place: each for each in found}.values())
        facts.sort(key=lambda each: moment(each.at, "at").instant)
        earliest = [each.start.text for each in self._view.spans[:1]] + [each.at for each in facts[:1]]
        start = self._started(earliest[0] if earliest else NO_TIME)
        reference = self._write.key.digest(THREAD, self._found.run)
        return SourceRun(reference, (start, *facts)), self._cut

    def _started(self, at: str) -> SourceReceipt:
        body = {
            "workflow": None,
            "workflow_version": None,
            "runtime": {"name": SDK, "version": self._found.version},
            "external_ref": self._write.key.digest(THREAD, self._found.run),
            "configuration": None,
            "contract_version": None,
            "phase": None,
            "recording": "imported",
        }
        return self._write.receipt("run_started", at, "", body, None)

    def _of_spans(self) -> Iterator[SourceReceipt]:
        found, view = self._found, self._view
        if not view.spans:
            return
        pending = [tool for state in self._states[-1:] for tool, _ in state.pending]
        calls = Calls(view, found.boundaries, pending)
        ends = self._ends(view)
        causes = {loop.task.id: cause_of(view, loop, ends[loop.task.id])[0] for loop in view.loops}
        for call, loop in view.nested():
            if calls.results[call.id] == Result.ACKNOWLEDGED and not loop.faults:
                causes[loop.task.id] = Cause.NATURAL_FINISH
        yield from self._calls(view, calls)
        yield from Handoffs(view, causes, self._write).receipts()
        yield from agents_as_tools(view, calls, self._write)
        yield from self._stops(view, calls, ends)

    def _ends(self, view: TraceView) -> dict[str, LoopEnd]:
        """Return what is known of each loop's end beside its spans."""
        evidence = self._evidence(view)
        states = {state.turn: state for state in self._states}
        ends: dict[str, LoopEnd] = {}
        for loop in reversed(view.loops):
            own = evidence.get(loop.task.id)
            plain = LoopEnd(own, None, self._found.is_broken)
            state = states.get(loop.last_turn)
            if state is not None and cause_of(view, loop, plain)[0] is None:
                del states[loop.last_turn]
                plain = LoopEnd(own, state, self._found.is_broken)
            ends[loop.task.id] = plain
        return ends

    def _evidence(self, view: TraceView) -> dict[str, Evidence]:
        """Return what the boundary saw of each loop; two that saw different ends of one prove neither."""
        seen: dict[str, set[Evidence]] = {}
        for boundary in self._found.boundaries:
            own = [loop.task.id for loop in view.loops if loop.task.id in boundary.tasks]
            if own:
                seen.setdefault(own[-1], set()).add(boundary.evidence)
        return {task: next(iter(found)) for task, found in seen.items() if len(found) == 1}

    def _calls(self, view: TraceView, calls: Calls) -> Iterator[SourceReceipt]:
        for call in view.functions():
            result = calls.results[call.id]
            if result == Result.NOT_MADE:
                continue
            agent = view.agent_of(call)
            yield self._write.intended(call.start.text, call.id, agent, call.name, call.payload)
            if result.is_answer:
                at = (call.end or call.start).text
                yield self._write.answered(at, call.id, agent, str(result))
        for boundary in self._found.boundaries:
            own = [loop for loop in view.loops if loop.task.id in boundary.tasks]
            for agent, tool, call_id in without_span(view, boundary):
                turn = own[-1].turns[-1] if own and own[-1].turns else view.spans[0]
                yield self._write.intended(turn.start.text, call_id, agent, tool, None)

    def _stops(self, view: TraceView, calls: Calls, ends: dict[str, LoopEnd]) -> Iterator[SourceReceipt]:
        """Yield why each loop stopped; a state that was saved after the last of them stands at the end."""
        key = self._write.key
        last = max(view.spans, key=lambda each: each.end or each.start)
        at = (last.end or last.start).text
        for loop in view.loops:
            agent = loop.last_agent
            stop = stop_of(view, calls, loop, ends[loop.task.id], key)
            yield self._stop(loop.end.text, loop.task.id, stop, agent.name if agent else None)
        reached = max((loop.last_turn for loop in view.loops), default=0)
        later = [state for state in self._states if view.loops and state.turn > reached]
        for state in later[-1:]:
            yield self._stop(at, "saved", stop_of_state(state, key), state.agent)

    def _of_states(self) -> Iterator[SourceReceipt]:
        """Yield what saved states say of a run whose loop is not here as spans: those know it better."""
        if self._view.loops or not (self._states or self._found.has_record):
            return
        calls: dict[str, SavedCall] = {}
        handoffs: dict[str, SavedHandoff] = {}
        for state in self._states:
            calls.update({each.call: each for each in state.calls})
            handoffs.update({each.call: each for each in state.handoffs})
        for call in calls.values():
            result, own = result_of(call), f"call\0{call.call}"
            if result == Result.NOT_MADE:
                continue
            yield self._write.intended(NO_TIME, own, call.agent, call.tool, call.payload)
            if result.is_answer:
                yield self._write.answered(NO_TIME, own, call.agent, str(result))
        for state in self._states[-1:]:
            yield from saved_handoffs(handoffs.values(), state.agent, state.cause, NO_TIME, self._write)
        for state in self._states:
            stop = stop_of_state(state, self._write.key)
            yield self._stop(NO_TIME, "saved", stop, state.agent)
        if not self._states:
            at = max((each.end or each.start for each in self._view.spans), default=None)
            yield self._stop(at.text if at else NO_TIME, "", stop_unknown(self._write.key), None)

    def _stop(self, at: str, own: str, stop: StoppedBody, agent: str | None) -> SourceReceipt:
        self._cut += stop.cut
        return self._write.receipt("stopped", at, own, stop.body, agent)
