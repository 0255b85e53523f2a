"""Section 1 of the decision rules: six gates judged on their own, and the status of the first one shut."""

from collections.abc import Iterator

from branches.rules.branch_facts import (
    BranchFacts,
    Check,
    Decision,
    Effect,
    EffectStatus,
    KeyState,
    Ledger,
    Loop,
    Outcome,
    Restore,
    Resume,
    parse_branch,
)
from branches.rules.next_actions import AFTER_BRANCH
from branches.rules.verdicts import (
    BranchReason,
    BranchStatus,
    BranchVerdict,
    Fidelity,
    GateName,
    GateVerdict,
    NextAction,
    sort_reasons,
)

__all__ = ["BranchFacts", "BranchVerdict", "judge_branch", "parse_branch"]

_SHUT = {
    GateName.LINEAGE: BranchStatus.INVALID_LINEAGE,
    GateName.STATE: BranchStatus.RESTORE_UNCERTAIN,
    GateName.EFFECTS: BranchStatus.EFFECTS_UNRECONCILED,
    GateName.AUTHORITY: BranchStatus.NEEDS_APPROVAL,
    GateName.CONFIGURATION: BranchStatus.CONFIGURATION_UNPINNED,
}
_RESTORE_REASONS = {
    Restore.DRIFTED: BranchReason.DRIFTED,
    Restore.UNREACHABLE: BranchReason.UNREACHABLE,
    Restore.NOT_RESTORED: BranchReason.NOT_RESTORED,
}
_DECISION_REASONS = {
    Decision.NONE: BranchReason.NO_DECISION,
    Decision.REJECTED: BranchReason.REJECTED,
    Decision.EXPIRED: BranchReason.EXPIRED,
    Decision.REVOKED: BranchReason.REVOKED,
    Decision.SUPERSEDED: BranchReason.SUPERSEDED,
}


def judge_branch(facts: BranchFacts) -> BranchVerdict:
    """Judge all six gates. The same facts give the same verdict; reasons are sorted."""
    gates = (
        _judge_gate(GateName.LINEAGE, _lineage_reasons(facts)),
        _judge_gate(GateName.STATE, _state_reasons(facts)),
        _judge_gate(GateName.EFFECTS, _effects_reasons(facts)),
        _judge_gate(GateName.AUTHORITY, _authority_reasons(facts)),
        _judge_gate(GateName.CONFIGURATION, _configuration_reasons(facts)),
        _judge_outcome(facts),
    )
    status, reasons = _deciding_row(facts, gates)
    return BranchVerdict(
        status=status,
        fidelity=_fidelity(facts, state_passed=gates[1].passed),
        gates=gates,
        reasons=reasons,
        next_action=_next_action(status, reasons),
    )


def _judge_gate(gate: GateName, reasons: Iterator[str]) -> GateVerdict:
    found = sort_reasons(reasons)
    return GateVerdict(gate, not found, found)


def _lineage_reasons(facts: BranchFacts) -> Iterator[str]:
    if not facts.branch_id or not facts.parent_id:
        yield BranchReason.MISSING_IDENTITY
    elif facts.branch_id == facts.parent_id:
        yield BranchReason.SAME_IDENTITY
    if not facts.fork_point.in_parent:
        yield BranchReason.CHECKPOINT_NOT_IN_PARENT
    if not facts.fork_point.parent_unchanged:
        yield BranchReason.PARENT_HISTORY_CHANGED


def _state_reasons(facts: BranchFacts) -> Iterator[str]:
    for key in facts.required_state_keys:
        state = facts.state.get(key)
        if state is None:
            yield BranchReason.MISSING.about(key)
        else:
            acknowledgeable = key in facts.acknowledgeable_keys
            yield from (reason.about(key) for reason in _key_reasons(state, acknowledgeable=acknowledgeable))


def _key_reasons(state: KeyState, *, acknowledgeable: bool) -> Iterator[BranchReason]:
    if not state.fingerprint:
        yield BranchReason.NO_FINGERPRINT
    if state.stale:
        yield BranchReason.STALE
    if state.restore == Restore.DRIFT_ACKNOWLEDGED and not acknowledgeable:
        yield BranchReason.NOT_ACKNOWLEDGEABLE
    if state.restore in _RESTORE_REASONS:
        yield _RESTORE_REASONS[state.restore]


def _effects_reasons(facts: BranchFacts) -> Iterator[str]:
    if facts.effects_ledger not in (Ledger.COMPLETE, Ledger.ATTESTED):
        yield BranchReason.LEDGER_UNKNOWN
    for effect in facts.effects:
        if effect.stale:
            yield BranchReason.STALE.about(effect.operation_key)
        if effect.status == EffectStatus.PENDING:
            yield BranchReason.PENDING.about(effect.operation_key)
        if effect.status == EffectStatus.IRREVERSIBLE and effect.decision is None:
            yield BranchReason.IRREVERSIBLE.about(effect.operation_key)


def _authority_reasons(facts: BranchFacts) -> Iterator[str]:
    authority = facts.authority
    # Whoever decides about an irreversible effect proposes it; that it may be so is for an approver to say.
    required = authority.required or any(_is_decided(effect) for effect in facts.effects)
    if not authority.operator_authorised:
        yield BranchReason.OPERATOR_NOT_AUTHORISED
    vetoed = authority.decision in (Decision.REJECTED, Decision.REVOKED)
    if vetoed or (required and authority.decision != Decision.APPROVED):
        yield _DECISION_REASONS[authority.decision]


def _configuration_reasons(facts: BranchFacts) -> Iterator[str]:
    if not facts.configuration_pinned:
        yield BranchReason.UNPINNED


def _is_decided(effect: Effect) -> bool:
    return effect.status == EffectStatus.IRREVERSIBLE and effect.decision is not None


def _judge_outcome(facts: BranchFacts) -> GateVerdict:
    if facts.resume == Resume.STARTED:
        status, reasons = _row_after_start(facts.outcome)
        return GateVerdict(GateName.OUTCOME, status == BranchStatus.VERIFIED, reasons)
    reasons = () if facts.outcome is None else (str(BranchReason.OUTCOME_BEFORE_RESUME),)
    return GateVerdict(GateName.OUTCOME, passed=False, reasons=reasons)


def _deciding_row(facts: BranchFacts, gates: tuple[GateVerdict, ...]) -> tuple[BranchStatus, tuple[str, ...]]:
    for gate in gates[:-1]:
        if not gate.passed:
            return _SHUT[gate.gate], gate.reasons
    match facts.resume:
        case Resume.NONE:
            return BranchStatus.READY_TO_RESUME, ()
        case Resume.REDEEMED:
            return BranchStatus.RESUMING, ()
        case Resume.LOST:
            return BranchStatus.RESUME_UNCERTAIN, (str(BranchReason.NO_START_RECEIPT),)
        case Resume.STARTED:
            return _row_after_start(facts.outcome)


def _row_after_start(outcome: Outcome | None) -> tuple[BranchStatus, tuple[str, ...]]:
    """Status and sorted reasons of gate 6 and the rows below it, once the runtime's start receipt is here."""
    if outcome is not None and outcome.check == Check.PASSED and outcome.fresh:
        return BranchStatus.VERIFIED, ()
    if outcome is not None and outcome.loop == Loop.CLAIMED:
        return _row_of_a_claim(outcome.check)
    if outcome is not None and outcome.loop == Loop.ENDED:
        failed = [BranchReason.CHECK_FAILED] if outcome.check == Check.FAILED else []
        return BranchStatus.UNFINISHED, sort_reasons([BranchReason.ENDED_WITHOUT_CLAIM, *failed])
    return BranchStatus.AWAITING_OUTCOME, (str(BranchReason.NO_OUTCOME),)


def _row_of_a_claim(check: Check) -> tuple[BranchStatus, tuple[str, ...]]:
    match check:
        case Check.UNREACHABLE:
            return BranchStatus.OUTCOME_UNCERTAIN, (str(BranchReason.UNREACHABLE),)
        case Check.NONE:
            return BranchStatus.FALSE_SUCCESS, (str(BranchReason.NO_RECEIPT),)
        case Check.FAILED:
            return BranchStatus.FALSE_SUCCESS, (str(BranchReason.CHECK_FAILED),)
        case Check.PASSED:
            # `fresh` speaks of what passed, so only here can it be what is missing.
            return BranchStatus.FALSE_SUCCESS, (str(BranchReason.NOT_FRESH),)


def _fidelity(facts: BranchFacts, *, state_passed: bool) -> Fidelity:
    if not state_passed:
        return Fidelity.UNKNOWN
    drifted = any(facts.state[key].restore == Restore.DRIFT_ACKNOWLEDGED for key in facts.required_state_keys)
    return Fidelity.PARTIAL if drifted else Fidelity.EXACT


def _next_action(status: BranchStatus, reasons: tuple[str, ...]) -> NextAction:
    """The table, and what it says of gates 3 and 4 by their reasons."""
    if status == BranchStatus.EFFECTS_UNRECONCILED:
        undecided = BranchReason.IRREVERSIBLE.about("")
        if all(reason.startswith(undecided) for reason in reasons):
            return NextAction.DECIDE_IRREVERSIBLE
    if status == BranchStatus.NEEDS_APPROVAL:
        if BranchReason.OPERATOR_NOT_AUTHORISED in reasons:
            return NextAction.HAND_TO_AUTHORISED_OPERATOR
        if BranchReason.REJECTED in reasons or BranchReason.REVOKED in reasons:
            return NextAction.RESPECT_THE_DECISION
    return AFTER_BRANCH[status]
