"""Destinations are asked once more before a resume, and an effect that comes to light late stops a branch."""

import pytest

from branches.commands.issue_permit import issue_permit
from branches.commands.redeem_permit import redeem_permit
from branches.commands.refusal import Refused
from branches.commands.renew_lease import renew_lease
from branches.commands.request_approval import request_approval
from branches.evidence import ids
from branches.models import Receipt, Redemption, RequestEnd, ResumePermit, Run
from branches.ports import Answer
from branches.queries.branch_facts import branch_view
from tests.branches.test_branch_life import approve, fork, settle, start, status
from tests.builders import World, closed, effect, failed_run, message, stopped
from tests.plugins import FakeWorld


@pytest.fixture
def branch(world: World, outside: FakeWorld) -> Run:
    found = fork(world, failed_run(world))
    settle(world, found, outside)
    approve(world, found)
    return found


def redeem(world: World, permit: ResumePermit) -> str:
    with pytest.raises(Refused) as refused:
        redeem_permit(recorder=world.recorder, permit=permit, attempt=ids.mint("att"))
    return refused.value.rule


def asked(branch: Run) -> int:
    return Receipt.objects.filter(run=branch, kind="effect_asked").count()


def test_an_answer_that_changed_since_the_approval_opens_gate_3_again(
    world: World, branch: Run, outside: FakeWorld
) -> None:
    permit = issue_permit(person=world.ada, branch=branch)
    outside.answers["tickets"] = Answer.ABSENT
    assert redeem(world, permit) == "not_ready:effects_unreconciled"
    assert not Redemption.objects.exists()
    assert branch_view(branch).verdict.reasons == (f"pending:{world.operation('ticket')}",)


def test_a_destination_that_does_not_answer_leaves_everything_as_it_was(
    world: World, branch: Run, outside: FakeWorld
) -> None:
    permit = issue_permit(person=world.ada, branch=branch)
    before = asked(branch)
    outside.answers["mail"] = Answer.UNKNOWN
    assert redeem(world, permit) == "destination_unreachable"
    assert asked(branch) == before
    assert status(branch) == "ready_to_resume"
    outside.answers["mail"] = Answer.PRESENT
    redeem_permit(recorder=world.recorder, permit=permit, attempt=ids.mint("att"))
    assert asked(branch) == before + 2
    assert status(branch) == "resuming"


def test_the_same_attempt_is_not_asked_about_again(world: World, branch: Run, outside: FakeWorld) -> None:
    permit, attempt = issue_permit(person=world.ada, branch=branch), ids.mint("att")
    first = redeem_permit(recorder=world.recorder, permit=permit, attempt=attempt)
    before = asked(branch)
    outside.answers = {}
    assert redeem_permit(recorder=world.recorder, permit=permit, attempt=attempt) == first
    assert asked(branch) == before


def test_a_parents_late_effect_stops_the_branch_at_its_next_step(world: World, branch: Run) -> None:
    attempt = start(world, branch)
    assert renew_lease(recorder=world.recorder, branch=branch, attempt=attempt) is None
    parent = branch.fork_point.parent
    world.ingest(*effect(world, parent.uid, "late ticket", "create_ticket", "c1"))
    assert status(branch) == "effects_unreconciled"
    assert renew_lease(recorder=world.recorder, branch=branch, attempt=attempt) == "effects_reopened"


def test_what_a_later_sibling_does_stops_only_that_sibling(
    world: World, branch: Run, outside: FakeWorld
) -> None:
    second = fork(world, branch.fork_point.parent)
    attempt = start(world, branch)
    world.ingest(stopped(world, branch.uid), closed(world, branch.uid))
    settle(world, second, outside)
    approve(world, second)
    later = start(world, second)
    world.ingest(*effect(world, second.uid, "its ticket", "create_ticket", "c1"))
    assert renew_lease(recorder=world.recorder, branch=branch, attempt=attempt) is None
    world.ingest(*effect(world, branch.uid, "mine", "create_ticket", "c1"))
    assert renew_lease(recorder=world.recorder, branch=second, attempt=later) == "effects_reopened"


def test_a_message_after_the_recording_was_closed_supersedes_what_was_asked_for_at_once(
    world: World, outside: FakeWorld
) -> None:
    run = failed_run(world)
    branch = fork(world, run)
    settle(world, branch, outside)
    request = request_approval(person=world.ada, branch=branch)
    assert world.ingest(message(world, run.uid, "late", "publisher")).accepted == 1
    assert RequestEnd.objects.get(request=request).word == "superseded"
    assert "ledger_unknown" in branch_view(branch).verdict.reasons
