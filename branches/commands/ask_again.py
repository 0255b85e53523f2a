"""Asks every destination once more before a permit is redeemed: an answer that changed opens gate 3 again."""

import time
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Event, Lock
from typing import Final

from branches.commands.ask_destination import record_answers, said
from branches.commands.fit_answers import fit_answer
from branches.commands.plugin_words import BREAKS
from branches.commands.refusal import Refused
from branches.models import Run, Workspace
from branches.ports import Answer, DestinationAnswer, DestinationQuery, Question, Target
from branches.queries.branch_facts import effects_now
from branches.queries.declarations import declaration_of
from branches.queries.job_places import Place, bounds_of
from branches.queries.ledger import EffectLine
from branches.queries.targets import TargetMissing, target
from branches.registry import PluginMissing, PluginUnfit, find

# Of all places together; each has a bound of its own.
MOST_AT_ONCE: Final = 32
type Asking = tuple[EffectLine, DestinationQuery, Target]


@dataclass(frozen=True, slots=True)
class Fresh:
    """What destinations say now of effects as they were when they were asked."""

    answers: tuple[tuple[EffectLine, DestinationAnswer], ...] = ()

    @property
    def has_changed(self) -> bool:
        """Whether some answer is another than the one that stands in the record."""
        return any(said(line) != (str(answer.answer), answer.fingerprint) for line, answer in self.answers)

    def record(self, branch: Run) -> None:
        """Append the answers; the caller holds a transaction. Raises Refused."""
        if self.answers:
            record_answers(branch=branch, answers=self.answers)


@dataclass(slots=True)
class _Queue:
    """The questions that wait for one place, which takes only so many at once and in a second."""

    place: Place
    waiting: deque[Asking] = field(default_factory=deque)
    began: deque[float] = field(default_factory=deque)
    lock: Lock = field(default_factory=Lock)

    def take(self) -> Asking | None:
        """Return the next question as soon as it may begin, or None where none is left."""
        with self.lock:
            if not self.waiting:
                return None
            if len(self.began) >= self.place.per_second:
                time.sleep(max(0.0, self.began.popleft() + 1.0 - time.monotonic()))
            self.began.append(time.monotonic())
            return self.waiting.popleft()


def ask_again(*, branch: Run) -> Fresh:
    """Ask about every effect whose state rests on its destination's answer; nothing is recorded yet.

    Where a destination does not answer the permit waits, and nobody else is asked. Raises Refused.
    """
    asked = list(_to_ask(branch))
    if not asked:
        return Fresh()
    answers = _ask_all(asked)
    if any(answer.answer is Answer.UNKNOWN for answer in answers.values()):
        raise Refused(rule="destination_unreachable")
    return Fresh(tuple((line, answers[line.operation_key]) for line, _, _ in asked))


def _ask_all(asked: Iterable[Asking]) -> dict[str, DestinationAnswer]:
    """Return the answers by operation key; some are missing where one of them is unknown."""
    queues: dict[str, _Queue] = {}
    for asking in asked:
        where = asking[2]
        queues.setdefault(where.name, _Queue(bounds_of(where))).waiting.append(asking)
    lanes = [
        (number, queue)
        for queue in queues.values()
        for number in range(min(queue.place.at_once, len(queue.waiting)))
    ]
    # Every place's first lane before any place's second.
    lanes.sort(key=lambda lane: lane[0])
    answers: dict[str, DestinationAnswer] = {}
    silence = Event()
    # Plug-ins touch no database, so only they are asked side by side.
    with ThreadPoolExecutor(min(MOST_AT_ONCE, len(lanes)), thread_name_prefix="branchgate-ask") as pool:
        for found in pool.map(lambda lane: _ask_in_turn(lane[1], silence), lanes):
            answers |= found
    return answers


def _ask_in_turn(queue: _Queue, silence: Event) -> dict[str, DestinationAnswer]:
    found: dict[str, DestinationAnswer] = {}
    while not silence.is_set() and (asking := queue.take()) is not None:
        answer = found[asking[0].operation_key] = _answer(asking)
        if answer.answer is Answer.UNKNOWN:
            silence.set()
    return found


def _to_ask(branch: Run) -> Iterator[Asking]:
    """Yield every effect whose state rests on an answer, with whom to ask."""
    declaration = declaration_of(branch)
    places: dict[tuple[str, str], tuple[DestinationQuery, Target]] = {}
    for line in effects_now(branch):
        rule = declaration.destinations.get(line.destination or "") if declaration else None
        if line.asked is None or rule is None:
            continue
        name = rule.query, rule.target
        if name not in places:
            places[name] = _place(branch.workspace, *name)
        yield line, *places[name]


def _place(workspace: Workspace, query: str, name: str) -> tuple[DestinationQuery, Target]:
    try:
        return find("destinations", query), target(workspace, name)
    except (TargetMissing, PluginMissing, PluginUnfit):
        raise Refused(rule="destination_unreachable") from None


def _answer(asked: Asking) -> DestinationAnswer:
    line, destination, place = asked
    try:
        return fit_answer(destination.ask(place, Question(line.operation_key, line.tool, line.payload)))
    except BREAKS:
        return DestinationAnswer(Answer.UNKNOWN, problem="failed")
