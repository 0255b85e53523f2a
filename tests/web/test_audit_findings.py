"""What an earlier verdict would hide is also found, and a branch is forked before what is really wrong."""

from collections.abc import Sequence
from typing import Any

import pytest

from branches.commands.publish_workflow import publish_workflow
from branches.evidence import ids
from branches.models import Run
from branches.queries.audit_page import audit_page
from branches.queries.clock import now
from branches.queries.words import Shape
from tests.builders import World, checkpoint, declaration, run_started, stopped
from tests.web.test_audits_page import AGENTS, CONTRACT

TWICE = {"from": "planner", "to": "writer", "kind": "delegate", "max": 2}


def begun(world: World, edges: Sequence[dict[str, Any]], version: str, recording: str = "full") -> str:
    """Begin a run of a workflow with a contract of these edges."""
    contract = {**CONTRACT, "edges": edges, "phases": {"publish": []}}
    declared = declaration(version=version, agents=AGENTS, kinds=["delegate", "tell"], contract=contract)
    workflow = publish_workflow(workspace=world.workspace, publisher=world.recorder.uid, declaration=declared)
    uid = ids.mint("run")
    start = run_started(
        world, uid, workflow=workflow.uid, workflow_version=version, contract_version="1",
        configuration={"agents": [], "routing": None}, recording=recording,
    )  # fmt: skip
    record(world, start)
    return uid


def record(world: World, *sent: dict[str, Any]) -> None:
    report = world.ingest(*sent)
    assert not report.refused, report.refused


def edge(
    world: World, uid: str, source: str, target: str, kind: str = "delegate", version: str | None = None
) -> dict[str, Any]:
    body = {"from": source, "to": target, "kind": kind, "contract_version": version, "status": "ok"}
    return world.sent(uid, "interaction", body)


def found(uid: str) -> tuple[str, list[str]]:
    view = audit_page(Run.objects.get(uid=uid), now()).topology
    assert view.badge is not None
    assert view.badge.shape is not Shape.FILL
    return view.badge.words, [each.words for each in view.found]


def before(uid: str) -> dict[tuple[str, str], str]:
    page = audit_page(Run.objects.get(uid=uid), now())
    return {(each.cell.source, each.cell.target): each.checkpoint for each in page.avoidable}


# Also found


def test_evidence_that_is_not_complete_is_found_behind_a_forbidden_edge(world: World) -> None:
    uid = begun(world, [TWICE], "9.4.0", recording="partial")
    assert found(uid) == ("Uncertain", [])  # the verdict says it itself
    record(world, edge(world, uid, "writer", "planner"))
    assert found(uid) == ("Forbidden edge", ["1 forbidden", "evidence unknown"])
    record(world, world.sent(uid, "recording_gap", {"gap": "sampled"}))
    assert found(uid) == ("Forbidden edge", ["1 forbidden", "evidence sampled"])


def test_an_outcome_without_a_receipt_is_found_behind_an_unknown_agent(world: World) -> None:
    uid = begun(world, [TWICE], "9.5.0")
    stranger = world.hmac("name", "unknown")
    record(world, edge(world, uid, "planner", stranger))
    assert found(uid) == ("Unknown agent", ["1 to or from an unknown agent"])  # it is not over yet
    record(world, stopped(world, uid))
    assert found(uid) == ("Unknown agent", ["1 to or from an unknown agent", "no outcome receipt"])


def test_the_verdict_itself_is_not_found_a_second_time(world: World) -> None:
    uid = begun(world, [TWICE], "9.6.0")
    record(world, stopped(world, uid))
    assert found(uid) == ("Says complete", [])


def test_it_is_found_how_many_were_under_another_contract_version(world: World) -> None:
    uid = begun(world, [TWICE], "9.7.0", recording="partial")
    late = [edge(world, uid, "planner", "writer", version="2") for _ in range(2)]
    record(world, *late, edge(world, uid, "writer", "planner", version="1"), stopped(world, uid))
    assert found(uid) == (
        "Stale contract",
        ["1 forbidden", "2 under another contract version", "evidence unknown", "no outcome receipt"],
    )


# Before what to fork


@pytest.mark.parametrize("is_reversed", [False, True])
def test_it_is_forked_before_the_forbidden_kind_and_not_before_the_allowed_one(
    world: World, is_reversed: bool
) -> None:
    uid = begun(world, [TWICE], "9.8.0")
    kinds = ["tell", "delegate"] if is_reversed else ["delegate", "tell"]
    record(world, checkpoint(world, uid, "c1"), edge(world, uid, "planner", "writer", kinds[0]))
    record(world, checkpoint(world, uid, "c2", "c1"), edge(world, uid, "planner", "writer", kinds[1]))
    record(world, checkpoint(world, uid, "c3", "c2"), edge(world, uid, "planner", "writer", "tell"))
    last = "c1" if is_reversed else "c2"
    assert before(uid) == {("planner", "writer"): world.checkpoint(last)}


def test_it_is_forked_before_the_first_use_above_what_is_allowed(world: World) -> None:
    uid = begun(world, [TWICE, {"from": "planner", "to": "writer", "kind": "tell"}], "9.9.0")
    for number, kind in enumerate(("delegate", "tell", "delegate", "delegate", "delegate"), 1):
        record(world, checkpoint(world, uid, f"c{number}"), edge(world, uid, "planner", "writer", kind))
    assert found(uid)[0] == "Ambiguous route"
    assert before(uid) == {("planner", "writer"): world.checkpoint("c4")}


def test_a_name_that_is_another_in_lower_case_is_not_counted_with_it(world: World) -> None:
    contract = {
        "version": "1",
        "agents": ["Planner", "planner", "writer"],
        "edges": [TWICE, {**TWICE, "from": "Planner"}],
        "phases": {"publish": []},
    }
    declared = declaration(version="9.10.0", agents=contract["agents"], contract=contract)
    workflow = publish_workflow(workspace=world.workspace, publisher=world.recorder.uid, declaration=declared)
    uid = ids.mint("run")
    start = run_started(
        world, uid, workflow=workflow.uid, workflow_version="9.10.0", contract_version="1",
        configuration={"agents": [], "routing": None},
    )  # fmt: skip
    record(world, start)
    for number, name in enumerate(("Planner", "planner", "planner", "planner"), 1):
        record(world, checkpoint(world, uid, f"c{number}"), edge(world, uid, name, "writer"))
    assert before(uid) == {("planner", "writer"): world.checkpoint("c4")}
