"""A word counts for what was shown; an answer that nobody waits for, or that broke, says nothing."""

from collections.abc import Callable
from typing import Any

import pytest

from branches.commands.acknowledge_drift import acknowledge_drift
from branches.commands.ask_destination import ask_destination
from branches.commands.ask_for_job import ask_as_person
from branches.commands.check_outcome import check_outcome
from branches.commands.measure_state import measure_state
from branches.commands.plugin_words import PluginBroke
from branches.commands.reconcile_effect import attest_ledger, judge_effect, reconcile_effect
from branches.commands.refusal import Refused
from branches.commands.run_job import cancel_job, run_job
from branches.models import Job, JobKind, JobState, Receipt, Run
from branches.ports import Answer, Check
from branches.queries.branch_facts import branch_view
from branches.queries.branch_page import page_now
from tests.branches.test_arrivals import Listing, lister  # noqa: F401 - a fixture
from tests.branches.test_branch_life import approve, fork, settle, start, status
from tests.builders import World, effect, failed_run, stopped
from tests.plugins import FakeDestination, FakeProbe, FakeVerifier, FakeWorld
from tests.web.cast import signed_in
from tests.words import shown_effect, shown_key

# ruff: noqa: F811 - fixtures that are imported

BROKEN = RuntimeError("CONTENT-MARKER-7f3a")


@pytest.fixture
def branch(world: World, outside: FakeWorld) -> Run:
    return fork(world, failed_run(world))


def written(branch: Run, kind: str) -> int:
    return Receipt.objects.filter(run=branch, kind=kind).count()


# What was shown


def test_an_acknowledgement_of_another_drift_than_is_there_is_refused(
    world: World, branch: Run, outside: FakeWorld
) -> None:
    outside.states["browser"] = "moved"
    measure_state(branch=branch, key="browser")
    shown = shown_key(branch, "browser")
    outside.states["browser"] = "moved again"
    measure_state(branch=branch, key="browser")
    with pytest.raises(Refused) as refused:
        acknowledge_drift(
            person=world.ada, branch=branch, key="browser", shown=shown, reason="expected_change"
        )
    assert (refused.value.rule, written(branch, "drift_acknowledged")) == ("changed_since_shown", 0)


def test_a_drift_measured_anew_as_the_same_is_still_what_was_shown(
    world: World, branch: Run, outside: FakeWorld
) -> None:
    outside.states["browser"] = "moved"
    measure_state(branch=branch, key="browser")
    shown = shown_key(branch, "browser")
    measure_state(branch=branch, key="browser")
    acknowledge_drift(person=world.ada, branch=branch, key="browser", shown=shown, reason="expected_change")
    assert written(branch, "drift_acknowledged") == 1


def test_what_the_destination_said_after_it_was_shown_is_not_accepted_unseen(
    world: World, branch: Run, outside: FakeWorld
) -> None:
    ticket = world.operation("ticket")
    outside.answers = {"tickets": Answer.PRESENT}
    ask_destination(branch=branch, operation_key=ticket)
    shown = shown_effect(branch, ticket)
    outside.answers = {"tickets": Answer.ABSENT}
    ask_destination(branch=branch, operation_key=ticket)
    with pytest.raises(Refused) as refused:
        reconcile_effect(person=world.ada, branch=branch, operation_key=ticket, shown=shown)
    assert (refused.value.rule, written(branch, "effect_reconciled")) == ("changed_since_shown", 0)


def test_a_judgement_of_another_call_than_was_shown_is_refused(
    world: World, branch: Run, outside: FakeWorld
) -> None:
    ticket, parent = world.operation("ticket"), branch.fork_point.parent
    outside.answers = {"tickets": Answer.CHANGED}
    ask_destination(branch=branch, operation_key=ticket)
    shown = shown_effect(branch, ticket)
    world.ingest(*effect(world, parent.uid, "ticket", "create_ticket", "c1"))
    ask_destination(branch=branch, operation_key=ticket)
    with pytest.raises(Refused) as refused:
        judge_effect(
            person=world.ada,
            branch=branch,
            operation_key=ticket,
            shown=shown,
            judgement="mine",
            reason="told_by_owner",
        )
    assert refused.value.rule == "changed_since_shown"


def test_nobody_vouches_for_what_came_after_the_page(world: World, branch: Run) -> None:
    parent = branch.fork_point.parent
    world.ingest(*effect(world, parent.uid, "late", "create_ticket", "c1"))  # after the writer's last word
    (shown,) = page_now(branch).to_attest
    world.ingest(*effect(world, parent.uid, "later", "create_ticket", "c1"))
    attest_ledger(person=world.ada, branch=branch, run=parent, through=shown.through, reason="logs_agree")
    assert branch_view(branch).facts.effects_ledger == "unknown"
    (again,) = page_now(branch).to_attest
    attest_ledger(person=world.ada, branch=branch, run=parent, through=again.through, reason="logs_agree")
    assert branch_view(branch).facts.effects_ledger == "attested"


def test_a_page_that_is_outdated_is_answered_with_a_conflict(
    world: World, branch: Run, outside: FakeWorld
) -> None:
    ticket = world.operation("ticket")
    outside.answers = {"tickets": Answer.PRESENT}
    ask_destination(branch=branch, operation_key=ticket)
    ada, where = signed_in(world.ada), f"/branches/{branch.uid}/reconcile/"
    form = {"operation": ticket, "shown": "something else"}
    answer = ada.post(where, form)
    assert (answer.status_code, written(branch, "effect_reconciled")) == (409, 0)
    page = ada.get(f"/branches/{branch.uid}/effects/").text
    assert f'name="shown" value="{shown_effect(branch, ticket)}"' in page
    assert ada.post(where, form | {"shown": shown_effect(branch, ticket)}).status_code == 302
    assert written(branch, "effect_reconciled") == 1


# What is wanted


def job(world: World, run: Run, kind: JobKind, subject: str) -> Job:
    Job.objects.all().delete()
    return ask_as_person(person=world.ada, workspace=world.workspace, kind=kind, run=run, subject=subject)


def test_a_measurement_that_was_cancelled_meanwhile_is_not_recorded(
    world: World, branch: Run, outside: FakeWorld, monkeypatch: pytest.MonkeyPatch, queued: None
) -> None:
    asked = job(world, branch, JobKind.PROBE_STATE, "browser")
    _cancelling(monkeypatch, FakeProbe, "measure", lambda: cancel_job(person=world.ada, job=asked))
    run_job(uid=asked.uid)
    asked.refresh_from_db()
    assert (asked.state, written(branch, "state_measured")) == (JobState.CANCELLED, 0)


def test_an_audit_that_was_cancelled_meanwhile_is_not_recorded(
    world: World, lister: Listing, monkeypatch: pytest.MonkeyPatch, queued: None
) -> None:
    branch = fork(world, failed_run(world))
    asked = job(world, branch, JobKind.AUDIT_ARRIVALS, "tickets")
    _cancelling(monkeypatch, Listing, "arrivals", lambda: cancel_job(person=world.ada, job=asked))
    run_job(uid=asked.uid)
    asked.refresh_from_db()
    assert asked.state == JobState.CANCELLED
    assert written(branch.fork_point.parent, "arrivals_audited") == 0


def test_a_check_that_was_cancelled_meanwhile_is_not_recorded(
    world: World, branch: Run, outside: FakeWorld, monkeypatch: pytest.MonkeyPatch, queued: None
) -> None:
    settle(world, branch, outside)
    approve(world, branch)
    start(world, branch)
    before = written(branch, "outcome_checked")
    asked = job(world, branch, JobKind.CHECK_OUTCOME, "")
    _cancelling(monkeypatch, FakeVerifier, "check", lambda: cancel_job(person=world.ada, job=asked))
    run_job(uid=asked.uid)
    asked.refresh_from_db()
    assert (asked.state, written(branch, "outcome_checked")) == (JobState.CANCELLED, before)


def _cancelling(monkeypatch: pytest.MonkeyPatch, plugin: type, name: str, cancel: Callable[[], None]) -> None:
    really = getattr(plugin, name)

    def asked(*arguments: Any) -> Any:
        cancel()
        return really(*arguments)

    monkeypatch.setattr(plugin, name, asked)


@pytest.fixture
def queued(monkeypatch: pytest.MonkeyPatch) -> None:
    """No job is done before the test does it."""
    monkeypatch.setattr("branches.commands.ask_for_job.hint", lambda *_: None)


# What broke


def _break(*_: object) -> Any:
    raise BROKEN


def test_a_probe_that_breaks_leaves_no_older_match_standing(
    world: World, branch: Run, outside: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert measure_state(branch=branch, key="browser") == "matched"
    monkeypatch.setattr(FakeProbe, "measure", _break)
    with pytest.raises(PluginBroke, match="failed:RuntimeError"):
        measure_state(branch=branch, key="browser")
    assert "unreachable:browser" in branch_view(branch).verdict.gates[1].reasons


def test_a_destination_that_breaks_is_pending(
    world: World, branch: Run, outside: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeDestination, "ask", _break)
    ticket = world.operation("ticket")
    with pytest.raises(PluginBroke, match="failed:RuntimeError"):
        ask_destination(branch=branch, operation_key=ticket)
    assert f"pending:{ticket}" in branch_view(branch).verdict.gates[2].reasons


def test_a_verifier_that_breaks_after_a_claim_leaves_the_outcome_uncertain(
    world: World, branch: Run, outside: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(world, branch, outside)
    approve(world, branch)
    start(world, branch)
    world.ingest(stopped(world, branch.uid))
    outside.check, outside.newest = Check.PASSED, "8"
    monkeypatch.setattr(FakeVerifier, "check", _break)
    with pytest.raises(PluginBroke, match="failed:RuntimeError"):
        check_outcome(run=branch)
    assert branch_view(branch).facts.outcome.check == "unreachable"
    assert status(branch) == "outcome_uncertain"
    assert "CONTENT-MARKER" not in str(list(Receipt.objects.values_list("body", flat=True)))
