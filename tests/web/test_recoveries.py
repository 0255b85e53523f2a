"""Handoffs that do not go on: what may be decided about them, within which bounds, and what came of it."""

import base64
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client

from branches.commands.admit import issue_token, pair_recorder
from branches.commands.ingest_receipts import ingest_receipts
from branches.commands.publish_workflow import publish_workflow
from branches.commands.recover_handoff import recover_handoff
from branches.commands.refusal import Refused
from branches.commands.watch_audits import reevaluate_audits
from branches.evidence import ids
from branches.evidence.boxes import BoxKey
from branches.models import AuditState, AuditWatch, Receipt, Run
from branches.queries.audit_page import audit_page
from branches.queries.audits import audits_now
from branches.queries.clock import now
from branches.queries.handoff_times import limit_rows, p95
from branches.queries.workflow_form import problem_of
from tests.builders import World, declaration, run_started
from tests.web.cast import signed_in
from tests.web.test_audits_page import AGENTS, CONTRACT, handoff

LIMITS = {"max_age_s": 900, "start_s": 60}


@pytest.fixture
def later(time_machine: Any) -> Any:
    """Move the clock by a time; it goes on ticking."""
    time_machine.move_to(datetime.now(UTC), tick=True)
    return time_machine.shift


def begin(world: World, **changes: Any) -> str:
    """Return a run of a workflow declared with these changes, begun."""
    version = f"8.{world.counts.setdefault('versions', 0)}.0"
    world.counts["versions"] += 1
    declared = declaration(version=version, agents=AGENTS, contract=CONTRACT, **changes)
    assert problem_of(declared) is None
    workflow = publish_workflow(workspace=world.workspace, publisher=world.recorder.uid, declaration=declared)
    uid = ids.mint("run")
    start = run_started(
        world,
        uid,
        workflow=workflow.uid,
        workflow_version=version,
        configuration={"agents": [], "routing": None},
        contract_version="1",
    )
    assert not world.ingest(start).refused
    return uid


def delegated(world: World, uid: str, name: str, ago: int, **body: Any) -> dict[str, Any]:
    sent = handoff(
        world, uid, name, "delegated", "planner",
        receiver="writer", expected_artifact=world.hmac("content", name), **body,
    )  # fmt: skip
    return {**sent, "at": (datetime.now(UTC) - timedelta(seconds=ago)).isoformat()}


def event(world: World, uid: str, name: str, what: str, ago: int, **body: Any) -> dict[str, Any]:
    sent = handoff(world, uid, name, what, "writer", **body)
    return {**sent, "at": (datetime.now(UTC) - timedelta(seconds=ago)).isoformat()}


def shown(run: Run, name: str) -> str:
    cards = [card for column in audit_page(run, now()).board for card in column.cards]
    return next(card.shown for card in cards if card.operation == name)


def offered(run: Run, operation: str) -> list[tuple[str, str | None]]:
    cards = [card for column in audit_page(run, now()).board for card in column.cards]
    return [
        (each.action, each.refused)
        for card in cards
        if card.operation == operation
        for each in card.recoveries
    ]


REDELIVER = {**LIMITS, "handoffs": {"redeliver": {"attempts": 2, "limit_s": 600}}}


def test_an_orphan_is_delivered_again_only_where_the_workflow_says_that_it_may_be(world: World) -> None:
    run = Run.objects.get(uid=begin(world))
    world.ingest(delegated(world, run.uid, "brief", ago=400))
    operation = world.hmac("ref", "brief")
    assert offered(run, operation) == [("redeliver", "redelivery_undeclared")]
    with pytest.raises(Refused) as refused:
        recover_handoff(
            person=world.ada, run=run, operation=operation, action="redeliver", shown=shown(run, operation)
        )
    assert refused.value.rule == "redelivery_undeclared"
    assert not Receipt.objects.filter(run=run, kind="recovery_decided").exists()


def test_a_redelivery_is_bounded_and_its_success_is_a_receipt(ada: Client, world: World) -> None:
    run = Run.objects.get(uid=begin(world, limits=REDELIVER))
    operation = world.hmac("ref", "brief")
    world.ingest(delegated(world, run.uid, "brief", ago=400))
    form = {"operation": operation, "action": "redeliver", "shown": shown(run, operation)}
    assert ada.post(f"/runs/{run.uid}/audits/recover/", form).status_code == 302
    page = ada.get(f"/runs/{run.uid}/audits/").text
    assert "Redeliver, attempt 1 of 2" in page
    assert "nothing shows yet that it worked" in page
    again = world.hmac("ref", "brief 2")
    world.ingest(
        delegated(world, run.uid, "brief", ago=300, handoff=again),
        event(world, run.uid, "brief", "accepted", ago=5, handoff=again),
    )
    page = ada.get(f"/runs/{run.uid}/audits/").text
    assert "it worked, <a" in page


def test_a_runtime_reads_what_it_may_carry_out_until_it_worked_or_is_over(
    client: Client, world: World, later: Any
) -> None:
    run = Run.objects.get(uid=begin(world, limits=REDELIVER))
    operation = world.hmac("ref", "brief")
    world.ingest(delegated(world, run.uid, "brief", ago=400))
    recover_handoff(
        person=world.ada, run=run, operation=operation, action="redeliver", shown=shown(run, operation)
    )

    def read() -> list[tuple[str, int]]:
        headers = {"Authorization": f"Bearer {world.token}"}
        answer = client.get(f"/api/v1/runs/{run.uid}/recoveries", headers=headers).json()
        return [(each["operation"], each["attempts"]) for each in answer["recoveries"]]

    assert read() == [(operation, 2)]
    later(timedelta(seconds=601))
    assert read() == []


def test_a_decision_is_made_once_however_often_it_is_posted(ada: Client, world: World, later: Any) -> None:
    run = Run.objects.get(uid=begin(world, limits=REDELIVER))
    operation = world.hmac("ref", "brief")
    world.ingest(delegated(world, run.uid, "brief", ago=400))
    form = {"operation": operation, "action": "redeliver", "shown": shown(run, operation)}
    for _ in range(3):
        ada.post(f"/runs/{run.uid}/audits/recover/", form)
    assert Receipt.objects.filter(run=run, kind="recovery_decided").count() == 1
    assert offered(run, operation) == [("redeliver", "decision_open")]
    later(timedelta(seconds=601))
    assert offered(run, operation) == [("redeliver", None)]
    form["shown"] = shown(run, operation)
    ada.post(f"/runs/{run.uid}/audits/recover/", form)
    bodies = Receipt.objects.filter(run=run, kind="recovery_decided").order_by("seq")
    assert [json.loads(each.body)["body"]["attempt"] for each in bodies] == [1, 2]
    later(timedelta(seconds=601))
    assert offered(run, operation) == [("redeliver", "attempts_used_up")]


@pytest.mark.parametrize("by", ["a stranger", "the receiver"])
def test_only_a_word_that_counts_shows_that_it_worked(ada: Client, world: World, by: str) -> None:
    run = Run.objects.get(uid=begin(world, limits=REDELIVER))
    operation = world.hmac("ref", "brief")
    world.ingest(delegated(world, run.uid, "brief", ago=400))
    if by == "the receiver":
        world.ingest(
            event(world, run.uid, "brief", "accepted", ago=300),
            event(world, run.uid, "brief", "completed", ago=200),
        )
    action = "redeliver" if by == "a stranger" else "ask_for_artifact"
    recover_handoff(
        person=world.ada, run=run, operation=operation, action=action, shown=shown(run, operation)
    )
    if by == "a stranger":
        sent = {**event(world, run.uid, "brief", "accepted", ago=1), "writer_seq": 1}
        row, _ = issue_token(workspace=world.workspace, name="another", scopes=["ingest"])
        box = base64.b64encode(BoxKey.generate().public).decode()
        other = pair_recorder(token=row, name="there", runtime="langgraph 1.2.24", box_key=box)[0]
        assert ingest_receipts(recorder=other, lines=[json.dumps(sent).encode()]).accepted == 1
    else:
        artifact = world.hmac("content", "brief")
        world.ingest(event(world, run.uid, "brief", "outcome_verified", ago=1, expected_artifact=artifact))
    assert "it worked, <a" not in ada.get(f"/runs/{run.uid}/audits/").text


def test_other_writers_do_not_move_the_suggested_limits(world: World) -> None:
    run = Run.objects.get(uid=begin(world))
    row, _ = issue_token(workspace=world.workspace, name="another", scopes=["ingest"])
    box = base64.b64encode(BoxKey.generate().public).decode()
    other = pair_recorder(token=row, name="there", runtime="langgraph 1.2.24", box_key=box)[0]
    lines = []
    for number in range(25):
        pair = (
            delegated(world, run.uid, f"w{number}", ago=9_000),
            event(world, run.uid, f"w{number}", "accepted", ago=1),
        )
        lines += [json.dumps({**each, "writer_seq": len(lines) + 1}).encode() for each in pair]
    assert ingest_receipts(recorder=other, lines=lines).accepted == 50
    assert limit_rows(run)[0].times == 0


def test_no_attempt_is_allowed_beyond_the_last(world: World) -> None:
    run = Run.objects.get(uid=begin(world, limits=REDELIVER))
    operation = world.hmac("ref", "brief")
    for number in range(3):
        other = world.hmac("ref", f"brief {number}")
        world.ingest(delegated(world, run.uid, "brief", ago=900 - number, handoff=other))
    assert offered(run, operation) == [("redeliver", "attempts_used_up")]


def test_a_decision_on_an_operation_that_moved_meanwhile_is_refused(world: World) -> None:
    run = Run.objects.get(uid=begin(world, limits=REDELIVER))
    operation = world.hmac("ref", "brief")
    world.ingest(delegated(world, run.uid, "brief", ago=400))
    seen = shown(run, operation)
    world.ingest(event(world, run.uid, "brief", "accepted", ago=1))
    with pytest.raises(Refused) as refused:
        recover_handoff(person=world.ada, run=run, operation=operation, action="redeliver", shown=seen)
    assert refused.value.rule == "changed_since_shown"


def test_a_wait_is_routed_to_an_owner_and_never_retried(world: World) -> None:
    run = Run.objects.get(uid=begin(world, limits=REDELIVER, owners=["legal-desk"]))
    operation = world.hmac("ref", "brief")
    world.ingest(
        delegated(world, run.uid, "brief", ago=900),
        event(world, run.uid, "brief", "accepted", ago=890),
        event(world, run.uid, "brief", "waiting", ago=880, dependency=world.hmac("ref", "ruling")),
    )
    assert offered(run, operation) == [("route_wait", None)]
    route = {"person": world.ada, "run": run, "operation": operation, "action": "route_wait"}
    with pytest.raises(Refused) as refused:
        recover_handoff(**route, shown=shown(run, operation), owner="nobody")
    assert refused.value.rule == "owner_unknown"
    recover_handoff(**route, shown=shown(run, operation), owner="legal-desk")
    assert Receipt.objects.filter(run=run, kind="recovery_decided").count() == 1


def test_a_reviewer_decides_nothing_here(world: World) -> None:
    run = Run.objects.get(uid=begin(world, limits=REDELIVER))
    world.ingest(delegated(world, run.uid, "brief", ago=400))
    rosa = signed_in(world.rosa)
    form = {"operation": world.hmac("ref", "brief"), "action": "redeliver", "shown": "x"}
    page = rosa.post(f"/runs/{run.uid}/audits/recover/", form, follow=True).text
    assert "this needs the role engineer" in page
    assert '<button class="btn sm">Redeliver' not in page


# Limits and time


def test_the_workflows_limits_count(world: World) -> None:
    quick = {**LIMITS, "handoffs": {"acceptance_s": 10}}
    states = {}
    for limits in (LIMITS, quick):
        uid = begin(world, limits=limits)
        world.ingest(delegated(world, uid, "brief", ago=60))
        (audit,) = audits_now(Run.objects.get(uid=uid), now()).handoffs
        states[len(limits)] = str(audit.verdict.state)
    assert states == {2: "delegated", 3: "orphaned"}


def test_a_limit_is_suggested_from_what_was_observed_and_only_from_enough(
    ada: Client, world: World, time_machine: Any
) -> None:
    time_machine.move_to(datetime.now(UTC), tick=False)
    run = Run.objects.get(uid=begin(world))
    for number in range(19):
        name = f"work {number}"
        world.ingest(
            delegated(world, run.uid, name, ago=100), event(world, run.uid, name, "accepted", ago=98)
        )
    row = limit_rows(run)[0]
    assert (row.times, row.p95_s, row.suggested_s) == (19, 2, None)
    world.ingest(
        delegated(world, run.uid, "slow", ago=100), event(world, run.uid, "slow", "accepted", ago=40)
    )
    row = limit_rows(run)[0]
    assert (row.times, row.suggested_s == 2 * (row.p95_s or 0)) == (20, True)
    assert "Of the 20 newest of this workflow 95 % took" in ada.get(f"/runs/{run.uid}/audits/").text


@pytest.mark.parametrize(
    ("times", "found"), [([5.0], 5.0), ([float(n) for n in range(1, 101)], 95.0), ([1.0] * 19 + [60.0], 1.0)]
)
def test_the_95th_percentile_is_the_nearest_rank(times: list[float], found: float) -> None:
    assert p95(times) == found


def test_the_clock_moves_a_state_and_the_page_says_since_when(ada: Client, world: World, later: Any) -> None:
    uid = begin(world)
    world.ingest(delegated(world, uid, "brief", ago=10))
    later(timedelta(seconds=2))
    assert reevaluate_audits() == 1
    operation = world.hmac("ref", "brief")
    first = AuditState.objects.get(run__uid=uid, operation=operation)
    assert first.state == "delegated"
    assert reevaluate_audits() == 0  # not due yet
    later(timedelta(seconds=200))
    assert reevaluate_audits() == 1
    second = AuditState.objects.get(run__uid=uid, operation=operation)
    assert (second.state, second.since > first.since) == ("orphaned", True)
    assert "So since" in ada.get(f"/runs/{uid}/audits/").text


def test_what_neither_clock_nor_silence_moves_is_not_looked_at_again(world: World, later: Any) -> None:
    uid = begin(world)
    world.ingest(
        delegated(world, uid, "brief", ago=30),
        event(world, uid, "brief", "accepted", ago=20),
        event(world, uid, "brief", "completed", ago=10),
    )
    later(timedelta(seconds=2))
    reevaluate_audits()
    assert not AuditWatch.objects.filter(run__uid=uid).exists()
    world.ingest(event(world, uid, "brief", "outcome_failed", ago=1))
    assert AuditWatch.objects.filter(run__uid=uid).exists()


# Beside the verdict


def test_a_circle_of_waits_is_named_a_deadlock(ada: Client, world: World) -> None:
    uid = begin(world)
    for name, receiver, on in (("one", "writer", "two"), ("two", "critic", "one")):
        start = delegated(world, uid, name, ago=90)
        start["body"]["receiver"] = receiver
        rest = [event(world, uid, name, "accepted", ago=80)]
        rest.append(event(world, uid, name, "waiting", ago=70, dependency=world.hmac("ref", on)))
        for each in rest:
            each["actor"] = {"type": "agent", "name": receiver}
        assert not world.ingest(start, *rest).refused
    page = ada.get(f"/runs/{uid}/audits/").text
    assert "Deadlock:" in page
    assert "<code>writer</code> waits for <code>critic</code>" in page


def test_a_quorum_says_who_is_silent(ada: Client, world: World) -> None:
    quorum = {"into": "critic", "kind": "delegate", "of": ["writer", "planner"], "at_least": 2}
    edges = [*CONTRACT["edges"], {"from": "planner", "to": "critic", "kind": "delegate"}]  # type: ignore[misc]
    version = "8.9.0"
    declared = declaration(
        version=version, agents=AGENTS, contract={**CONTRACT, "edges": edges, "quorums": [quorum]}
    )
    workflow = publish_workflow(workspace=world.workspace, publisher=world.recorder.uid, declaration=declared)
    uid = ids.mint("run")
    start = run_started(
        world, uid, workflow=workflow.uid, workflow_version=version,
        configuration={"agents": [], "routing": None}, contract_version="1",
    )  # fmt: skip
    body = {"from": "writer", "to": "critic", "kind": "delegate", "contract_version": "1", "status": "ok"}
    assert not world.ingest(start, world.sent(uid, "interaction", body)).refused
    page = ada.get(f"/runs/{uid}/audits/").text
    assert "1 of 2 have reported to <code>critic</code>; 2 are needed." in page
    assert "Silent: <code>planner</code>." in page


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"agents": ["a", "b*"]}, "contract.agents.1"),
        ({"edges": [{"from": "planner", "to": "nobody", "kind": "delegate"}]}, "contract.edges.0.to"),
        ({"phases": {"publish": ["planner>*:delegate"]}}, "contract.phases.*"),
        ({"quorums": [{"into": "critic", "kind": "delegate", "of": ["writer"], "at_least": 2}]},
         "contract.quorums.0.at_least"),
        ({"quorums": [{"into": "critic", "kind": "other", "of": ["writer"], "at_least": 1}]},
         "contract.quorums.0.of"),
        ({"more": 1}, "contract"),
    ],
)  # fmt: skip
def test_a_contract_that_does_not_hold_together_is_refused_by_field(
    change: dict[str, Any], field: str
) -> None:
    problem = problem_of(declaration(agents=AGENTS, contract={**CONTRACT, **change}))
    assert problem is not None
    assert problem.field == field


@pytest.mark.parametrize(
    ("handoffs", "field"),
    [
        ({"acceptance_s": -1}, "limits.handoffs.acceptance_s"),
        ({"progress_s": 1.5}, "limits.handoffs"),
        ({"redeliver": {"attempts": 0, "limit_s": 60}}, "limits.handoffs.redeliver.attempts"),
        ({"redeliver": {"attempts": 2}}, "limits.handoffs.redeliver"),
        ({"forever": 1}, "limits.handoffs"),
        ({"route_s": 0}, "limits.handoffs.route_s"),
        ({"verifier_s": True}, "limits.handoffs.verifier_s"),
        ({"artifact_s": 10**9}, "limits.handoffs.artifact_s"),
    ],
)
def test_a_limit_that_is_none_is_refused_by_field(handoffs: dict[str, Any], field: str) -> None:
    problem = problem_of(declaration(limits={**LIMITS, "handoffs": handoffs}))
    assert problem is not None
    assert problem.field.startswith(field) or problem.rule == "float"
