"""From an orphan to a receipt that it worked, on the real server: decided by a person, carried out once."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph

from debugger.recorder import (
    OUTCOME,
    GateRefused,
    NothingDelegated,
    Recorder,
    RecoveryRefused,
    Run,
    delegated,
)
from debugger.recorder.client import Client
from tests.builders import declaration
from tests.recorder.site import Site, served
from tests.recorder.test_graph_handoffs import Talk, says

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
AGENTS = ["planner", "writer"]
DECLARED = declaration(
    version="7.0.0",
    agents=AGENTS,
    kinds=["handoff"],
    contract={
        "version": "1",
        "agents": AGENTS,
        "edges": [{"from": "planner", "to": "writer", "kind": "handoff", "max": 9}],
        "phases": {"publish": ["planner>writer:handoff"]},
    },
    phase="publish",
    limits={"max_age_s": 900, "start_s": 60, "handoffs": {"redeliver": {"attempts": 2, "limit_s": 600}}},
    tools={},
    writers={"verifier": {"outcomes": True}},
    destinations={},
)


@pytest.fixture
def site(db: None, tmp_path: Path) -> Iterator[Site]:
    with served(tmp_path) as site:
        site.publish(DECLARED)
        yield site


@pytest.fixture
def recorder(site: Site) -> Recorder:
    return site.recorder(Recorder.open, DECLARED)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteSaver]:
    with closing(sqlite3.connect(tmp_path / "store.sqlite", check_same_thread=False)) as connection:
        yield SqliteSaver(connection)


def graph(store: SqliteSaver, **nodes: Any) -> Any:
    built: Any = StateGraph(Talk)
    for name in AGENTS:
        built.add_node(name, nodes.get(name, says(name)))
    built.add_edge(START, "planner")
    built.add_edge("planner", "writer")
    built.add_edge("writer", END)
    return built.compile(checkpointer=store)


def orphaned(site: Site, recorder: Recorder, store: SqliteSaver) -> tuple[Run, str]:
    """Return a run whose writer refused its work."""
    run = recorder.start_run(graph(store), thread_id="t-1")
    attempt = run.operation("invoice-4711", artifact=OUTCOME).delegate("writer", by="planner")
    attempt.rejected()
    assert recorder.flush(60)
    assert site.state(run.run, attempt.operation) == "orphaned"
    return run, attempt.operation


def test_an_orphan_is_delivered_again_as_it_was_decided_and_the_card_says_that_it_worked(
    site: Site, recorder: Recorder, store: SqliteSaver
) -> None:
    run, operation = orphaned(site, recorder, store)
    assert run.recoveries() == []
    site.decide(run.run, operation)
    (recovery,) = run.recoveries()
    assert (recovery.operation, recovery.action) == (operation, "redeliver")
    assert (recovery.attempt, recovery.attempts) == (1, 2)
    assert recovery.limit == timedelta(seconds=600)
    assert recovery.until is not None
    assert recovery.until > datetime.now(UTC)
    attempt = run.redeliver(recovery)
    attempt.accepted()
    assert recorder.flush(60)
    assert site.state(run.run, operation) == "working"
    assert site.worked(run.run, operation) == [True]
    attempt.completed()
    assert attempt.operation == operation
    assert run.recoveries() == []


def test_a_decision_is_carried_out_once_and_only_while_it_is_open(
    site: Site, recorder: Recorder, store: SqliteSaver
) -> None:
    run, operation = orphaned(site, recorder, store)
    site.decide(run.run, operation)
    (recovery,) = run.recoveries()
    run.redeliver(recovery)
    with pytest.raises(RecoveryRefused, match="attempt_made"):
        run.redeliver(recovery)
    other = recorder.start_run(graph(store), thread_id="t-2")
    with pytest.raises(RecoveryRefused, match="another_run"):
        other.redeliver(recovery)


def test_a_decision_that_events_have_overtaken_is_not_carried_out(
    site: Site, recorder: Recorder, store: SqliteSaver
) -> None:
    run, operation = orphaned(site, recorder, store)
    site.decide(run.run, operation)
    (recovery,) = run.recoveries()
    run.operation("invoice-4711", artifact=OUTCOME).delegate("writer", by="planner")
    with pytest.raises(RecoveryRefused, match="not_open"):
        run.redeliver(recovery)


def test_another_home_and_a_time_that_is_over_are_refused_by_their_rule(
    site: Site, recorder: Recorder, store: SqliteSaver
) -> None:
    run, operation = orphaned(site, recorder, store)
    site.decide(run.run, operation)
    (recovery,) = run.recoveries()
    stranger = run.operation("something else")
    with pytest.raises(RecoveryRefused, match="operation_unknown"):
        run.redeliver(replace(recovery, operation=stranger.id))
    with pytest.raises(RecoveryRefused, match="not_a_redelivery"):
        run.redeliver(replace(recovery, action="route_wait"))
    past = datetime.now(UTC) - timedelta(seconds=1)
    with pytest.raises(RecoveryRefused, match="expired"):
        run.redeliver(replace(recovery, until=past))


def test_a_token_without_the_scope_to_read_is_refused_as_such(site: Site, store: SqliteSaver) -> None:
    recorder = site.recorder(Recorder.open, DECLARED, "ingest", "redeem")
    run = recorder.start_run(graph(store), thread_id="t-1")
    with pytest.raises(GateRefused) as refused:
        run.recoveries()
    assert refused.value.status == 401


def test_a_graph_that_failed_goes_on_under_the_decision_and_its_task_is_the_acceptance(
    site: Site, recorder: Recorder, store: SqliteSaver
) -> None:
    left = [ConnectionError("away")]

    def writer(_: Talk) -> dict[str, Any]:
        if left:
            raise left.pop()
        return {"said": ["written"]}

    run = recorder.start_run(graph(store, writer=writer), thread_id="t-1")
    with pytest.raises(ConnectionError):
        run.invoke({"said": []})
    assert recorder.flush(60)
    (operation,) = {each.subject for each in site.handoffs(run.run)}
    assert site.state(run.run, operation) == "orphaned"
    site.decide(run.run, operation)
    redelivered = run.redeliver(run.recoveries()[0])
    run.invoke(None)
    assert recorder.flush(60)
    assert site.worked(run.run, operation) == [True]
    said = [json.loads(each.body)["body"] for each in site.handoffs(run.run)]
    assert [each["event"] for each in said if each["handoff"] == redelivered.id] == [
        "delegated",
        "accepted",
        "completed",
    ]


def test_a_program_that_starts_again_carries_out_what_was_decided_while_it_was_away(
    site: Site, recorder: Recorder, store: SqliteSaver
) -> None:
    run, operation = orphaned(site, recorder, store)
    site.close(recorder)
    site.decide(run.run, operation)
    book = site.recorder(Recorder.open, DECLARED).handoffs(run.run)
    (recovery,) = book.recoveries()
    book.redeliver(recovery).accepted()
    assert book.record.recorder.flush(60)
    assert site.worked(run.run, operation) == [True]


def test_a_verifier_reads_each_receipt_of_a_run_once_however_much_it_judges(
    site: Site, recorder: Recorder, store: SqliteSaver, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = recorder.start_run(graph(store), thread_id="t-1")
    names = [f"invoice-{number}" for number in range(6)]
    for name in names:
        run.operation(name).delegate("writer", by="planner").completed()
    assert recorder.flush(60)
    verifier = site.verifier(DECLARED)
    asked: list[int] = []
    read: list[int] = []
    ask = Client.receipts

    def counted(client: Client, run: str, *, from_seq: int = 1) -> list[dict[str, Any]]:
        found = ask(client, run, from_seq=from_seq)
        asked.append(from_seq)
        read.extend(each["seq"] for each in found)
        return found

    monkeypatch.setattr(Client, "receipts", counted)
    for name in names:
        verifier.outcome_verified(run.run, name)
        assert verifier.flush(60)
    verifier.outcome_failed(run.run, names[0])
    assert verifier.flush(60)
    assert len(asked) == 7
    assert asked[1] > len(names)
    assert len(read) == len(set(read)) == len({*range(1, max(read) + 1)})
    again = run.operation(names[0]).delegate("publisher", by="planner")
    assert recorder.flush(60)
    verifier.outcome_verified(run.run, names[0])
    assert verifier.flush(60)
    body = json.loads(site.handoffs(run.run)[-1].body)["body"]
    assert (body["event"], body["handoff"]) == ("outcome_verified", again.id)


def test_a_verifier_remembers_so_many_runs_and_reads_an_older_one_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[tuple[str, int]] = []
    body = {"event": "delegated", "operation": "o", "handoff": "h", "receiver": "w", "expected_artifact": "a"}
    receipt = {"kind": "handoff", "seq": 7, "actor": {"type": "agent", "name": "planner"}, "body": body}

    def receipts(_: Client, run: str, *, from_seq: int = 1) -> list[dict[str, Any]]:
        asked.append((run, from_seq))
        return [receipt] if from_seq == 1 else []

    monkeypatch.setattr(Client, "receipts", receipts)
    monkeypatch.setattr(delegated, "MOST_RUNS", 2)
    client = Client("http://127.0.0.1:9", "token")
    read = delegated.Delegated(client)
    for run in ("a", "b", "a", "c", "a", "b"):
        found = read.newest(run, "o")
        assert found is not None
        assert found.sender == "planner"
    client.close()
    assert asked == [("a", 1), ("b", 1), ("a", 8), ("c", 1), ("a", 8), ("b", 1)]


def test_a_verifier_speaks_of_an_operation_by_name_under_its_own_token(
    site: Site, recorder: Recorder, store: SqliteSaver
) -> None:
    run = recorder.start_run(graph(store), thread_id="t-1")
    attempt = run.operation("invoice-4711", artifact=OUTCOME).delegate("writer", by="planner")
    attempt.accepted()
    attempt.completed()
    assert recorder.flush(60)
    verifier = site.verifier(DECLARED)
    with pytest.raises(NothingDelegated):
        verifier.outcome_verified(run.run, "invoice-1")
    with pytest.raises(ValueError, match="root: required"):
        verifier.outcome_verified("br_" + "a" * 24, "invoice-4711")
    for _ in range(2):
        verifier.outcome_failed(run.run, "invoice-4711")
    assert verifier.flush(60)
    assert site.state(run.run, attempt.operation) == "failed_outcome"
    verifier.outcome_verified(run.run, attempt.operation, artifact=OUTCOME)
    assert verifier.flush(60)
    assert site.state(run.run, attempt.operation) == "verified"
    assert verifier.status()["refused"] == 0
    said = [each for each in site.handoffs(run.run) if "outcome_" in each.body]
    assert [json.loads(each.body)["body"]["event"] for each in said] == ["outcome_failed", "outcome_verified"]
    assert {each.writer for each in said} == {verifier.status()["recorder"]}
    assert verifier.status()["recorder"] != recorder.identity.recorder
    bodies = [json.loads(each.body)["body"] for each in said]
    assert {each["handoff"] for each in bodies} == {attempt.id}
