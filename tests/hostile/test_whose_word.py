"""Attacks on gates 3 and 6: nothing vanishes from the list of effects, only a word that counts is heard."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from branches.commands.admit import grant_role
from branches.commands.audit_arrivals import audit_arrivals
from branches.commands.check_outcome import check_outcome
from branches.commands.confirm_outcome import confirm_outcome
from branches.commands.fork_branch import fork_branch
from branches.commands.refusal import Refused
from branches.evidence import ids
from branches.evidence.kinds.product import MOST_UNACCOUNTED
from branches.models import Role, Run
from branches.ports import Check, OutcomeCheck
from branches.queries.branch_facts import branch_view
from branches.queries.clock import now
from tests.api.test_pushed_outcomes import SECRET, Pusher
from tests.api.test_pushed_outcomes import branch as pushed_branch  # noqa: F401 - a fixture
from tests.branches.test_arrivals import Listing, arrival, lister  # noqa: F401 - a fixture
from tests.branches.test_branch_life import approve, fork, settle, start, status
from tests.builders import (
    World,
    checkpoint,
    closed,
    declaration,
    effect,
    failed_run,
    make_world,
    run_started,
    stopped,
)
from tests.plugins import FakeVerifier, FakeWorld
from tests.words import attest, judge, reconcile

# ruff: noqa: F811 - fixtures that are imported


@pytest.fixture
def ready(world: World, lister: Listing) -> Run:
    found = fork(world, failed_run(world))
    settle(world, found, lister.outside)
    approve(world, found)
    return found


@pytest.fixture
def push(client: Client, world: World, pushed_branch: Run) -> Pusher:
    return Pusher(client, world, pushed_branch)


# Gate 3: what vanishes from the list


def test_an_effect_does_not_leave_the_ledger_when_its_call_is_sent_again_as_a_read(
    world: World, outside: FakeWorld
) -> None:
    run = failed_run(world)
    world.ingest(
        *effect(world, run.uid, "mail", "send_mail", "c1", effect_class="read"), closed(world, run.uid)
    )
    found = {line.operation_key for line in branch_view(fork(world, run)).effects}
    assert world.operation("mail") in found


@pytest.mark.parametrize("lie", [{"effect_class": "reversible"}, {"destination": None}])
def test_a_call_that_belies_its_tools_declaration_is_refused(
    world: World, outside: FakeWorld, lie: dict[str, Any]
) -> None:
    run = failed_run(world)
    refused = world.ingest(*effect(world, run.uid, "second mail", "send_mail", "c1", **lie)).refused
    assert [(line.field, line.rule) for line in refused] == [(f"body.{next(iter(lie))}", "declared")]


@pytest.mark.parametrize("where", ["as a read", "in another run"])
def test_a_receipt_after_the_fact_does_not_make_a_bypass_vanish(
    world: World, ready: Run, lister: Listing, where: str
) -> None:
    lister.arrived = [arrival(world, "bypass", world.operation("bypass"))]
    audit_arrivals(branch=ready, destination="tickets")
    assert status(ready) == "effects_unreconciled"
    run = failed_run(world) if where == "in another run" else ready.fork_point.parent
    change = {"effect_class": "read"} if where == "as a read" else {}
    world.ingest(*effect(world, run.uid, "bypass", "create_ticket", "c1", **change))
    found = {line.operation_key for line in branch_view(ready).effects}
    assert found & {lister.arrived[0].ref, world.operation("bypass")}


def test_an_audit_of_a_later_branch_does_not_hide_what_an_earlier_one_could_not_name(
    world: World, ready: Run, lister: Listing
) -> None:
    lister.arrived = [arrival(world, f"s{number}") for number in range(MOST_UNACCOUNTED + 3)]
    audit_arrivals(branch=ready, destination="tickets")
    later_branch = fork_branch(
        person=world.ada,
        parent=ready.fork_point.parent,
        checkpoint=world.checkpoint("c2"),
        reason_code="false_success",
        edit_class="add_detail",
        hypothesis="later",
    )
    lister.arrived = []  # nothing since that later checkpoint
    audit_arrivals(branch=later_branch, destination="tickets")
    assert branch_view(ready).facts.effects_ledger == "unknown"


def test_an_attestation_from_before_an_audit_does_not_vouch_for_what_it_could_not_name(
    world: World, ready: Run, lister: Listing
) -> None:
    attest(person=world.ada, branch=ready, run=ready.fork_point.parent, reason="destinations_agree")
    lister.arrived = [arrival(world, f"s{number}") for number in range(MOST_UNACCOUNTED + 3)]
    audit_arrivals(branch=ready, destination="tickets")
    assert branch_view(ready).facts.effects_ledger == "unknown"


def test_one_id_at_two_destinations_is_two_arrivals(world: World, ready: Run, lister: Listing) -> None:
    lister.arrived = [arrival(world, "1")]
    audit_arrivals(branch=ready, destination="tickets")
    judge(
        person=world.ada,
        branch=ready,
        operation_key=lister.arrived[0].ref,
        judgement="mine",
        reason="told_by_owner",
    )
    audit_arrivals(branch=ready, destination="mail")
    assert status(ready) == "effects_unreconciled"


def test_two_arrivals_under_one_key_are_two(world: World, ready: Run, lister: Listing) -> None:
    key = world.operation("ticket")
    lister.arrived = [arrival(world, "1", key), arrival(world, "2", key)]
    assert audit_arrivals(branch=ready, destination="tickets") == 1


def test_an_audit_does_not_begin_later_than_the_server_knew_the_checkpoint(
    world: World, lister: Listing
) -> None:
    uid = ids.mint("run")
    ahead = (now() + timedelta(hours=1)).isoformat().replace("+00:00", "Z")
    world.ingest(
        run_started(world, uid),
        {**checkpoint(world, uid, "c1"), "at": ahead},
        *effect(world, uid, "ticket", "create_ticket", "c1"),
        stopped(world, uid),
        closed(world, uid),
    )
    audit_arrivals(branch=fork(world, Run.objects.get(uid=uid)), destination="tickets")
    assert lister.since is not None
    assert lister.since <= now()


# Gate 6: whose word, and in which order


def test_an_older_failure_pushed_late_does_not_take_a_newer_pass_back(
    push: Pusher, pushed_branch: Run
) -> None:
    push("m1", version="9")
    assert status(pushed_branch) == "verified"
    push("m2", version="8", check="failed")
    assert status(pushed_branch) == "verified"


def test_an_older_pass_pushed_late_does_not_turn_a_newer_failure(push: Pusher, pushed_branch: Run) -> None:
    push("m1", version="9", check="failed")
    push("m2", version="8", check="passed")
    assert status(pushed_branch) != "verified"


def test_a_failure_of_anothers_operation_does_not_take_verified_back(
    push: Pusher, world: World, pushed_branch: Run
) -> None:
    push("m1", version="9")
    push("m2", version="10", check="failed", operation_key=world.operation("another's"))
    assert status(pushed_branch) == "verified"


def test_a_question_that_was_asked_before_a_push_does_not_overrule_it(
    push: Pusher, pushed_branch: Run, outside: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check(self: FakeVerifier, *_: Any) -> OutcomeCheck:
        push("m1", version="9")
        return OutcomeCheck(Check.FAILED, version="8")

    monkeypatch.setattr(FakeVerifier, "check", check)
    check_outcome(run=pushed_branch)
    assert status(pushed_branch) == "verified"


def _pushes(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPORTS_SECRET", SECRET)
    targets = json.loads(settings.BRANCHGATE_TARGETS.read_text())
    targets["reports"] = {"webhook_secret_env": "REPORTS_SECRET"}
    settings.BRANCHGATE_TARGETS.write_text(json.dumps(targets))


def test_a_failure_pushed_before_the_resume_is_not_this_branchs_outcome(
    client: Client, world: World, outside: FakeWorld, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    _pushes(settings, monkeypatch)
    branch = fork(world, failed_run(world))
    settle(world, branch, outside)
    approve(world, branch)
    Pusher(client, world, branch)(check="failed")
    start(world, branch)
    world.ingest(stopped(world, branch.uid, loop="ended"), closed(world, branch.uid))
    assert branch_view(branch).verdict.reasons == ("ended_without_claim",)


def _by_a_person() -> World:
    return make_world(
        declared=declaration(outcome={"expected": "report", "verifier": "person", "target": "reports"})
    )


def test_a_push_does_not_take_the_place_of_the_person_that_was_declared(
    client: Client, db: None, outside: FakeWorld, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = _by_a_person()
    _pushes(settings, monkeypatch)
    branch = fork(world, failed_run(world))
    settle(world, branch, outside)
    approve(world, branch)
    start(world, branch)
    world.ingest(*effect(world, branch.uid, "report", "create_ticket", "c1"))
    world.ingest(stopped(world, branch.uid), closed(world, branch.uid))
    Pusher(client, world, branch)()
    assert status(branch) != "verified"


def test_who_decided_a_branchs_effects_does_not_confirm_its_outcome(db: None, outside: FakeWorld) -> None:
    world = _by_a_person()
    grant_role(person=world.rosa, workspace=world.workspace, role=Role.ENGINEER)
    branch = fork(world, failed_run(world))
    settle(world, branch, outside)
    reconcile(person=world.rosa, branch=branch, operation_key=world.operation("mail"), decision="skip")
    approve(world, branch)
    start(world, branch)
    with pytest.raises(Refused):
        confirm_outcome(person=world.rosa, branch=branch, check="passed")


@pytest.mark.parametrize(
    "headers",
    [
        {"HTTP_WEBHOOK_ID": "m", "HTTP_WEBHOOK_TIMESTAMP": "999999999999", "HTTP_WEBHOOK_SIGNATURE": "v1,x"},
        {"CONTENT_LENGTH": "abc"},
    ],
)
def test_a_strangers_odd_header_is_refused_and_no_error(push: Pusher, headers: dict[str, Any]) -> None:
    push.client.raise_request_exception = False
    place = f"/api/v1/destinations/{push.workspace}/reports/outcomes"
    answer = push.client.post(place, b"{}", content_type="application/json", **headers)
    assert answer.status_code < 500
