"""Hand-overs that a graph's own steps show, where the workflow's contract calls the edge one.

Whoever's step ends and makes another agent run delegates; the other's task that begins is the acceptance, one
that stands at an interrupt waits, and its end is the completion: a claim, like every word of a loop.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from debugger.recorder.edges import sources_of
from debugger.recorder.handoffs import APPROVAL
from debugger.recorder.pairs import Given, Pairs, pair_of
from debugger.recorder.record import RunRecord
from debugger.recorder.stops import approval_of

HANDOFF: Final = "handoff"
"""The kind of edge that is a hand-over."""


class GraphHandoffs:
    """Follows one run; `triggers` are the channels that make each node run."""

    def __init__(self, record: RunRecord, triggers: Mapping[str, frozenset[str]]) -> None:
        self._record = record
        self._triggers = triggers
        self._pairs = Pairs()
        self._given: defaultdict[tuple[str, str], list[Given]] = defaultdict(list)
        """By sender and receiver: what no task has taken yet."""
        self._taken: dict[str, list[Given]] = {}
        """By task: what it took, until it has ended."""
        self._running: set[str] = set()
        self._finished: set[str] = set()
        """Tasks of the step that goes on: beside one that failed they begin again, and do nothing."""

    @property
    def done(self) -> dict[str, list[int]]:
        """What was completed, as a checkpoint keeps it."""
        return self._pairs.done

    def resume(self, done: Mapping[str, list[int]]) -> None:
        """Go on from a checkpoint that was passed before, perhaps by another run."""
        self._pairs.go_on(done)

    def step_ended(self) -> None:
        """A step is over, and so are its tasks: of one that was not run again the runtime does not say so."""
        for task in sorted(self._running):
            self.ended({"id": task})
        self._finished.clear()

    def stepped(self, following: Iterable[str], writers: Mapping[str, frozenset[str]]) -> None:
        """A step is over: whoever made the following nodes run gave them their work."""
        for receiver in following:
            for sender in sorted(sources_of(receiver, self._triggers.get(receiver, ()), writers)):
                if self._is_handoff(sender, receiver):
                    self._given[sender, receiver].append(self._give(sender, receiver))

    def began(self, task: str, receiver: str, sources: Iterable[str]) -> None:
        """A task begins: for whom it was given, that is the acceptance, and after a wait it is progress."""
        if task in self._finished:
            return
        self._running.add(task)
        if task in self._taken:
            for each in self._taken[task]:
                if each.attempt.waits:
                    each.attempt.progress()
            return
        pairs = [(each, receiver) for each in sorted(sources) if self._is_handoff(each, receiver)]
        for pair in pairs:
            # A branch, and a step that is tried again, begin with the task: nobody gave it this time.
            if not self._given[pair]:
                self._given[pair].append(self._give(*pair))
            self._given[pair][0].attempt.accepted()
        if pairs:
            self._taken[task] = [self._given[pair].pop(0) for pair in pairs]

    def ended(self, result: Mapping[str, Any]) -> None:
        """A task gave its result, failed, or stands at an interrupt."""
        task = result["id"]
        self._running.discard(task)
        if interrupts := result.get("interrupts"):
            deadline = approval_of(interrupts[0], self._record)["deadline"]
            for each in self._taken.get(task, ()):
                each.attempt.waiting(APPROVAL, None if deadline is None else datetime.fromisoformat(deadline))
        elif result.get("error"):
            self._failed(task)
        else:
            for each in self._taken.get(task, ()):
                each.attempt.completed()
                self._pairs.complete(each.pair, each.number)
            self._taken.pop(task, None)
            self._finished.add(task)

    def closed(self) -> None:
        """The loop ended: what was begun and has no end was cut short."""
        for task in sorted(self._running):
            self._failed(task)
        self._running.clear()

    def _failed(self, task: str) -> None:
        for each in self._taken.get(task, ()):
            if self._record.held is not None:
                each.attempt.waiting(APPROVAL)
            else:
                each.attempt.released()
                self._pairs.leave(each.pair, each.number)
        if self._record.held is None:
            self._taken.pop(task, None)

    def _give(self, sender: str, receiver: str) -> Given:
        pair = pair_of("langgraph", sender, receiver)
        with self._pairs.taking(pair) as number:
            work = self._record.handoffs.operation(pair_of(pair, number))
            before = work.attempt
            # What was given and not taken yet is still given: by an earlier step, or by a person's decision.
            if before is None or before.is_accepted or before.receiver != receiver:
                before = work.delegate(receiver, by=sender)
            return Given(pair, number, work, before)

    def _is_handoff(self, sender: str, receiver: str) -> bool:
        declaration = self._record.declaration
        has_edge = declaration.has_edge(sender, receiver)
        return has_edge and declaration.edge_kind(sender, receiver) == HANDOFF


def triggers_of(graph: Any) -> dict[str, frozenset[str]]:
    """Return the channels that make each node of a compiled graph run."""
    nodes: Mapping[str, Any] = getattr(graph, "nodes", None) or {}
    return {name: frozenset(getattr(node, "triggers", ())) for name, node in nodes.items()}
