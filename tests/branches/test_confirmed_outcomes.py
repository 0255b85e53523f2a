"""An outcome that only a person can find: a reviewer who did not work on the branch says so by name."""

import json

import pytest

from branches.commands.admit import grant_role
from branches.commands.check_outcome import check_outcome
from branches.commands.confirm_outcome import confirm_outcome
from branches.commands.refusal import Refused
from branches.models import Receipt, Role, Run
from tests.branches.test_branch_life import approve, fork, settle, start, status
from tests.builders import World, closed, declaration, failed_run, make_world, stopped
from tests.plugins import FakeWorld


@pytest.fixture
def world(db: None) -> World:
    outcome = {"expected": "report", "verifier": "person", "target": "reports"}
    return make_world(declared=declaration(outcome=outcome))


@pytest.fixture
def branch(world: World, outside: FakeWorld) -> Run:
    found = fork(world, failed_run(world))
    settle(world, found, outside)
    approve(world, found)
    return found


def refusal(world: World, branch: Run, person: str, check: str = "passed") -> str:
    with pytest.raises(Refused) as refused:
        confirm_outcome(person=getattr(world, person), branch=branch, check=check)
    return refused.value.rule


def test_a_reviewers_word_closes_gate_6_and_says_whose_it_is(world: World, branch: Run) -> None:
    start(world, branch)
    world.ingest(stopped(world, branch.uid), closed(world, branch.uid))
    assert status(branch) == "false_success"
    confirm_outcome(person=world.rosa, branch=branch, check="passed")
    assert status(branch) == "verified"
    receipt = json.loads(Receipt.objects.get(run=branch, kind="outcome_checked").body)
    assert receipt["body"]["issuer"] == {"type": "human", "name": world.rosa.uid}
    assert receipt["actor"] == {"type": "person", "id": world.rosa.uid}
    confirm_outcome(person=world.rosa, branch=branch, check="failed")
    assert status(branch) == "false_success"


def test_nobody_confirms_before_the_branch_runs_without_the_role_or_their_own_work(
    world: World, branch: Run
) -> None:
    assert refusal(world, branch, "rosa") == "outcome_before_resume"
    start(world, branch)
    assert refusal(world, branch, "grace") == "role:reviewer"
    grant_role(person=world.ada, workspace=world.workspace, role=Role.REVIEWER)
    assert refusal(world, branch, "ada") == "own_work:forked"
    assert refusal(world, branch, "rosa", "perhaps") == "enum"


def test_no_machine_is_asked(world: World, branch: Run) -> None:
    start(world, branch)
    with pytest.raises(Refused) as refused:
        check_outcome(run=branch)
    assert refused.value.rule == "a_person_decides"
    assert not Receipt.objects.filter(run=branch, kind="outcome_checked").exists()
