"""One run and one branch, end to end, over HTTP and on a real store."""

import json
import subprocess
import sys

import pytest

from debugger.recorder import branching
from debugger.recorder.conformance.gate import Gate, claims_of
from tests.recorder.team import MARKER, World, ask, build


def test_it_records_a_run_and_resumes_a_branch_of_it(gate: Gate, world: World) -> None:
    recorder = world.open(gate.url)
    graph = build(recorder, world)
    run = recorder.start_run(graph, thread_id="t-1")
    values = run.invoke(ask())
    assert values["messages"][-1].content == "sent send_mail-2"
    assert recorder.flush(60)
    assert gate.refused == []
    fork = gate.of(run.run, "checkpoint")[2]
    operations = {
        each["operation_key"]: {"do": "reuse", "payload": each["payload"]}
        for each in gate.of(run.run, "effect_intended")
    }
    before = world.rows("t-1")
    envelope = gate.permit(checkpoint=fork, operations=operations)
    assert branching.resume(recorder, graph, envelope) == "natural_finish"
    assert recorder.flush(60)
    assert gate.refused == []
    branch = claims_of(envelope)["branch"]
    kinds = [each["kind"] for each in gate.receipts if each["run"] == branch]
    assert kinds[:3] == ["restored", "started", "effect_reused"]
    assert kinds[-2:] == ["stopped", "recording_closed"]
    assert gate.of(branch, "recording_closed") == [{"count": len(kinds)}]
    assert {each["result"] for each in gate.of(branch, "restored")[0]["state"].values()} == {"matched"}
    assert len(world.delivered()) == 2
    assert world.rows("t-1") == before
    assert MARKER not in json.dumps(gate.receipts)


def test_it_numbers_receipts_without_gaps_and_closes_with_the_count(gate: Gate, world: World) -> None:
    recorder = world.open(gate.url)
    run = recorder.start_run(build(recorder, world), thread_id="t-1")
    run.invoke(ask())
    assert recorder.flush(60)
    numbers = [each["writer_seq"] for each in gate.receipts]
    assert numbers == list(range(1, len(numbers) + 1))
    assert gate.of(run.run, "recording_closed") == [{"count": len(numbers)}]


def test_it_records_messages_before_the_checkpoint_that_holds_them(gate: Gate, world: World) -> None:
    recorder = world.open(gate.url)
    run = recorder.start_run(build(recorder, world), thread_id="t-1")
    run.invoke(ask())
    assert recorder.flush(60)
    kinds = [each["kind"] for each in gate.receipts]
    bodies = [each["body"] for each in gate.receipts]
    for at, kind in enumerate(kinds):
        if kind == "message":
            following = next(
                body for body, each in zip(bodies[at:], kinds[at:], strict=True) if each == "checkpoint"
            )
            assert following["checkpoint"] == bodies[at]["checkpoint"]
    classes = [each["class"] for each in gate.of(run.run, "message")]
    assert classes == ["input", "answer", "answer"]
    assert [each["sender"] for each in gate.of(run.run, "message")] == [None, "planner", "publisher"]


def test_it_records_edges_between_declared_agents_with_the_contract_s_kind(gate: Gate, world: World) -> None:
    recorder = world.open(gate.url)
    run = recorder.start_run(build(recorder, world), thread_id="t-1")
    run.invoke(ask())
    assert recorder.flush(60)
    edges = [(each["from"], each["to"], each["kind"]) for each in gate.of(run.run, "interaction")]
    assert edges == [("planner", "writer", "handover"), ("writer", "publisher", "handover")]


@pytest.mark.parametrize(("named", "recorded"), [(None, "1"), ("2", "2")], ids=["default", "named"])
def test_a_run_and_its_edges_name_one_contract_and_a_branch_none(
    gate: Gate, world: World, named: str | None, recorded: str
) -> None:
    recorder = world.open(gate.url)
    graph = build(recorder, world)
    run = recorder.start_run(graph, thread_id="t-1", contract_version=named)
    run.invoke(ask())
    assert recorder.flush(60)
    assert gate.started()["contract_version"] == recorded
    assert [each["contract_version"] for each in gate.of(run.run, "interaction")] == [recorded] * 2
    envelope = gate.permit(checkpoint=gate.of(run.run, "checkpoint")[2])
    branching.resume(recorder, graph, envelope)
    assert recorder.flush(60)
    branch = claims_of(envelope)["branch"]
    assert {each["contract_version"] for each in gate.of(branch, "interaction")} == {None}
    assert gate.refused == []


def test_a_contract_is_named_by_a_version_or_nothing_is_recorded(gate: Gate, world: World) -> None:
    recorder = world.open(gate.url)
    graph = build(recorder, world)
    for wrong in ("", "of today", "-1", "1" * 33):
        with pytest.raises(ValueError, match=r"^contract_version: pattern$"):
            recorder.start_run(graph, thread_id="t-1", contract_version=wrong)
    assert recorder.flush(60)
    assert gate.receipts == []


def test_it_leaves_out_a_state_key_that_cannot_be_measured_here(gate: Gate, world: World) -> None:
    recorder = world.open(gate.url)
    run = recorder.start_run(build(recorder, world), thread_id="t-1")
    run.invoke(ask())
    assert recorder.flush(60)
    for each in gate.of(run.run, "checkpoint"):
        assert set(each["state"]) == {"agent_memory", "workspace"}
        assert all(member["fingerprint"] for member in each["state"].values())


def test_it_brings_neither_django_nor_a_runtime_into_the_agent_s_process() -> None:
    listed = (
        "import debugger.recorder, sys; print(' '.join(sorted({name.split('.')[0] for name in sys.modules})))"
    )
    done = subprocess.run([sys.executable, "-c", listed], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert not loaded & {"django", "celery", "langgraph", "langchain_core", "jsonschema_rs"}
