"""The events of an operation in their one order, seen as delegation attempts."""

from collections.abc import Iterator
from dataclasses import dataclass

from branches.rules.handoff_facts import HandoffEvent, HandoffFacts, HandoffRecord

OUTCOMES = (HandoffEvent.OUTCOME_VERIFIED, HandoffEvent.OUTCOME_FAILED)


@dataclass(frozen=True, slots=True)
class Step:
    """A record at its place in the order; a greater `place` is newer."""

    place: int
    record: HandoffRecord

    def is_one_of(self, *events: HandoffEvent) -> bool:
        return self.record.event in events


@dataclass(frozen=True, slots=True)
class Attempt:
    """The steps of one handoff, in order; never empty."""

    steps: tuple[Step, ...]

    def having(self, *events: HandoffEvent) -> tuple[Step, ...]:
        return tuple(step for step in self.steps if step.is_one_of(*events))

    def has(self, *events: HandoffEvent) -> bool:
        return any(step.is_one_of(*events) for step in self.steps)

    def newest(self, *events: HandoffEvent) -> Step | None:
        found = self.having(*events)
        return found[-1] if found else None

    def first_place(self, event: HandoffEvent) -> int | None:
        return next((step.place for step in self.steps if step.is_one_of(event)), None)

    @property
    def last(self) -> Step:
        return self.steps[-1]

    @property
    def delegations(self) -> tuple[Step, ...]:
        return self.having(HandoffEvent.DELEGATED)

    @property
    def receivers(self) -> set[str | None]:
        return {step.record.receiver for step in self.delegations}

    @property
    def artifacts(self) -> set[str | None]:
        return {step.record.expected_artifact for step in self.delegations}


@dataclass(frozen=True, slots=True)
class Operation:
    """The attempts in the order of their last delegation, and the handoffs that were never delegated."""

    facts: HandoffFacts
    attempts: tuple[Attempt, ...]
    undelegated: frozenset[str]

    @classmethod
    def of(cls, facts: HandoffFacts) -> "Operation":
        """Equal records count once at the first one's place; the order is by time and then as given."""
        records = sorted(dict.fromkeys(facts.events), key=lambda record: record.at)
        steps: dict[str, list[Step]] = {}
        for place, record in enumerate(records):
            steps.setdefault(record.handoff_id, []).append(Step(place, record))
        attempts = [Attempt(tuple(found)) for found in steps.values()]
        delegated = [attempt for attempt in attempts if attempt.delegations]
        delegated.sort(key=lambda attempt: attempt.delegations[-1].place)
        undelegated = frozenset(a.last.record.handoff_id for a in attempts if not a.delegations)
        return cls(facts, tuple(delegated), undelegated)

    @property
    def newest(self) -> Attempt:
        """The attempt delegated last."""
        return self.attempts[-1]

    @property
    def newest_outcome(self) -> Step | None:
        outcomes = (attempt.newest(*OUTCOMES) for attempt in self.attempts)
        return max((step for step in outcomes if step), key=lambda step: step.place, default=None)

    @property
    def newest_delegation(self) -> Step:
        return self.newest.delegations[-1]

    def is_older_than(self, seconds: int, step: Step) -> bool:
        return step.record.at.is_older_than(seconds, self.facts.now)

    def steps(self) -> Iterator[Step]:
        return (step for attempt in self.attempts for step in attempt.steps)
