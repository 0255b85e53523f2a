"""The audits page: the board, the matrix and the stops say what the rules say of the receipts."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client

from branches.commands.publish_workflow import publish_workflow
from branches.evidence import ids
from branches.models import Run
from branches.queries import topology_events
from branches.queries.audit_page import audit_page
from branches.queries.audits import audits_now
from branches.queries.clock import now
from branches.queries.edges import edges_of
from branches.queries.topology_view import CELL_MARKS
from tests.builders import World, declaration, run_started, stopped

AGENTS = ["planner", "writer", "critic"]
CONTRACT = {
    "version": "1",
    "agents": AGENTS,
    "edges": [
        {"from": "planner", "to": "writer", "kind": "delegate"},
        {"from": "writer", "to": "critic", "kind": "delegate"},
        {"from": "critic", "to": "planner", "kind": "delegate"},
    ],
    "phases": {"publish": ["planner>writer:delegate", "writer>critic:delegate"]},
}


@pytest.fixture
def uid(world: World) -> str:
    """A run of a workflow with a contract, begun."""
    declared = declaration(version="9.0.0", agents=AGENTS, contract=CONTRACT)
    workflow = publish_workflow(workspace=world.workspace, publisher=world.recorder.uid, declaration=declared)
    uid = ids.mint("run")
    configuration = {"agents": [], "routing": None}
    start = run_started(
        world,
        uid,
        workflow=workflow.uid,
        workflow_version="9.0.0",
        configuration=configuration,
        contract_version="1",
    )
    assert not world.ingest(start).refused
    return uid


def edge(world: World, uid: str, source: str, target: str, status: str = "ok") -> dict[str, Any]:
    body = {"from": source, "to": target, "kind": "delegate", "contract_version": "1", "status": status}
    return world.sent(uid, "interaction", body)


def handoff(world: World, uid: str, name: str, event: str, agent: str, **body: Any) -> dict[str, Any]:
    body = {
        "operation": world.hmac("ref", name),
        "handoff": world.hmac("ref", f"{name} 1"),
        "event": event,
        **body,
    }
    sent = world.sent(uid, "handoff", body)
    at = (datetime.now(UTC) - timedelta(seconds=30)).isoformat()
    return {**sent, "actor": {"type": "agent", "name": agent}, "at": at}


def delegated(world: World, uid: str, name: str) -> dict[str, Any]:
    artifact = world.hmac("content", name)
    return handoff(world, uid, name, "delegated", "planner", receiver="writer", expected_artifact=artifact)


def page_of(client: Client, uid: str) -> str:
    return client.get(f"/runs/{uid}/audits/").content.decode()


def test_it_says_so_where_nothing_was_recorded(ada: Client, uid: str) -> None:
    page = page_of(ada, uid)
    assert "No handoff was recorded." in page
    assert "No loop has stopped yet." in page
    assert page.count("expected, missing") == 5  # two cells, each with its title, and the legend


def test_the_matrix_shows_what_is_missing_forbidden_unknown_and_too_often(
    ada: Client, world: World, uid: str
) -> None:
    stranger = world.hmac("name", "stranger")
    world.ingest(
        edge(world, uid, "planner", "writer"),
        edge(world, uid, "planner", "writer"),
        edge(world, uid, "writer", "planner"),
        edge(world, uid, "critic", stranger),
    )
    view = audit_page(Run.objects.get(uid=uid), now()).topology
    cells = {(cell.source, cell.target): (cell.state, cell.count) for cell in view.matrix.cells}
    assert cells == {
        ("planner", "writer"): ("ambig", 2),
        ("writer", "critic"): ("missing", 0),
        ("critic", "planner"): ("unseen", 0),
        ("writer", "planner"): ("forbidden", 1),
        ("critic", stranger): ("unknown", 1),
    }
    assert view.badge is not None
    assert view.badge.words == "Unknown agent"
    assert view.naive_green
    page = page_of(ada, uid)
    assert "1 to or from an unknown agent" in page
    assert "would say “all green”" in page
    assert stranger not in re.sub(r"<code>[^<]*</code>", "", page)


def test_an_edge_that_failed_counts_and_fulfils_nothing(world: World, uid: str) -> None:
    world.ingest(edge(world, uid, "planner", "writer", "error"))
    audit = audits_now(Run.objects.get(uid=uid), now()).topology
    assert audit is not None
    assert audit.verdict.missing == ("planner>writer:delegate", "writer>critic:delegate")
    assert not audit.verdict.naive_green


def test_the_board_puts_each_operation_where_its_state_belongs(ada: Client, world: World, uid: str) -> None:
    report = world.ingest(
        delegated(world, uid, "new"),
        delegated(world, uid, "done"),
        handoff(world, uid, "done", "accepted", "writer"),
        handoff(world, uid, "done", "completed", "writer"),
        delegated(world, uid, "waits"),
        handoff(world, uid, "waits", "accepted", "writer"),
        handoff(world, uid, "waits", "waiting", "writer", dependency=world.hmac("ref", "legal")),
        handoff(world, uid, "odd", "completed", "critic"),
    )
    assert report.refused == []
    board = {column.name: column.cards for column in audit_page(Run.objects.get(uid=uid), now()).board}
    found = {name: [card.operation for card in cards] for name, cards in board.items() if cards}
    assert found == {
        "delegated": [world.hmac("ref", "new")],
        "failed": [world.hmac("ref", "done")],
        "waiting": [world.hmac("ref", "waits")],
        "uncertain": [world.hmac("ref", "odd")],
    }
    assert board["failed"][0].owner == "writer"
    page = page_of(ada, uid)
    assert "Completed, no receipt" in page
    assert "Verify or reopen" in page
    assert "no delegation" in page


def test_the_clock_alone_makes_an_orphan_of_what_nobody_accepts(world: World, uid: str) -> None:
    world.ingest(delegated(world, uid, "new"))
    run = Run.objects.get(uid=uid)
    states = [str(audits_now(run, now() + timedelta(seconds=s)).handoffs[0].verdict.state) for s in (0, 300)]
    assert states == ["delegated", "orphaned"]


def test_a_clock_that_runs_ahead_is_not_believed_beyond_now(world: World, uid: str) -> None:
    sent = delegated(world, uid, "new")
    world.ingest({**sent, "at": "2099-01-01T00:00:00Z"})
    (audit,) = audits_now(Run.objects.get(uid=uid), now()).handoffs
    assert str(audit.verdict.state) == "delegated"


def test_a_loop_that_stopped_has_a_row_that_leads_to_its_receipt(ada: Client, world: World, uid: str) -> None:
    world.ingest(stopped(world, uid))
    page = page_of(ada, uid)
    assert f"/runs/{uid}/?at=2&amp;mark=2#r2" in page
    assert "Says complete" in page


def test_another_workspaces_run_is_not_there(ada: Client) -> None:
    assert ada.get(f"/runs/{ids.mint('run')}/audits/").status_code == 404


def test_very_many_edges_are_judged_by_their_counts_and_as_when_judged_one_by_one(
    world: World, uid: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.ingest(*(edge(world, uid, "planner", "writer") for _ in range(40)))
    world.ingest(edge(world, uid, "writer", "critic", "error"), edge(world, uid, "planner", "critic"))
    run = Run.objects.get(uid=uid)
    one_by_one = audits_now(run, now()).topology
    monkeypatch.setattr(topology_events, "MOST_ONE_BY_ONE", 3)
    counted = audits_now(run, now()).topology
    assert counted == one_by_one
    assert counted is not None
    assert counted.observed == 42
    assert counted.verdict.reasons == ("planner>critic:delegate",)


def test_the_counts_are_the_sum_of_the_receipts_also_where_some_come_twice(world: World, uid: str) -> None:
    twice = [edge(world, uid, "planner", "writer"), edge(world, uid, "planner", "writer", "error")]
    world.ingest(*twice)
    assert world.ingest(*twice).duplicates == 2
    counts = {(each.status, each.count) for each in edges_of(Run.objects.get(uid=uid))}
    assert counts == {("ok", 1), ("error", 1)}


def test_the_legend_names_each_sort_of_cell_by_its_own_icon_and_words(
    ada: Client, world: World, uid: str
) -> None:
    world.ingest(edge(world, uid, "planner", "writer"))
    judged = audit_page(Run.objects.get(uid=uid), now()).topology
    assert [mark.state for mark in judged.legend] == [
        "ok", "unseen", "missing", "forbidden", "unknown", "ambig",
    ]  # fmt: skip
    assert len({mark.icon for mark in judged.legend}) == len(judged.legend)
    assert len({mark.words for mark in CELL_MARKS.values()}) == len(CELL_MARKS)
    page = page_of(ada, uid)
    (legend,) = re.findall(r'<p class="legend">(.*?)</p>', page, re.DOTALL)
    assert re.findall(r'class="cell v-(\w+)"', legend) == [mark.state for mark in judged.legend]
    for mark in judged.legend:
        assert f"#{mark.icon}" in legend
        assert f"</span>{mark.words}</span>" in legend


def test_without_a_contract_a_cell_is_only_seen(ada: Client, world: World) -> None:
    uid = ids.mint("run")
    body = {"from": "orchestrator", "to": "publisher", "kind": "delegate", "contract_version": None}
    world.ingest(run_started(world, uid), world.sent(uid, "interaction", {**body, "status": "ok"}))
    page = page_of(ada, uid)
    (legend,) = re.findall(r'<p class="legend">(.*?)</p>', page, re.DOTALL)
    assert re.findall(r'class="cell v-(\w+)"', legend) == ["seen"]
    assert "seen, judged by nothing" in legend
    assert "allowed" not in legend


def test_a_column_without_a_card_is_marked_as_bare(ada: Client, world: World, uid: str) -> None:
    world.ingest(delegated(world, uid, "new"))
    page = page_of(ada, uid)
    found = re.findall(r'<section class="(lane[^"]*)" aria-labelledby="col-(\w+)">', page)
    assert [name for shape, name in found if shape == "lane"] == ["delegated"]
    assert {name for shape, name in found if shape == "lane bare"} == {
        "working", "waiting", "stuck", "uncertain", "failed",
    }  # fmt: skip
