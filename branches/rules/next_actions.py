"""Which next action belongs to which state, before the overrides that the judging modules make."""

from branches.rules.verdicts import BranchStatus, HandoffState, NextAction, StopState, TopologyState

AFTER_BRANCH: dict[BranchStatus, NextAction] = {
    BranchStatus.INVALID_LINEAGE: NextAction.FORK_AGAIN_FROM_PARENT,
    BranchStatus.RESTORE_UNCERTAIN: NextAction.CAPTURE_OR_PROBE_STATE,
    BranchStatus.EFFECTS_UNRECONCILED: NextAction.ASK_DESTINATION,
    BranchStatus.NEEDS_APPROVAL: NextAction.ROUTE_TO_OWNER,
    BranchStatus.CONFIGURATION_UNPINNED: NextAction.PIN_CONFIGURATION,
    BranchStatus.READY_TO_RESUME: NextAction.RESUME,
    BranchStatus.RESUMING: NextAction.LEAVE_ALONE,
    BranchStatus.RESUME_UNCERTAIN: NextAction.ASK_BEFORE_ACTING,
    BranchStatus.VERIFIED: NextAction.NONE,
    BranchStatus.OUTCOME_UNCERTAIN: NextAction.ASK_DESTINATION_AGAIN,
    BranchStatus.FALSE_SUCCESS: NextAction.VERIFY_OR_REOPEN,
    BranchStatus.UNFINISHED: NextAction.KEEP_PARTIAL_WORK_AND_DECIDE,
    BranchStatus.AWAITING_OUTCOME: NextAction.LEAVE_ALONE,
}

AFTER_HANDOFF: dict[HandoffState, NextAction] = {
    HandoffState.UNCERTAIN: NextAction.ASK_BEFORE_ACTING,
    HandoffState.VERIFIED: NextAction.NONE,
    HandoffState.FAILED_OUTCOME: NextAction.REOPEN_OUTCOME,
    HandoffState.FALSE_SUCCESS: NextAction.VERIFY_OR_REOPEN,
    HandoffState.WAITING: NextAction.ROUTE_THE_DEPENDENCY,
    HandoffState.ORPHANED: NextAction.REDELIVER_IF_IDEMPOTENT,
    HandoffState.DELEGATED: NextAction.LEAVE_ALONE,
    HandoffState.STUCK: NextAction.PREPARE_BOUNDED_RECOVERY,
    HandoffState.WORKING: NextAction.LEAVE_ALONE,
}

AFTER_TOPOLOGY: dict[TopologyState, NextAction] = {
    TopologyState.STALE_CONTRACT: NextAction.COMPARE_WITH_THE_PINNED_VERSION,
    TopologyState.UNKNOWN_AGENT: NextAction.VERIFY_IDENTITY,
    TopologyState.FORBIDDEN_EDGE: NextAction.CONTAIN_THE_ROUTE,
    TopologyState.AMBIGUOUS_ROUTE: NextAction.RECONCILE_OWNERSHIP,
    TopologyState.UNCERTAIN: NextAction.ASK_BEFORE_ACTING,
    TopologyState.FALSE_COMPLETE: NextAction.VERIFY_OR_REOPEN,
    TopologyState.HEALTHY: NextAction.NONE,
    TopologyState.WAITING: NextAction.ROUTE_THE_DEPENDENCY,
    TopologyState.INCOMPLETE: NextAction.INSPECT_FIRST_MISSING_EDGE,
    TopologyState.WORKING: NextAction.LEAVE_ALONE,
}

AFTER_STOP: dict[StopState, NextAction] = {
    StopState.FAILED: NextAction.DIAGNOSE_THE_BOUNDARY,
    StopState.WAITING: NextAction.ROUTE_THE_DEPENDENCY,
    StopState.WAITING_UNROUTED: NextAction.ADD_OWNER_AND_ROUTE,
    StopState.STUCK: NextAction.PREPARE_BOUNDED_RECOVERY,
    StopState.UNCERTAIN: NextAction.ASK_BEFORE_ACTING,
    StopState.BOUNDED_STOP: NextAction.KEEP_PARTIAL_WORK_AND_DECIDE,
    StopState.VERIFIED_COMPLETE: NextAction.NONE,
    StopState.FALSE_COMPLETE: NextAction.VERIFY_OR_REOPEN,
}
