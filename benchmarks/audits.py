"""What the audits of a run cost by its events: interactions by their counts, handoffs one by one.

Four agents, twelve edges; an edge counts as many times as its contract allows, and once more.
"""

import statistics
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import batched
from typing import Any

ROUNDS = 5
MOST = 1_000_000
AGENTS = ("planner", "writer", "critic", "publisher")
_LIFE = ("delegated", "accepted", "progress", "completed")


def measure(world: Any, lengths: Iterable[int]) -> dict[str, Any]:
    """Return milliseconds of an audit (medians of five) and microseconds of each event in it, by length."""
    from branches.queries.handoff_audits import MOST_SHOWN

    workflow, loose = _workflow(world, "8.0.0", 20), _workflow(world, "8.0.1", MOST)
    found: dict[str, Any] = {}
    for length in lengths:
        for allowed, declared in ((20, workflow), (MOST, loose)):
            edges = _recorded(world, declared, _interactions, length)
            name = f"topology, {length:,} interactions, {allowed:,} of an edge allowed"
            found |= _told(name, _topology(edges), length)
        handoffs = _recorded(world, workflow, _handoffs, length)
        told = f"handoffs, {length:,} events of {length // 4:,} operations"
        found |= _told(told, _handed(handoffs, None), length)
        found |= _told(f"{told}, as the page and the API judge them", _handed(handoffs, MOST_SHOWN), length)
    return found


def _told(name: str, seconds: float, length: int) -> dict[str, float]:
    return {f"{name}, ms": seconds * 1000, f"{name}, µs an event": seconds * 1_000_000 / length}


def _topology(run: Any) -> float:
    from branches.queries.audits import audits_now

    def audit() -> None:
        topology = audits_now(run, datetime.now(UTC)).topology
        assert topology is not None
        assert topology.observed > 0

    return _median(audit)


def _handed(run: Any, most: int | None) -> float:
    from branches.queries.handoff_audits import handoffs_now

    return _median(lambda: sum(1 for _ in handoffs_now(run, datetime.now(UTC), most=most)))


def _median(audit: Any) -> float:
    taken = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        audit()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def _workflow(world: Any, version: str, most: int) -> Any:
    from branches.commands.publish_workflow import publish_workflow
    from tests.builders import declaration

    pairs = [(one, other) for one in AGENTS for other in AGENTS if one != other]
    contract = {
        "version": "1",
        "agents": list(AGENTS),
        "edges": [{"from": one, "to": other, "kind": "delegate", "max": most} for one, other in pairs],
        "phases": {"publish": ["planner>writer:delegate", "writer>critic:delegate"]},
    }
    declared = declaration(version=version, agents=list(AGENTS), contract=contract)
    return publish_workflow(workspace=world.workspace, publisher=world.workspace.uid, declaration=declared)


def _recorded(world: Any, workflow: Any, make: Any, length: int) -> Any:
    """Record a run of so many events of one kind."""
    from branches.evidence import ids
    from branches.models import Run
    from tests import builders

    uid = ids.mint("run")
    began = builders.run_started(
        world,
        uid,
        workflow=workflow.uid,
        workflow_version=workflow.version,
        configuration={"agents": [], "routing": None},
        contract_version="1",
    )
    assert not world.ingest(began).refused
    for batch in batched(make(world, uid, length), 500):
        assert not world.ingest(*batch).refused
    return Run.objects.get(uid=uid)


def _interactions(world: Any, uid: str, length: int) -> Iterator[dict[str, Any]]:
    for number in range(length):
        source, target = AGENTS[number % 4], AGENTS[(number + 1 + number // 4 % 3) % 4]
        body = {"from": source, "to": target, "kind": "delegate", "contract_version": "1", "status": "ok"}
        yield world.sent(uid, "interaction", body)


def _handoffs(world: Any, uid: str, length: int) -> Iterator[dict[str, Any]]:
    for number in range(length // 4):
        operation, handoff = world.hmac("ref", f"{uid} {number}"), world.hmac("ref", f"{uid} {number} 1")
        for event in _LIFE:
            body = {"operation": operation, "handoff": handoff, "event": event}
            if event == "delegated":
                body |= {"receiver": "writer", "expected_artifact": world.hmac("content", f"{number}")}
            who = "planner" if event == "delegated" else "writer"
            yield world.sent(uid, "handoff", body, actor={"type": "agent", "name": who})
