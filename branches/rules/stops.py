"""Section 4 of the decision rules: why a loop stopped, and what its outcome rests on."""

from collections.abc import Callable, Iterator

from branches.rules.next_actions import AFTER_STOP
from branches.rules.stop_facts import ConditionType, StopCause, StopFacts, StopOutcome, parse_stop
from branches.rules.verdicts import (
    StopReason,
    StopReceipt,
    StopState,
    StopVerdict,
    StopWarning,
    sort_reasons,
)

__all__ = ["StopFacts", "StopVerdict", "judge_stop", "parse_stop"]

Reasons = tuple[str, ...]

_BOUNDS = (ConditionType.STEP_COUNT, ConditionType.TOKEN_BUDGET, ConditionType.DEADLINE)
_CONDITION_OF = {
    StopCause.STEP_LIMIT: ConditionType.STEP_COUNT,
    StopCause.TOKEN_BUDGET: ConditionType.TOKEN_BUDGET,
}


def judge_stop(facts: StopFacts) -> StopVerdict:
    """The first row of the table that matches; receipt and warnings are said in every row."""
    state, reasons = _first_match(facts)
    return StopVerdict(
        state=state,
        reasons=sort_reasons(reasons),
        receipt=_receipt(facts.outcome),
        warnings=() if facts.policy.has(*_BOUNDS) else (StopWarning.UNBOUNDED,),
        next_action=AFTER_STOP[state],
    )


def _receipt(outcome: StopOutcome | None) -> StopReceipt:
    if outcome is None:
        return StopReceipt.NONE
    if not outcome.issuer.is_independent:
        return StopReceipt.DEPENDENT
    return StopReceipt.VERIFIED if outcome.verified else StopReceipt.DENIED


def _first_match(facts: StopFacts) -> tuple[StopState, Reasons]:
    for state, row in _ROWS:
        reasons = row(facts)
        if reasons is not None:
            return state, reasons
    raise AssertionError("the last row matches everything")


def _cause_among(facts: StopFacts, *causes: StopCause) -> Reasons | None:
    return (str(facts.stop_cause),) if facts.stop_cause in causes else None


def _failed(facts: StopFacts) -> Reasons | None:
    tool = (StopReason.TOOL_FAILED,) if facts.tool_failed else ()
    cause = _cause_among(facts, StopCause.TOOL_ERROR, StopCause.PROVIDER_ERROR) or ()
    return (*tool, *cause) or None


def _waiting(facts: StopFacts) -> Reasons | None:
    routed = facts.stop_cause == StopCause.APPROVAL_REQUESTED and not _unrouted_reasons(facts)
    return () if routed else None


def _waiting_unrouted(facts: StopFacts) -> Reasons | None:
    return _unrouted_reasons(facts) if facts.stop_cause == StopCause.APPROVAL_REQUESTED else None


def _unrouted_reasons(facts: StopFacts) -> Reasons:
    approval = facts.approval
    named = (
        (StopReason.NO_OWNER, approval and approval.owner),
        (StopReason.NO_DEADLINE, approval and approval.deadline),
        (StopReason.NO_RESUME_TOKEN, approval and approval.resume_token),
    )
    return tuple(reason for reason, value in named if not value)


def _stuck(facts: StopFacts) -> Reasons | None:
    return None if facts.useful_progress else _cause_among(facts, StopCause.TIMEOUT)


def _cut_short(facts: StopFacts) -> Reasons | None:
    return _cause_among(facts, StopCause.TIMEOUT, StopCause.USER_ABORT, StopCause.OUTPUT_LIMIT)


def _uncertain(facts: StopFacts) -> Reasons | None:
    return tuple(_disagreements(facts)) or None


def _disagreements(facts: StopFacts) -> Iterator[str]:
    cause = facts.stop_cause
    if cause is None:
        yield StopReason.CAUSE_NOT_RECORDED
    elif cause in _CONDITION_OF:
        yield from _limit_disagreements(facts, cause)
    elif cause == StopCause.DONE_TOOL and facts.done_tool not in facts.last_tools:
        yield StopReason.DONE_TOOL_NOT_LAST
    elif cause == StopCause.NATURAL_FINISH and facts.last_tools:
        yield StopReason.TOOLS_IN_LAST_STEP
    if cause in (StopCause.NATURAL_FINISH, StopCause.DONE_TOOL) and facts.approval is not None:
        yield StopReason.APPROVAL_PENDING


def _limit_disagreements(facts: StopFacts, cause: StopCause) -> Iterator[str]:
    limits = facts.policy.limits(_CONDITION_OF[cause])
    if not limits:
        yield StopReason.NO_SUCH_CONDITION
    elif cause == StopCause.STEP_LIMIT and len(facts.steps) not in limits:
        # The condition is an exact equality: 21 steps do not prove a limit of 20.
        yield StopReason.STEP_LIMIT_NOT_REACHED
    elif cause == StopCause.TOKEN_BUDGET and sum(step.tokens for step in facts.steps) < min(limits):
        yield StopReason.BUDGET_NOT_REACHED


def _limit(facts: StopFacts) -> Reasons | None:
    return _cause_among(facts, StopCause.STEP_LIMIT, StopCause.TOKEN_BUDGET)


def _verified_complete(facts: StopFacts) -> Reasons | None:
    return () if _receipt(facts.outcome) == StopReceipt.VERIFIED else None


def _false_complete(facts: StopFacts) -> Reasons:
    if _receipt(facts.outcome) == StopReceipt.DENIED:
        return (StopReason.CHECK_FAILED,)
    if facts.outcome is not None and facts.outcome.verified:
        return (StopReason.SELF_VERIFIED,)
    return (StopReason.NO_RECEIPT,)


# In the order of the contract: the first row that does not answer None decides.
_ROWS: tuple[tuple[StopState, Callable[[StopFacts], Reasons | None]], ...] = (
    (StopState.FAILED, _failed),
    (StopState.WAITING, _waiting),
    (StopState.WAITING_UNROUTED, _waiting_unrouted),
    (StopState.STUCK, _stuck),
    (StopState.BOUNDED_STOP, _cut_short),
    (StopState.UNCERTAIN, _uncertain),
    (StopState.BOUNDED_STOP, _limit),
    (StopState.VERIFIED_COMPLETE, _verified_complete),
    (StopState.FALSE_COMPLETE, _false_complete),
)
