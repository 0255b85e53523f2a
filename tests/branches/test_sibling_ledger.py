"""What siblings did is known in full, and a page keeps looking as long as something may still come."""

import pytest

from branches.commands.issue_permit import issue_permit
from branches.models import Job, JobState, Run
from branches.queries import branch_page as pages
from branches.queries.branch_facts import BranchView, branch_view
from branches.queries.branch_page import page_now
from branches.queries.family import Family
from tests.branches.test_branch_life import approve, fork, settle, start
from tests.builders import World, closed, effect, failed_run, stopped
from tests.plugins import FakeWorld


def finished(world: World, run: Run, outside: FakeWorld) -> Run:
    branch = fork(world, run)
    settle(world, branch, outside)
    approve(world, branch)
    start(world, branch)
    report = world.ingest(
        *effect(world, branch.uid, "other ticket", "create_ticket", "c1"),
        stopped(world, branch.uid),
        closed(world, branch.uid),
    )
    assert not report.refused, report.refused
    return branch


def test_it_counts_a_closed_sibling_as_recorded_in_full(world: World, outside: FakeWorld) -> None:
    run = failed_run(world)
    finished(world, run, outside)
    facts = branch_view(fork(world, run)).facts
    assert str(facts.effects_ledger) == "complete"


def test_it_keeps_the_page_looking_while_a_permit_waits(world: World, outside: FakeWorld) -> None:
    branch = fork(world, failed_run(world))
    settle(world, branch, outside)
    approve(world, branch)
    Job.objects.filter(run=branch).update(state=JobState.DONE)
    assert not page_now(branch).busy
    issue_permit(person=world.ada, branch=branch)
    Job.objects.filter(run=branch).update(state=JobState.DONE)
    assert page_now(branch).busy


def test_it_looks_again_where_a_job_ended_while_the_page_was_read(
    world: World, outside: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    branch = fork(world, failed_run(world))
    Job.objects.filter(run=branch).update(state=JobState.RUNNING)

    def view_then_end(run: Run, family: Family) -> BranchView:
        view = branch_view(run, family=family)
        Job.objects.filter(run=run).update(state=JobState.DONE)
        return view

    monkeypatch.setattr(pages, "branch_view", view_then_end)
    assert page_now(branch).busy
    assert not page_now(branch).busy
