"""The spans of one trace put in order: its loops, each with its turns, calls and hand-overs.

A `task` span is one run of the loop. One that no other span stands above is a loop of the trace itself; one
under a function is an agent that was called as a tool. Runs that were resumed count their turns on, so a loop
whose first turn is not the first one goes on with the loop before it.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from debugger.adapters.runtimes.openai_agents_spans import Fault, Sort, Span
from debugger.adapters.runtimes.source_json import Moment
from debugger.adapters.runtimes.stop_bodies import Step

# Agents within agents stand four spans deeper each; deeper than this nothing is looked for.
MOST_DEPTH: Final = 64
MOST_RESUMED: Final = 64


@dataclass(slots=True)
class Loop:
    """One run of the loop; its lists are in the order in which the spans began."""

    task: Span
    turns: list[Span] = field(default_factory=list)
    agents: list[Span] = field(default_factory=list)
    functions: list[Span] = field(default_factory=list)
    handoffs: list[Span] = field(default_factory=list)
    before: "Loop | None" = None
    """The loop that this one goes on with."""
    resumed: int = 0
    """How many loops stand before it."""

    @property
    def last_turn(self) -> int:
        """The number of its last turn; of the loop before where it made none."""
        own = max((each.turn or 0 for each in self.turns), default=0)
        return own or (self.before.last_turn if self.before else 0)

    @property
    def end(self) -> Moment:
        """When it ended, or the last moment that is known of it."""
        own = [each.end or each.start for each in (*self.turns[-1:], *self.agents[-1:], self.task)]
        return self.task.end or max(own)

    @property
    def last_agent(self) -> Span | None:
        return self.agents[-1] if self.agents else None

    @property
    def faults(self) -> set[Fault]:
        """The errors that ended it: those of its last agent and of its last turn."""
        ends = [*self.agents[-1:], *self.turns[-1:], self.task]
        return {each.fault for each in ends if each.fault is not None}

    def all_turns(self) -> list[Span]:
        """Return the turns counted from the first one, whichever loop made them."""
        first = min((each.turn or 0 for each in self.turns), default=self.last_turn + 1)
        earlier = self.before.all_turns() if self.before else []
        return [each for each in earlier if (each.turn or 0) < first] + self.turns

    def all_functions(self) -> list[Span]:
        """Return the calls of this loop and of those it goes on with."""
        return [*(self.before.all_functions() if self.before else ()), *self.functions]


class TraceView:
    """One trace; equal whatever the order in which its spans came."""

    def __init__(self, spans: Iterable[Span]) -> None:
        self.spans = sorted(spans, key=lambda each: (each.start.instant, each.id))
        self._by_id: Mapping[str, Span] = {each.id: each for each in self.spans}
        self._tasks: dict[str, Span | None] = {each.id: self._task_above(each) for each in self.spans}
        self._all = self._by_task()
        self.loops = self._linked()

    def parent(self, span: Span) -> Span | None:
        return None if span.parent is None else self._by_id.get(span.parent)

    def above(self, span: Span) -> Iterator[Span]:
        """Yield the spans above one, the nearest first; parents that go round in a circle end somewhere."""
        for _ in range(MOST_DEPTH):
            found = self.parent(span)
            if found is None:
                return
            yield found
            span = found

    def agent_of(self, span: Span) -> str | None:
        """Return which agent's a call is."""
        for each in self.above(span):
            if each.sort in {Sort.TURN, Sort.AGENT}:
                return each.name
            if each.sort == Sort.TASK:
                return None
        return None

    def functions(self) -> list[Span]:
        return [each for each in self.spans if each.sort == Sort.FUNCTION]

    def went_on(self, call: Span) -> bool:
        """Whether the loop made another turn after a call: then it had the call's result."""
        task = self._tasks[call.id]
        if task is None:
            return False
        loop = self._all[task.id]
        later = [each for each in loop.turns[-1:] if each.start > call.start and each.id != call.parent]
        return bool(later) or Fault.MAX_TURNS in loop.faults

    def outlived(self, call: Span) -> bool:
        """Whether a call was still running when what it belongs to had ended, or that is not known."""
        own = self.parent(call)
        if own is None or call.end is None or own.end is None:
            return True
        return call.end > own.end

    def nested(self) -> Iterator[tuple[Span, Loop]]:
        """Yield (function, loop) for each agent that was called as a tool."""
        for loop in self._all.values():
            call = next((each for each in self.above(loop.task) if each.sort != Sort.OTHER), None)
            if call is not None and call.sort == Sort.FUNCTION:
                yield call, loop

    def all_loops(self) -> list[Loop]:
        """Return the loops of the trace itself, and after them those of agents called as tools."""
        return [*self.loops, *(loop for _, loop in self.nested())]

    def steps(self, loop: Loop) -> list[Step]:
        """Return the steps of a loop with the tools that each called."""
        tools: dict[str, list[str]] = {}
        for call in loop.all_functions():
            if call.parent is not None:
                tools.setdefault(call.parent, []).append(call.name)
        return [Step(tuple(tools.get(turn.id, ())), turn.tokens) for turn in loop.all_turns()]

    def _task_above(self, span: Span) -> Span | None:
        return next((each for each in self.above(span) if each.sort == Sort.TASK), None)

    def _is_root(self, task: Span) -> bool:
        """Whether a task is a loop of the trace itself; one whose place is not known is none."""
        top = task
        for each in self.above(task):
            if each.sort != Sort.OTHER:
                return False
            top = each
        return top.parent is None

    def _by_task(self) -> dict[str, Loop]:
        found = {each.id: Loop(each) for each in self.spans if each.sort == Sort.TASK}
        for span in self.spans:
            if (task := self._tasks[span.id]) is None:
                continue
            loop = found[task.id]
            match span.sort:
                case Sort.TURN:
                    loop.turns.append(span)
                case Sort.AGENT:
                    loop.agents.append(span)
                case Sort.FUNCTION:
                    loop.functions.append(span)
                case Sort.HANDOFF:
                    loop.handoffs.append(span)
        return found

    def _linked(self) -> list[Loop]:
        """Return the loops of the trace itself, each put behind the one that it goes on with."""
        found = [loop for loop in self._all.values() if self._is_root(loop.task)]
        for before, loop in pairwise(found):
            goes_on = loop.turns[0].turn != 1 if loop.turns else bool(loop.functions)
            if goes_on and before.resumed < MOST_RESUMED:
                loop.before, loop.resumed = before, before.resumed + 1
        return found
