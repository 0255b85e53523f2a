"""The run's outcome receipt moves the card that promised it, and every recovery has an end."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.test import Client

from branches.commands.append_receipt import lock_families
from branches.commands.check_outcome import check_outcome, record_check, take_run_baseline
from branches.commands.recover_handoff import recover_handoff
from branches.commands.refusal import Refused
from branches.models import Job, JobKind, Receipt, Run
from branches.ports import Check, OutcomeCheck
from branches.queries.audit_page import audit_page
from branches.queries.audits import audits_now
from branches.queries.clock import now
from branches.queries.declarations import RECOVERY_LIMITS, declaration_of
from branches.queries.recoveries import Recovered, Recoveries
from tests.builders import World
from tests.plugins import FakeWorld
from tests.web.test_recoveries import LIMITS, begin, delegated, event, later, offered, shown  # noqa: F401

# ruff: noqa: F811 - fixtures that are imported


def completed(world: World, uid: str, artifact: str) -> str:
    """Hand over and complete an operation that promises this; returns the operation."""
    start = delegated(world, uid, "brief", ago=90)
    start["body"]["expected_artifact"] = artifact
    rest = [event(world, uid, "brief", what, ago=80) for what in ("accepted", "completed")]
    assert not world.ingest(start, *rest).refused
    return world.hmac("ref", "brief")


def decide(world: World, run: Run, operation: str, action: str, **more: str) -> None:
    recover_handoff(
        person=world.ada, run=run, operation=operation, action=action, shown=shown(run, operation), **more
    )


def test_a_missing_verifier_is_asked_at_once(world: World, outside: FakeWorld) -> None:
    run = Run.objects.get(uid=begin(world))
    operation = completed(world, run.uid, world.hmac("ref", "report"))
    assert offered(run, operation) == [("run_verifier", "no_baseline"), ("ask_for_artifact", None)]
    take_run_baseline(run=run)
    assert offered(run, operation) == [("run_verifier", None), ("ask_for_artifact", None)]
    decide(world, run, operation, "run_verifier")
    assert Job.objects.filter(run=run, kind=JobKind.CHECK_OUTCOME).count() == 1


def test_the_runs_verifier_has_nothing_to_say_of_another_artifact(
    ada: Client, world: World, outside: FakeWorld
) -> None:
    run = Run.objects.get(uid=begin(world))
    take_run_baseline(run=run)
    operation = completed(world, run.uid, world.hmac("content", "brief"))
    assert offered(run, operation) == [("run_verifier", "another_artifact"), ("ask_for_artifact", None)]
    form = {"operation": operation, "action": "run_verifier", "shown": shown(run, operation)}
    page = ada.post(f"/runs/{run.uid}/audits/recover/", form).text
    assert "this operation promises something else" in page
    outside.newest, outside.check = "8", Check.PASSED
    check_outcome(run=run)
    assert str(audits_now(run, now()).handoffs[0].verdict.state) == "false_success"


def test_the_runs_outcome_receipt_moves_the_card_that_promised_it(
    ada: Client, world: World, outside: FakeWorld
) -> None:
    run = Run.objects.get(uid=begin(world))
    take_run_baseline(run=run)
    operation = completed(world, run.uid, world.hmac("ref", "report"))

    def column() -> list[str]:
        return [column.name for column in audit_page(run, now()).board for _ in column.cards]

    assert column() == ["failed"]
    decide(world, run, operation, "run_verifier")
    assert offered(run, operation) == [
        ("run_verifier", "decision_open"),
        ("ask_for_artifact", "decision_open"),
    ]
    check_outcome(run=run)  # it is not there yet
    assert str(audits_now(run, now()).handoffs[0].verdict.state) == "failed_outcome"
    decide(world, run, operation, "run_verifier")
    outside.newest, outside.check = "8", Check.PASSED
    check_outcome(run=run)
    assert column() == ["verified"]
    page = ada.get(f"/runs/{run.uid}/audits/").text
    checked = Receipt.objects.filter(run=run, kind="outcome_checked").latest("seq")
    assert "Confirmed by a receipt" in page
    assert f"outcome, receipt {checked.seq}" in page
    assert "Run verifier, attempt 2 of 10" in page
    assert "it worked, <a" in page


@pytest.mark.parametrize(
    ("events", "check", "fresh", "state"),
    [
        (["accepted", "completed"], "passed", True, "verified"),
        (["accepted", "completed"], "passed", False, "false_success"),
        (["accepted", "completed"], "unreachable", False, "false_success"),
        (["accepted", "completed"], "failed", False, "failed_outcome"),
        (["accepted"], "failed", False, "working"),
        (["accepted"], "passed", True, "verified"),
        ([], "failed", False, "delegated"),
        ([], "passed", True, "uncertain"),
    ],
)
def test_a_check_counts_as_gate_6_reads_it(
    world: World, outside: FakeWorld, events: list[str], check: str, fresh: bool, state: str
) -> None:
    run = Run.objects.get(uid=begin(world))
    start = delegated(world, run.uid, "brief", ago=90)
    start["body"]["expected_artifact"] = world.hmac("ref", "report")
    world.ingest(start, *(event(world, run.uid, "brief", what, ago=80) for what in events))
    declared = declaration_of(run)
    assert declared is not None
    with transaction.atomic():
        lock_families([run.family_id])
        record_check(run=run, declaration=declared, answer=OutcomeCheck(Check(check), fresh=fresh))
    assert str(audits_now(run, now()).handoffs[0].verdict.state) == state


def test_what_was_delegated_again_after_a_failed_check_is_not_failed(
    world: World, outside: FakeWorld
) -> None:
    run = Run.objects.get(uid=begin(world))
    take_run_baseline(run=run)
    completed(world, run.uid, world.hmac("ref", "report"))
    check_outcome(run=run)
    again = delegated(world, run.uid, "brief", ago=0, handoff=world.hmac("ref", "brief 2"))
    again["body"]["expected_artifact"] = world.hmac("ref", "report")
    assert not world.ingest(again).refused
    assert str(audits_now(run, now()).handoffs[0].verdict.state) == "delegated"


def waiting(world: World, uid: str) -> str:
    """Hand over an operation that waits for something; returns the operation."""
    start = delegated(world, uid, "other", ago=90)
    on = {"dependency": world.hmac("ref", "ruling")}
    rest = [
        event(world, uid, "other", "accepted", ago=80),
        event(world, uid, "other", "waiting", ago=70, **on),
    ]
    assert not world.ingest(start, *rest).refused
    return world.hmac("ref", "other")


BOUNDS = {"route_s": 30, "verifier_s": 40, "artifact_s": 50}


@pytest.mark.parametrize("declared", [BOUNDS, {}])
@pytest.mark.parametrize("action", ["route_wait", "run_verifier", "ask_for_artifact"])
def test_every_recovery_has_an_end_and_one_is_open_at_a_time(
    client: Client, world: World, outside: FakeWorld, later: Any, declared: dict[str, int], action: str
) -> None:
    run = Run.objects.get(uid=begin(world, limits={**LIMITS, "handoffs": declared}, owners=["legal-desk"]))
    take_run_baseline(run=run)
    operation = completed(world, run.uid, world.hmac("ref", "report"))
    if action == "route_wait":
        operation = waiting(world, run.uid)
    member, usual = RECOVERY_LIMITS[action]
    more = {"owner": "legal-desk"} if action == "route_wait" else {}
    decide(world, run, operation, action, **more)
    body = json.loads(Receipt.objects.get(run=run, kind="recovery_decided").body)["body"]
    assert body["limit_s"] == declared.get(member, usual)
    if action != "route_wait":
        with pytest.raises(Refused) as refused:
            decide(world, run, operation, action, **more)
        assert refused.value.rule == "decision_open"
    headers = {"Authorization": f"Bearer {world.token}"}
    told = client.get(f"/api/v1/runs/{run.uid}/recoveries", headers=headers).json()["recoveries"]
    assert [each["until"] is not None for each in told] == ([] if action == "run_verifier" else [True])
    later(timedelta(seconds=body["limit_s"] + 1))
    assert (action, None) in offered(run, operation)
    decide(world, run, operation, action, **more)


def test_a_wait_that_went_to_the_wrong_one_is_routed_anew_at_once(
    ada: Client, client: Client, world: World
) -> None:
    run = Run.objects.get(uid=begin(world, owners=["legal-desk", "tax-desk"]))
    operation = waiting(world, run.uid)
    for owner in ("legal-desk", "tax-desk"):
        decide(world, run, operation, "route_wait", owner=owner)
    page = ada.get(f"/runs/{run.uid}/audits/").text
    first, second = Receipt.objects.filter(run=run, kind="recovery_decided").order_by("seq")
    assert "Route wait, attempt 1 of 20" in page
    assert f'replaced by a newer one, <a href="/runs/{run.uid}/?at={second.seq}' in page
    assert "Route wait, attempt 2 of 20" in page
    assert "attempt 3 of 20, within 3600 s; it replaces the one that is open" in page
    headers = {"Authorization": f"Bearer {world.token}"}
    told = client.get(f"/api/v1/runs/{run.uid}/recoveries", headers=headers).json()["recoveries"]
    assert [(each["attempt"], each["owner"]) for each in told] == [(2, "tax-desk")]
    assert not world.ingest(event(world, run.uid, "other", "progress", ago=0)).refused
    decided = decided_of(run, operation)
    assert [(each.decided.seq, each.worked is None, each.replaced is None) for each in decided] == [
        (first.seq, True, False),
        (second.seq, False, True),
    ]


def test_routing_anew_is_bounded_as_routing_is(world: World) -> None:
    run = Run.objects.get(uid=begin(world, owners=["legal-desk"]))
    operation = waiting(world, run.uid)
    for _ in range(20):
        decide(world, run, operation, "route_wait", owner="legal-desk")
    assert offered(run, operation) == [("route_wait", "attempts_used_up")]


def test_a_route_whose_time_was_over_is_over_and_not_replaced(world: World, later: Any) -> None:
    run = Run.objects.get(uid=begin(world, limits={**LIMITS, "handoffs": BOUNDS}, owners=["legal-desk"]))
    operation = waiting(world, run.uid)
    decide(world, run, operation, "route_wait", owner="legal-desk")
    later(timedelta(seconds=31))
    decide(world, run, operation, "route_wait", owner="legal-desk")
    assert [each.replaced for each in decided_of(run, operation)] == [None, None]


def decided_of(run: Run, operation: str) -> tuple[Recovered, ...]:
    cards = [card for column in audit_page(run, now()).board for card in column.cards]
    return next(card.decided for card in cards if card.operation == operation)


@pytest.mark.parametrize("told_again", [False, True])
def test_what_comes_late_of_the_attempt_before_does_not_show_that_a_redelivery_worked(
    world: World, told_again: bool
) -> None:
    declared = {"redeliver": {"attempts": 2, "limit_s": 600}}
    run = Run.objects.get(uid=begin(world, limits={**LIMITS, "handoffs": declared}))
    operation, again = world.hmac("ref", "brief"), world.hmac("ref", "brief 2")

    def worked() -> bool:
        (audit,) = audits_now(run, now()).handoffs
        (found,) = Recoveries.of(run).decided(audit)
        return found.worked is not None

    world.ingest(delegated(world, run.uid, "brief", ago=900))
    decide(world, run, operation, "redeliver")
    if told_again:
        world.ingest(delegated(world, run.uid, "brief", ago=899))
    world.ingest(event(world, run.uid, "brief", "accepted", ago=880))
    assert not worked()
    world.ingest(event(world, run.uid, "brief", "accepted", ago=20, handoff=again))
    assert not worked()  # the word of its delegation is still on its way
    world.ingest(delegated(world, run.uid, "brief", ago=30, handoff=again))
    assert worked()
