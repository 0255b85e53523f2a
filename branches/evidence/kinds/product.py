"""What the product itself writes on a run's chain, each kind by one command."""

from typing import Final

from branches.evidence.drift import MOST_CHANGES
from branches.evidence.kinds.forms import (
    ANY_ID,
    ATTEMPT,
    BOOLEAN,
    BRANCH,
    CHANGE_CLASS,
    CHECK,
    DECISION,
    DESTINATION_VERSION,
    DIGEST,
    EDIT_CLASS,
    EVENT,
    HMAC,
    OPERATION_KEY,
    PERMIT,
    PERSON,
    RECORDER,
    REQUEST,
    RESTORE_RESULT,
    RUN,
    SHA256,
    TERM,
    TIMESTAMP,
    WORD,
    Declared,
    Schema,
    enum,
    integer,
    listing,
    name,
    nullable,
    record,
)
from branches.evidence.kinds.outside import ISSUER

PERSON_VERIFIER: Final = "person"
"""The verifier of a workflow whose outcome only a person can find."""
MOST_UNACCOUNTED: Final = 16
"""As many arrivals that no receipt knows are named one by one; of the others only the number."""
MOST_TERMS: Final = 16
"""As many unmet terms of an expectation are recorded."""

RECOVERIES: Final = ("redeliver", "route_wait", "run_verifier", "ask_for_artifact")
"""What an operator may decide for a handoff that does not go on; nothing of it happens by itself."""

CONFIGURATION_KEYS: Final = (
    "role",
    "model",
    "prompt",
    "tools",
    "routing",
    "recipients",
    "budget",
    "permissions",
    "target",
    "destructive",
)
LESSONS: Final = (
    "instruction_unclear",
    "tool_contract_wrong",
    "tool_failed",
    "destination_slow",
    "state_drifted",
    "handoff_lost",
    "edge_forbidden",
    "limit_too_low",
    "person_needed",
    "claim_unchecked",
    "other",
)
"""What a reviewer may have learnt of an incident; more is a note of the workspace."""
CHANGE_KINDS: Final = ("recipients", "budget", "permissions", "target", "destructive")
# Why a named person's word stands where a machine's does not.
DRIFT_REASONS: Final = ("expected_change", "irrelevant_here", "cannot_be_put_back", "diagnosis_only")
JUDGEMENT_REASONS: Final = ("seen_at_destination", "told_by_owner", "undone_by_hand", "nobody_can_be_asked")
ATTEST_REASONS: Final = ("code_was_read", "logs_agree", "destinations_agree", "nothing_else_reachable")
REASON_CODES: Final = (
    "wrong_answer",
    "wrong_tool",
    "missing_detail",
    "bad_plan",
    "tool_failure",
    "false_success",
    "stuck",
    "bounded_stop",
    "topology",
    "experiment",
    "other",
)

FORKED: Final = record(
    {
        "parent": RUN,
        "checkpoint": HMAC,
        "seq": integer(1),
        "digest": SHA256,
        "reason_code": enum(*REASON_CODES),
        "edit_class": nullable(EDIT_CLASS),
        "hypothesis": nullable(HMAC),
        "outcome": nullable(HMAC),
        "kinds": listing(enum(*CHANGE_KINDS), len(CHANGE_KINDS)),
    }
)

CONFIGURATION_PINNED: Final = record(
    {
        "configuration": DIGEST,
        "original": nullable(DIGEST),
        "delta": nullable(DIGEST),
        "changed": listing(enum(*CONFIGURATION_KEYS), len(CONFIGURATION_KEYS)),
    }
)

CONFIGURATION_CHANGED: Final = record(
    {
        "key": enum(*CONFIGURATION_KEYS),
        "agent": nullable(name(Declared.AGENT)),
        "before": nullable(DIGEST),
        "after": nullable(DIGEST),
    }
)

STATE_MEASURED: Final = record(
    {
        "key": name(Declared.STATE_KEY),
        "fingerprint": nullable(DIGEST),
        "result": RESTORE_RESULT,
        "limits": listing(name(Declared.LIMIT), 8),
        "probe": name(Declared.PROBE),
        "drift": listing(record({"part": HMAC, "change": enum("added", "removed", "changed")}), MOST_CHANGES),
    }
)

EFFECT_ASKED: Final = record(
    {
        "operation_key": OPERATION_KEY,
        "destination": name(Declared.DESTINATION),
        "answer": enum("present", "absent", "changed", "unknown"),
        "fingerprint": nullable(DIGEST),
        "destination_ref": nullable(HMAC),
        "destination_version": nullable(DESTINATION_VERSION),
    }
)

EFFECT_RECONCILED: Final = record(
    {
        "operation_key": OPERATION_KEY,
        "status": enum("reverted", "reconciled", "pending", "irreversible"),
        "decision": nullable(enum("skip", "repeat")),
        "basis": enum("destination", "never_happened", "compensated", "person", "recorded_answer"),
        "reason": nullable(enum(*JUDGEMENT_REASONS)),
        "policy": nullable(SHA256),
    }
)

OUTCOME_CHECKED: Final = record(
    {
        "expected": name(Declared.OUTCOME),
        "issuer": ISSUER,
        "check": CHECK,
        "fresh": BOOLEAN,
        "artifact": nullable(DIGEST),
        "destination_version": nullable(DESTINATION_VERSION),
        "operation_key": nullable(OPERATION_KEY),
        "difference": listing(TERM, MOST_TERMS),
    }
)

PRODUCT: Final[dict[str, Schema]] = {
    "forked": FORKED,
    "configuration_pinned": CONFIGURATION_PINNED,
    "configuration_changed": CONFIGURATION_CHANGED,
    "edited": record(
        {
            "target": HMAC,
            "state_key": nullable(name(Declared.STATE_KEY)),
            "edit": HMAC,
            "edit_class": EDIT_CLASS,
        }
    ),
    "state_captured": record(
        {"key": name(Declared.STATE_KEY), "fingerprint": DIGEST, "probe": name(Declared.PROBE)}
    ),
    "state_measured": STATE_MEASURED,
    "drift_acknowledged": record(
        {"key": name(Declared.STATE_KEY), "fingerprint": DIGEST, "reason": enum(*DRIFT_REASONS)}
    ),
    "effect_asked": EFFECT_ASKED,
    "effect_reconciled": EFFECT_RECONCILED,
    "ledger_attested": record(
        {"run": RUN, "through_seq": integer(1), "digest": SHA256, "reason": enum(*ATTEST_REASONS)}
    ),
    "approval_requested": record(
        {
            "request": REQUEST,
            "subject_digest": SHA256,
            "class": CHANGE_CLASS,
            "policy": SHA256,
            "approvals": integer(),
            "expires_at": nullable(TIMESTAMP),
        }
    ),
    "decided": record(
        {
            "request": REQUEST,
            "decision": DECISION,
            "verdict": enum("approved", "rejected"),
            "subject_digest": SHA256,
            "policy": SHA256,
            "by_requester": BOOLEAN,
        }
    ),
    "request_ended": record(
        {"request": REQUEST, "end": enum("expired", "withdrawn", "superseded", "revoked")}
    ),
    "permit_issued": record(
        {"permit": PERMIT, "recorder": RECORDER, "subject_digest": SHA256, "expires_at": TIMESTAMP}
    ),
    "permit_redeemed": record(
        {"permit": PERMIT, "attempt": ATTEMPT, "recorder": RECORDER, "subject_digest": SHA256}
    ),
    "sealed": record({"permit": PERMIT, "subject_digest": SHA256, "facts": SHA256}),
    "lease_lost": record({"attempt": ATTEMPT}),
    "edit_disclosed": record({"edit": HMAC, "person": PERSON}),
    "baseline_taken": record(
        {
            "expected": name(Declared.OUTCOME),
            "destination": nullable(name(Declared.DESTINATION)),
            "reachable": BOOLEAN,
            "destination_version": nullable(DESTINATION_VERSION),
        }
    ),
    "arrivals_audited": record(
        {
            "destination": name(Declared.DESTINATION),
            "since": TIMESTAMP,
            "arrived": integer(),
            "unaccounted": listing(
                record({"arrival": HMAC, "operation_key": nullable(OPERATION_KEY)}), MOST_UNACCOUNTED
            ),
            "more": integer(),
        }
    ),
    "approval_routed": record(
        {
            "stopped": EVENT,
            "owner": name(Declared.OWNER),
            "deadline": TIMESTAMP,
            "resume_token": nullable(HMAC),
        }
    ),
    "recovery_decided": record(
        {
            "operation": HMAC,
            "action": enum(*RECOVERIES),
            "attempt": integer(1),
            "attempts": integer(1),
            "limit_s": integer(1),
            "owner": nullable(name(Declared.OWNER)),
            "basis": SHA256,
        }
    ),
    "outcome_checked": OUTCOME_CHECKED,
    "concluded": record(
        {
            "conclusion": enum("supported", "refuted", "inconclusive"),
            "hypothesis": nullable(HMAC),
            "siblings": listing(BRANCH, 32),
            "chosen": nullable(BRANCH),
            "learnt": listing(enum(*LESSONS), len(LESSONS)),
            "note": nullable(HMAC),
            "closes": BOOLEAN,
        }
    ),
    "conflict": record({"event_id": EVENT, "writer": ANY_ID, "kept": SHA256, "refused": SHA256}),
    "refused": record({"action": WORD, "rule": WORD, "subject": nullable(ANY_ID)}),
}
