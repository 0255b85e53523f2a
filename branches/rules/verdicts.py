"""The words of the four classifiers in the order of precedence, and the verdicts that carry them."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum, auto


class NextAction(StrEnum):
    """What to do about a verdict: one word each."""

    FORK_AGAIN_FROM_PARENT = auto()
    CAPTURE_OR_PROBE_STATE = auto()
    ASK_DESTINATION = auto()
    DECIDE_IRREVERSIBLE = auto()
    HAND_TO_AUTHORISED_OPERATOR = auto()
    RESPECT_THE_DECISION = auto()
    ROUTE_TO_OWNER = auto()
    PIN_CONFIGURATION = auto()
    RESUME = auto()
    LEAVE_ALONE = auto()
    ASK_BEFORE_ACTING = auto()
    ASK_DESTINATION_AGAIN = auto()
    VERIFY_OR_REOPEN = auto()
    KEEP_PARTIAL_WORK_AND_DECIDE = auto()
    NONE = auto()
    REOPEN_OUTCOME = auto()
    ROUTE_THE_DEPENDENCY = auto()
    ADD_OWNER_AND_ROUTE = auto()
    REDELIVER_IF_IDEMPOTENT = auto()
    PREPARE_BOUNDED_RECOVERY = auto()
    COMPARE_WITH_THE_PINNED_VERSION = auto()
    VERIFY_IDENTITY = auto()
    CONTAIN_THE_ROUTE = auto()
    RECONCILE_OWNERSHIP = auto()
    INSPECT_FIRST_MISSING_EDGE = auto()
    DIAGNOSE_THE_BOUNDARY = auto()


class Reason(StrEnum):
    """A closed code; some name their subject: `missing:browser`."""

    def about(self, subject: str) -> str:
        return f"{self}:{subject}"


class GateName(StrEnum):
    LINEAGE = auto()
    STATE = auto()
    EFFECTS = auto()
    AUTHORITY = auto()
    CONFIGURATION = auto()
    OUTCOME = auto()


class Fidelity(StrEnum):
    """How near a branch is to what ran: a `partial` one is a diagnosis, never an exact reproduction."""

    UNKNOWN = auto()
    PARTIAL = auto()
    EXACT = auto()


class BranchStatus(StrEnum):
    INVALID_LINEAGE = auto()
    RESTORE_UNCERTAIN = auto()
    EFFECTS_UNRECONCILED = auto()
    NEEDS_APPROVAL = auto()
    CONFIGURATION_UNPINNED = auto()
    READY_TO_RESUME = auto()
    RESUMING = auto()
    RESUME_UNCERTAIN = auto()
    VERIFIED = auto()
    OUTCOME_UNCERTAIN = auto()
    FALSE_SUCCESS = auto()
    UNFINISHED = auto()
    AWAITING_OUTCOME = auto()


class BranchReason(Reason):
    MISSING_IDENTITY = auto()
    SAME_IDENTITY = auto()
    CHECKPOINT_NOT_IN_PARENT = auto()
    PARENT_HISTORY_CHANGED = auto()
    MISSING = auto()
    NO_FINGERPRINT = auto()
    STALE = auto()
    DRIFTED = auto()
    UNREACHABLE = auto()
    NOT_RESTORED = auto()
    NOT_ACKNOWLEDGEABLE = auto()
    LEDGER_UNKNOWN = auto()
    PENDING = auto()
    IRREVERSIBLE = auto()
    OPERATOR_NOT_AUTHORISED = auto()
    NO_DECISION = auto()
    REJECTED = auto()
    EXPIRED = auto()
    REVOKED = auto()
    SUPERSEDED = auto()
    UNPINNED = auto()
    NO_START_RECEIPT = auto()
    OUTCOME_BEFORE_RESUME = auto()
    NO_RECEIPT = auto()
    CHECK_FAILED = auto()
    NOT_FRESH = auto()
    ENDED_WITHOUT_CLAIM = auto()
    NO_OUTCOME = auto()


class HandoffState(StrEnum):
    UNCERTAIN = auto()
    VERIFIED = auto()
    FAILED_OUTCOME = auto()
    FALSE_SUCCESS = auto()
    WAITING = auto()
    ORPHANED = auto()
    DELEGATED = auto()
    STUCK = auto()
    WORKING = auto()


class HandoffReason(Reason):
    EVIDENCE_UNAVAILABLE = auto()
    UNTRUSTED_WRITER = auto()
    NO_DELEGATION = auto()
    DELEGATED_TWICE = auto()
    BEFORE_DELEGATION = auto()
    RECEIVER_MISMATCH = auto()
    WORK_WITHOUT_ACCEPTANCE = auto()
    ACCEPTED_AFTER_REJECTION = auto()
    ARTIFACT_CHANGED = auto()
    ARTIFACT_MISMATCH = auto()
    SELF_VERIFIED = auto()
    WAITING_WITHOUT_DEPENDENCY = auto()
    TWO_OWNERS = auto()
    DELEGATED_AGAIN = auto()
    CHECK_FAILED = auto()
    UNVERIFIED = auto()
    DEPENDENCY = auto()
    OVERDUE = auto()
    REJECTED = auto()
    RELEASED = auto()
    NOT_ACCEPTED = auto()
    NO_PROGRESS = auto()
    EARLIER_COMPLETION_UNVERIFIED = auto()


class TopologyState(StrEnum):
    """`uncertain` is the word of two rows: evidence that is not complete, and at the very end silence."""

    STALE_CONTRACT = auto()
    UNKNOWN_AGENT = auto()
    FORBIDDEN_EDGE = auto()
    AMBIGUOUS_ROUTE = auto()
    UNCERTAIN = auto()
    FALSE_COMPLETE = auto()
    HEALTHY = auto()
    WAITING = auto()
    INCOMPLETE = auto()
    WORKING = auto()


class TopologyReason(Reason):
    """Beside these, reasons are event ids, agent names and edge keys."""

    CONTRACT = auto()
    SAMPLED = auto()
    UNKNOWN = auto()
    NO_OUTCOME_RECEIPT = auto()
    DEPENDENCY = auto()
    NO_RECENT_PROGRESS = auto()


class StopState(StrEnum):
    FAILED = auto()
    WAITING = auto()
    WAITING_UNROUTED = auto()
    STUCK = auto()
    UNCERTAIN = auto()
    BOUNDED_STOP = auto()
    VERIFIED_COMPLETE = auto()
    FALSE_COMPLETE = auto()


class StopReason(Reason):
    """Beside these, the stop cause is a reason by its own word."""

    TOOL_FAILED = auto()
    NO_OWNER = auto()
    NO_DEADLINE = auto()
    NO_RESUME_TOKEN = auto()
    CAUSE_NOT_RECORDED = auto()
    NO_SUCH_CONDITION = auto()
    STEP_LIMIT_NOT_REACHED = auto()
    BUDGET_NOT_REACHED = auto()
    DONE_TOOL_NOT_LAST = auto()
    TOOLS_IN_LAST_STEP = auto()
    APPROVAL_PENDING = auto()
    CHECK_FAILED = auto()
    SELF_VERIFIED = auto()
    NO_RECEIPT = auto()


class StopReceipt(StrEnum):
    """What the outcome of a loop rests on."""

    VERIFIED = auto()
    DENIED = auto()
    DEPENDENT = auto()
    NONE = auto()


class StopWarning(StrEnum):
    UNBOUNDED = auto()


@dataclass(frozen=True, slots=True)
class GateVerdict:
    """One gate judged on its own; `reasons` are sorted, and an outcome gate may fail without any."""

    gate: GateName
    passed: bool
    reasons: tuple[str, ...] = ()

    def as_json(self) -> dict[str, object]:
        return {"gate": self.gate, "passed": self.passed, "reasons": list(self.reasons)}


@dataclass(frozen=True, slots=True)
class BranchVerdict:
    """All six gates in order, and the status of the first that does not pass."""

    status: BranchStatus
    fidelity: Fidelity
    gates: tuple[GateVerdict, ...]
    reasons: tuple[str, ...]
    next_action: NextAction

    def gate(self, name: GateName) -> GateVerdict:
        return next(verdict for verdict in self.gates if verdict.gate == name)

    def as_json(self) -> dict[str, object]:
        return {
            "status": self.status,
            "fidelity": self.fidelity,
            "gates": [gate.as_json() for gate in self.gates],
            "reasons": list(self.reasons),
            "next_action": self.next_action,
        }


@dataclass(frozen=True, slots=True)
class HandoffVerdict:
    state: HandoffState
    reasons: tuple[str, ...]
    next_action: NextAction

    def as_json(self) -> dict[str, object]:
        return {"state": self.state, "reasons": list(self.reasons), "next_action": self.next_action}


@dataclass(frozen=True, slots=True)
class TopologyVerdict:
    """`naive_green` is what the common rule (at least one event, all of them ok) would say."""

    verdict: TopologyState
    reasons: tuple[str, ...]
    missing: tuple[str, ...]
    naive_green: bool
    next_action: NextAction

    def as_json(self) -> dict[str, object]:
        return {
            "verdict": self.verdict,
            "reasons": list(self.reasons),
            "missing": list(self.missing),
            "naive_green": self.naive_green,
            "next_action": self.next_action,
        }


@dataclass(frozen=True, slots=True)
class StopVerdict:
    state: StopState
    reasons: tuple[str, ...]
    receipt: StopReceipt
    warnings: tuple[StopWarning, ...]
    next_action: NextAction

    def as_json(self) -> dict[str, object]:
        return {
            "state": self.state,
            "reasons": list(self.reasons),
            "receipt": self.receipt,
            "warnings": list(self.warnings),
            "next_action": self.next_action,
        }


def sort_reasons(reasons: Iterable[str]) -> tuple[str, ...]:
    """Each reason once, as a plain string, by code point."""
    return tuple(sorted({str(reason) for reason in reasons}))
