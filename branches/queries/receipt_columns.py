"""The columns of a receipt's row: they find it again, and say nothing that its exact bytes do not say."""

from collections.abc import Mapping
from typing import Any, Final

# Where what a receipt is about stands in its body; a kind that is not named here has no subject.
SUBJECT_FIELDS: Final[Mapping[str, str]] = {
    "message": "message",
    "checkpoint": "checkpoint",
    "effect_intended": "operation_key",
    "effect_answered": "operation_key",
    "effect_reused": "operation_key",
    "effect_held": "operation_key",
    "effect_skipped": "operation_key",
    "outcome": "expected",
    "handoff": "operation",
    "forked": "checkpoint",
    "edited": "target",
    "state_captured": "key",
    "state_measured": "key",
    "drift_acknowledged": "key",
    "effect_asked": "operation_key",
    "effect_reconciled": "operation_key",
    "ledger_attested": "run",
    "approval_requested": "request",
    "decided": "request",
    "request_ended": "request",
    "permit_issued": "permit",
    "permit_redeemed": "permit",
    "sealed": "permit",
    "lease_lost": "attempt",
    "baseline_taken": "expected",
    "arrivals_audited": "destination",
    "approval_routed": "stopped",
    "recovery_decided": "operation",
    "outcome_checked": "expected",
    "concluded": "chosen",
    "conflict": "event_id",
    "refused": "subject",
}


def subject_in(kind: str, body: Mapping[str, Any]) -> str | None:
    """Return what a receipt is about, from its body."""
    if kind == "configuration_changed":
        return f"{body['agent']}.{body['key']}"
    field = SUBJECT_FIELDS.get(kind)
    return body[field] if field is not None else None


def columns_of(receipt: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return seq, event_id, writer, kind, subject and digest as the row must hold them."""
    kind = receipt["kind"]
    names = ("seq", "event_id", "writer")
    return (*(receipt[name] for name in names), kind, subject_in(kind, receipt["body"]), receipt["digest"])
