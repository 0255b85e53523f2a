"""Complete inputs of the four classifiers, the public fixtures, and one way to judge plain JSON."""

import copy
import json
from pathlib import Path

from branches.rules import classify_lines

KINDS = ("branches", "handoffs", "topology", "stops")
FIXTURES = Path(__file__).parent.parent / "fixtures" / "rules"
DIGEST = "sha256:" + "5a" * 32


def fixtures(kind):
    lines = (FIXTURES / f"{kind}.jsonl").read_bytes().split(b"\n")
    return [json.loads(line) for line in lines if line]


def judge(kind, value):
    """The verdict or error of one input, as the command line would print it."""
    (found,) = classify_lines(kind, [json.dumps(value)])
    return json.loads(json.dumps(found))


def error_field(kind, value):
    found = judge(kind, value)
    assert set(found) == {"error"}, f"a verdict instead of an error: {found}"
    assert set(found["error"]) == {"field", "message"}
    return found["error"]["field"]


def changed(value, path, new):
    """A copy with the value at a dotted path replaced; list items by their index."""
    result = copy.deepcopy(value)
    holder, last = _holder(result, path)
    holder[last] = new
    return result


def without(value, path):
    result = copy.deepcopy(value)
    holder, last = _holder(result, path)
    del holder[last]
    return result


def at_path(value, path):
    holder, last = _holder(value, path)
    return holder[last]


def _holder(value, path):
    *steps, last = [int(step) if step.isdigit() else step for step in path.split(".")]
    for step in steps:
        value = value[step]
    return value, last


def complete(kind):
    """An input that gets a verdict and holds every field there is, optional ones too."""
    return copy.deepcopy(_COMPLETE[kind])


_COMPLETE = {
    "branches": {
        "branch_id": "br-1",
        "parent_id": "run-1",
        "fork_point": {"checkpoint_id": "ckpt-7", "in_parent": True, "parent_unchanged": True},
        "required_state_keys": ["memory", "browser"],
        "acknowledgeable_keys": ["browser"],
        "state": {
            "memory": {"fingerprint": DIGEST, "restore": "matched", "stale": False},
            "browser": {"fingerprint": DIGEST, "restore": "matched", "stale": False},
        },
        "effects_ledger": "complete",
        "effects": [
            {"operation_key": "mail-1", "status": "irreversible", "decision": "skip", "stale": False}
        ],
        "authority": {"operator_authorised": True, "required": True, "decision": "approved"},
        "configuration": {"pinned": True},
        "resume": "started",
        "outcome": {"loop": "claimed", "check": "passed", "fresh": True},
    },
    "handoffs": {
        "operation_id": "op-1",
        "now": "2026-11-30T09:10:00Z",
        "evidence": "available",
        "limits": {"acceptance_s": 120, "progress_s": 600, "verification_s": 60},
        "events": [
            {
                "handoff_id": "h-1",
                "event": "delegated",
                "at": "2026-11-30T09:00:00Z",
                "agent": "sender",
                "receiver": "worker",
                "expected_artifact": DIGEST,
                "trace_id": "4bf9",
                "reason": "first_try",
                "trusted": True,
            },
            {"handoff_id": "h-1", "event": "accepted", "at": "2026-11-30T09:01:00Z", "agent": "worker"},
            {
                "handoff_id": "h-1",
                "event": "waiting",
                "at": "2026-11-30T09:02:00Z",
                "agent": "worker",
                "dependency": "approval",
                "deadline": "2026-11-30T09:50:00Z",
            },
        ],
    },
    "topology": {
        "contract": {
            "version": "v3",
            "agents": ["lead", "scout", "judge"],
            "edges": [
                {"from": "lead", "to": "scout", "kind": "delegate", "max": 1},
                {"from": "scout", "to": "judge", "kind": "evidence", "max": 2},
                {"from": "judge", "to": "lead", "kind": "return", "max": 1},
            ],
            "phases": {
                "research": ["lead>scout:delegate", ["scout>judge:evidence", "judge>lead:return"]],
                "other": ["judge>lead:return"],
            },
        },
        "run": {
            "pinned_version": "v3",
            "phase": "research",
            "parent_terminal": False,
            "outcome_receipt": False,
            "evidence": "complete",
            "now": "2026-11-30T09:05:00Z",
            "deadline": "2026-11-30T09:10:00Z",
            "dependency": "judge",
            "last_progress_at": "2026-11-30T09:04:00Z",
            "progress_s": 600,
        },
        "events": [
            {
                "event_id": "e1",
                "from": "lead",
                "to": "scout",
                "kind": "delegate",
                "version": "v3",
                "at": "2026-11-30T09:01:00Z",
                "status": "ok",
            }
        ],
    },
    "stops": {
        "sdk": "ai",
        "policy": {
            "version": "p1",
            "conditions": [
                {"type": "step_count", "n": 20},
                {"type": "tool_call", "tool": "finish"},
                {"type": "loop_finished"},
                {"type": "token_budget", "n": 1000},
                {"type": "deadline", "ms": 60000},
            ],
        },
        "stop_cause": "approval_requested",
        "done_tool": "finish",
        "steps": [{"tools": ["search", "search"], "tokens": 100}, {"tools": [], "tokens": 0}],
        "tool_failed": False,
        "approval": {"owner": "ops", "deadline": "2026-11-30T09:50:00Z", "resume_token": "rt-1"},
        "useful_progress": True,
        "outcome": {"issuer": "destination", "verified": True},
    },
}
