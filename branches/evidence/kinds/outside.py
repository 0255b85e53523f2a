"""What runtimes, recorders and destinations may send."""

from typing import Final

from branches.evidence.kinds.forms import (
    ATTEMPT,
    BOOLEAN,
    CHECK,
    DESTINATION_VERSION,
    DIGEST,
    EFFECT_CLASS,
    EFFECT_DECISION,
    HMAC,
    OPERATION_KEY,
    PERMIT,
    RESTORE_RESULT,
    TIMESTAMP,
    VERSION,
    WORKFLOW,
    Declared,
    Schema,
    enum,
    integer,
    listing,
    mapping,
    name,
    nullable,
    one_of,
    record,
)

MAX_STATE_KEYS: Final = 32
MAX_FACTS: Final = 32

_AGENT_CONFIGURATION: Final = record(
    {
        "agent": name(Declared.AGENT),
        "role": nullable(HMAC),
        "model": nullable(name(Declared.MODEL)),
        "prompt": nullable(HMAC),
        "tools": nullable(DIGEST),
    }
)

RUN_STARTED: Final = record(
    {
        "workflow": nullable(WORKFLOW),
        "workflow_version": nullable(VERSION),
        "runtime": record({"name": name(Declared.RUNTIME), "version": nullable(VERSION)}),
        "external_ref": nullable(HMAC),
        "configuration": nullable(
            record({"agents": listing(_AGENT_CONFIGURATION, 24), "routing": nullable(DIGEST)})
        ),
        "contract_version": nullable(VERSION),
        "phase": nullable(name(Declared.PHASE)),
        "recording": enum("full", "partial", "imported", "imported_whole"),
    }
)

MESSAGE: Final = record(
    {
        "message": HMAC,
        "checkpoint": nullable(HMAC),
        "sender": nullable(name(Declared.AGENT)),
        "recipient": nullable(name(Declared.AGENT)),
        "class": enum("input", "answer", "tool_call", "tool_result", "handoff", "system"),
        "content": nullable(HMAC),
        "bytes": nullable(integer()),
        "tokens": nullable(integer()),
        "replies_to": nullable(HMAC),
    }
)

_FACT: Final[Schema] = {
    **name(Declared.FACT_WORD),
    "type": ["string", "integer", "boolean"],
    "minimum": -(2**53) + 1,
    "maximum": 2**53 - 1,
}

CHECKPOINT: Final = record(
    {
        "checkpoint": HMAC,
        "parent_checkpoint": nullable(HMAC),
        "step": nullable(integer(-1)),  # LangGraph's input checkpoint is step -1
        "state": mapping(
            Declared.STATE_KEY,
            record({"fingerprint": nullable(DIGEST), "facts": mapping(Declared.FACT, _FACT, MAX_FACTS)}),
            MAX_STATE_KEYS,
        ),
        "consistent": BOOLEAN,
    }
)

EFFECT_INTENDED: Final = record(
    {
        "operation_key": OPERATION_KEY,
        "key_strength": enum("declared", "weak"),
        "checkpoint": nullable(HMAC),  # null: called from a raw thread, and the ledger is then unknown
        "destination": nullable(name(Declared.DESTINATION)),
        "tool": name(Declared.TOOL),
        "effect_class": EFFECT_CLASS,
        "payload": HMAC,
    }
)

EFFECT_ANSWERED: Final = record(
    {
        "operation_key": OPERATION_KEY,
        "answer": enum("acknowledged", "refused", "failed", "no_answer"),
        "destination_ref": nullable(HMAC),
        "destination_version": nullable(DESTINATION_VERSION),
    }
)


def _unsent(decision: Schema) -> Schema:
    return record({"operation_key": OPERATION_KEY, "payload": HMAC, "decision": decision})


HANDOFF: Final[Schema] = {
    **record(
        {
            "operation": HMAC,
            "handoff": HMAC,
            "event": enum(
                "delegated",
                "accepted",
                "progress",
                "waiting",
                "completed",
                "outcome_verified",
                "rejected",
                "released",
                "outcome_failed",
            ),
        },
        {
            "receiver": nullable(name(Declared.AGENT)),
            "expected_artifact": nullable(DIGEST),
            "dependency": nullable(name(Declared.DEPENDENCY)),
            "deadline": nullable(TIMESTAMP),
            "reason": nullable(name(Declared.REASON)),
            "trace": nullable(HMAC),
        },
    ),
    "if": {"properties": {"event": {"const": "delegated"}}, "required": ["event"]},
    "then": {
        "required": ["receiver", "expected_artifact"],
        "properties": {"receiver": {"type": "string"}, "expected_artifact": {"type": "string"}},
    },
}

INTERACTION: Final = record(
    {
        "from": name(Declared.AGENT),
        "to": name(Declared.AGENT),
        "kind": name(Declared.KIND),
        "contract_version": nullable(VERSION),
        "status": enum("ok", "error", "unset"),
    }
)

PROGRESS: Final = record({"measure": enum("artifact", "tool_result", "state_change", "message")})


_CONDITION: Final = one_of(
    record({"type": enum("step_count"), "n": integer(1)}),
    record({"type": enum("tool_call"), "tool": name(Declared.TOOL)}),
    record({"type": enum("loop_finished")}),
    record({"type": enum("token_budget"), "n": integer()}),
    record({"type": enum("deadline"), "ms": integer()}),
)

STOPPED: Final = record(
    {
        "policy": record({"version": nullable(VERSION), "conditions": listing(_CONDITION, 16)}),
        "stop_cause": nullable(
            enum(
                "natural_finish",
                "done_tool",
                "step_limit",
                "token_budget",
                "output_limit",
                "user_abort",
                "approval_requested",
                "tool_error",
                "provider_error",
                "timeout",
            )
        ),
        "steps": listing(
            record({"tools": listing(name(Declared.TOOL), 64), "tokens": nullable(integer())}), 512
        ),
        "tool_failed": BOOLEAN,
        "useful_progress": BOOLEAN,
        "approval": nullable(
            record(
                {
                    "owner": nullable(name(Declared.OWNER)),
                    "deadline": nullable(TIMESTAMP),
                    "resume_token": nullable(HMAC),
                }
            )
        ),
        "loop": enum("claimed", "ended"),
    },
    # The loop whose end it is, where more may become known of it: then the newest word counts.
    {"done_tool": nullable(name(Declared.TOOL)), "loop_ref": nullable(HMAC)},
)

# What it calls itself entitles nobody: the authenticated writer is compared with what is registered.
ISSUER: Final = one_of(
    record({"type": enum("destination"), "name": nullable(name(Declared.DESTINATION))}),
    record({"type": enum("validator"), "name": nullable(name(Declared.VALIDATOR))}),
    record({"type": enum("human"), "name": nullable(name(Declared.OWNER))}),
    record({"type": enum("loop", "model"), "name": nullable(name(Declared.AGENT))}),
)

OUTCOME: Final = record(
    {
        "expected": name(Declared.OUTCOME),
        "issuer": ISSUER,
        "check": CHECK,
        "artifact": nullable(DIGEST),
        "destination_version": nullable(DESTINATION_VERSION),
        "operation_key": nullable(OPERATION_KEY),
    }
)

RESTORED: Final = record(
    {
        "permit": PERMIT,
        "attempt": ATTEMPT,
        "state": mapping(
            Declared.STATE_KEY,
            record({"fingerprint": nullable(DIGEST), "result": RESTORE_RESULT}),
            MAX_STATE_KEYS,
        ),
    }
)

OUTSIDE: Final[dict[str, Schema]] = {
    "run_started": RUN_STARTED,
    "message": MESSAGE,
    "checkpoint": CHECKPOINT,
    "effect_intended": EFFECT_INTENDED,
    "effect_answered": EFFECT_ANSWERED,
    "effect_reused": _unsent(nullable(EFFECT_DECISION)),
    "effect_held": _unsent(nullable(EFFECT_DECISION)),
    "effect_skipped": _unsent(EFFECT_DECISION),  # nothing is left out but by a decision
    "handoff": HANDOFF,
    "interaction": INTERACTION,
    "progress": PROGRESS,
    "stopped": STOPPED,
    "outcome": OUTCOME,
    "recording_closed": record({"count": integer()}),
    "recording_gap": record({"gap": enum("sampled", "truncated")}),
    "started": record({"permit": PERMIT, "attempt": ATTEMPT}),
    "restored": RESTORED,
}
