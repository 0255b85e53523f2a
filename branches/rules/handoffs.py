"""Section 2 of the decision rules: who owns an operation, and whether the promised thing arrived."""

from collections.abc import Callable, Iterator

from branches.rules.attempts import OUTCOMES, Attempt, Operation, Step
from branches.rules.handoff_facts import HandoffEvent, HandoffEvidence, HandoffFacts, parse_handoff
from branches.rules.next_actions import AFTER_HANDOFF
from branches.rules.verdicts import HandoffReason, HandoffState, HandoffVerdict, NextAction, sort_reasons

__all__ = ["HandoffFacts", "HandoffVerdict", "judge_handoff", "parse_handoff"]

_BY_THE_RECEIVER = (
    HandoffEvent.ACCEPTED,
    HandoffEvent.REJECTED,
    HandoffEvent.PROGRESS,
    HandoffEvent.WAITING,
    HandoffEvent.COMPLETED,
)
_NEEDS_ACCEPTANCE = (HandoffEvent.PROGRESS, HandoffEvent.WAITING, HandoffEvent.COMPLETED, *OUTCOMES)
_SIGNS_OF_LIFE = (HandoffEvent.ACCEPTED, HandoffEvent.PROGRESS, HandoffEvent.WAITING)
_NO_LONGER_OWNED = (HandoffEvent.COMPLETED, HandoffEvent.REJECTED, HandoffEvent.RELEASED)
_JUDGED_BY_AN_OUTCOME = (HandoffState.UNCERTAIN, HandoffState.VERIFIED, HandoffState.FAILED_OUTCOME)

Reasons = tuple[str, ...]


def judge_handoff(facts: HandoffFacts) -> HandoffVerdict:
    """The first row of the table that matches; reasons are sorted."""
    operation = Operation.of(facts)
    for state, row in _ROWS:
        reasons = row(operation)
        if reasons is not None:
            return _verdict(operation, state, reasons)
    raise AssertionError("the last row matches everything")


def _verdict(operation: Operation, state: HandoffState, reasons: Reasons) -> HandoffVerdict:
    if state not in _JUDGED_BY_AN_OUTCOME and _has_unverified_earlier_completion(operation):
        found = sort_reasons([*reasons, HandoffReason.EARLIER_COMPLETION_UNVERIFIED])
        return HandoffVerdict(state, found, NextAction.VERIFY_OR_REOPEN)
    return HandoffVerdict(state, sort_reasons(reasons), AFTER_HANDOFF[state])


def _has_unverified_earlier_completion(operation: Operation) -> bool:
    outcome = operation.newest_outcome
    last_checked = outcome.place if outcome else -1
    completions = (attempt.newest(HandoffEvent.COMPLETED) for attempt in operation.attempts[:-1])
    return any(step is not None and step.place > last_checked for step in completions)


def _uncertain(operation: Operation) -> Reasons | None:
    reasons = tuple(_disagreements(operation))
    return reasons or None


def _disagreements(operation: Operation) -> Iterator[str]:
    if operation.facts.evidence == HandoffEvidence.UNAVAILABLE:
        yield HandoffReason.EVIDENCE_UNAVAILABLE
    if not all(record.trusted for record in operation.facts.events):
        yield HandoffReason.UNTRUSTED_WRITER
    if operation.undelegated:
        yield HandoffReason.NO_DELEGATION
    for attempt in operation.attempts:
        yield from _disagreements_within(attempt)
    yield from _disagreements_between(operation)


def _disagreements_within(attempt: Attempt) -> Iterator[str]:
    delegated, *again = attempt.delegations
    accepted = attempt.first_place(HandoffEvent.ACCEPTED)
    rejected = attempt.first_place(HandoffEvent.REJECTED)
    if again:
        yield HandoffReason.DELEGATED_TWICE
    if attempt.steps[0] != delegated:
        yield HandoffReason.BEFORE_DELEGATION
    for step in attempt.steps:
        if step.is_one_of(*_BY_THE_RECEIVER) and step.record.agent not in attempt.receivers:
            yield HandoffReason.RECEIVER_MISMATCH
        if step.is_one_of(*_NEEDS_ACCEPTANCE) and (accepted is None or step.place < accepted):
            yield HandoffReason.WORK_WITHOUT_ACCEPTANCE
        if step.is_one_of(HandoffEvent.ACCEPTED) and rejected is not None and step.place > rejected:
            yield HandoffReason.ACCEPTED_AFTER_REJECTION
        if step.is_one_of(*OUTCOMES) and _names_another_artifact(step, attempt):
            yield HandoffReason.ARTIFACT_MISMATCH
        if step.is_one_of(HandoffEvent.WAITING) and not step.record.dependency:
            yield HandoffReason.WAITING_WITHOUT_DEPENDENCY


def _names_another_artifact(outcome: Step, attempt: Attempt) -> bool:
    named = outcome.record.expected_artifact
    return named is not None and named not in attempt.artifacts


def _disagreements_between(operation: Operation) -> Iterator[str]:
    if len({artifact for attempt in operation.attempts for artifact in attempt.artifacts}) > 1:
        yield HandoffReason.ARTIFACT_CHANGED
    receivers = {receiver for attempt in operation.attempts for receiver in attempt.receivers}
    verifications = (step for step in operation.steps() if step.is_one_of(HandoffEvent.OUTCOME_VERIFIED))
    if any(step.record.agent in receivers for step in verifications):
        yield HandoffReason.SELF_VERIFIED
    owned = [a for a in operation.attempts if a.has(HandoffEvent.ACCEPTED) and not a.has(*_NO_LONGER_OWNED)]
    if len(owned) > 1:
        yield HandoffReason.TWO_OWNERS


def _verified(operation: Operation) -> Reasons | None:
    outcome = operation.newest_outcome
    if outcome is None or not outcome.is_one_of(HandoffEvent.OUTCOME_VERIFIED):
        return None
    return (HandoffReason.DELEGATED_AGAIN,) if operation.newest_delegation.place > outcome.place else ()


def _failed_outcome(operation: Operation) -> Reasons | None:
    outcome = operation.newest_outcome
    if outcome is None or operation.newest_delegation.place > outcome.place:
        return None
    return (HandoffReason.CHECK_FAILED,)


def _false_success(operation: Operation) -> Reasons | None:
    completed = operation.newest.newest(HandoffEvent.COMPLETED)
    if completed is None or not operation.is_older_than(operation.facts.limits.verification_s, completed):
        return None
    return (HandoffReason.UNVERIFIED,)


def _waiting(operation: Operation) -> Reasons | None:
    last = operation.newest.last
    if not last.is_one_of(HandoffEvent.WAITING):
        return None
    dependency = HandoffReason.DEPENDENCY.about(last.record.dependency or "")
    overdue = last.record.deadline is not None and operation.facts.now > last.record.deadline
    return (dependency, HandoffReason.OVERDUE) if overdue else (dependency,)


def _orphaned(operation: Operation) -> Reasons | None:
    ends = (
        (HandoffEvent.REJECTED, HandoffReason.REJECTED),
        (HandoffEvent.RELEASED, HandoffReason.RELEASED),
    )
    reasons = tuple(reason for event, reason in ends if operation.newest.has(event))
    if reasons:
        return reasons
    only_delegated = _delegated(operation) is not None
    if only_delegated and operation.is_older_than(operation.facts.limits.acceptance_s, operation.newest.last):
        return (HandoffReason.NOT_ACCEPTED,)
    return None


def _delegated(operation: Operation) -> Reasons | None:
    # One step is the delegation itself: anything else alone was uncertain.
    return () if len(operation.newest.steps) == 1 else None


def _stuck(operation: Operation) -> Reasons | None:
    alive = operation.newest.newest(*_SIGNS_OF_LIFE)
    if operation.newest.has(HandoffEvent.COMPLETED) or alive is None:
        return None
    older = operation.is_older_than(operation.facts.limits.progress_s, alive)
    return (HandoffReason.NO_PROGRESS,) if older else None


def _working(_operation: Operation) -> Reasons:
    return ()


# In the order of the contract: the first row that does not answer None decides.
_ROWS: tuple[tuple[HandoffState, Callable[[Operation], Reasons | None]], ...] = (
    (HandoffState.UNCERTAIN, _uncertain),
    (HandoffState.VERIFIED, _verified),
    (HandoffState.FAILED_OUTCOME, _failed_outcome),
    (HandoffState.FALSE_SUCCESS, _false_success),
    (HandoffState.WAITING, _waiting),
    (HandoffState.ORPHANED, _orphaned),
    (HandoffState.DELEGATED, _delegated),
    (HandoffState.STUCK, _stuck),
    (HandoffState.WORKING, _working),
)
