"""A workflow whose edges are hand-overs, and the rules' own verdict on what was recorded of them."""

from datetime import UTC, datetime
from typing import Any

from branches.rules.handoffs import judge_handoff, parse_handoff
from debugger.recorder.conformance.gate import Gate
from tests.recorder.team import DECLARATION

AGENTS = ["planner", "writer", "publisher"]
HANDING = {
    **DECLARATION,
    "kinds": ["handoff", "handover"],
    "dependencies": ["approval", "printer"],
    "reasons": ["too_busy"],
    "limits": {"max_age_s": 900, "start_s": 60, "steps": 12},
    "contract": {
        "version": "1",
        "agents": AGENTS,
        "edges": [
            {"from": "planner", "to": "writer", "kind": "handoff", "max": 9},
            {"from": "writer", "to": "planner", "kind": "handoff", "max": 9},
            {"from": "writer", "to": "publisher", "kind": "handover"},
        ],
        "phases": {"publish": ["planner>writer:handoff", "writer>publisher:handover"]},
    },
}
_SAID = ("receiver", "expected_artifact", "dependency", "deadline")


def told(gate: Gate, run: str) -> list[tuple[str, str]]:
    """Return who said which event of a run's hand-overs."""
    return [
        (each["actor"].get("name", each["actor"]["type"]), each["body"]["event"])
        for each in gate.receipts
        if each["kind"] == "handoff" and each["run"] == run
    ]


def verdicts(gate: Gate, run: str) -> list[tuple[str, list[str]]]:
    """Return what the rules say of each operation, the one first delegated first."""
    events: dict[str, list[dict[str, Any]]] = {}
    for receipt in gate.receipts:
        if receipt["kind"] == "handoff" and receipt["run"] == run:
            body = receipt["body"]
            said = {name: body[name] for name in _SAID if body.get(name) is not None}
            own = {"handoff_id": body["handoff"], "event": body["event"], "at": receipt["at"]}
            events.setdefault(body["operation"], []).append(
                {**own, "agent": receipt["actor"].get("name", "verifier"), **said}
            )
    now = datetime.now(UTC).isoformat()
    found = [
        judge_handoff(parse_handoff({"operation_id": own, "now": now, "events": listed}))
        for own, listed in events.items()
    ]
    return [(str(each.state), list(each.reasons)) for each in found]
