"""Attacks on how places are asked: how often, how many at once, by whom, and what becomes of a lost job."""

import json
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from branches.commands.ask_again import ask_again
from branches.commands.ask_destination import ask_destination
from branches.commands.issue_permit import issue_permit
from branches.commands.redeem_permit import decline_permit, redeem_permit
from branches.commands.refusal import Refused
from branches.commands.run_job import MOST_TRIES, cancel_job, run_job, sweep_jobs
from branches.evidence import ids
from branches.models import Job, JobKind, JobState, Receipt, Run
from branches.ports import Answer, DestinationAnswer, Question, Target
from branches.queries.branch_facts import branch_view
from branches.queries.clock import now
from branches.queries.targets import TargetMissing, target
from tests.branches.test_branch_life import approve, fork, settle
from tests.builders import World, effect, failed_run
from tests.plugins import FakeDestination, FakeWorld
from tests.words import attest, reconcile


def test_asking_again_keeps_to_a_targets_bound(
    world: World, outside: FakeWorld, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    targets = json.loads(settings.BRANCHGATE_TARGETS.read_text())
    targets["tickets"] = {"at_once": 1}
    settings.BRANCHGATE_TARGETS.write_text(json.dumps(targets))
    run = failed_run(world)
    for number in range(6):
        world.ingest(*effect(world, run.uid, f"t{number}", "create_ticket", "c1"))
    branch = fork(world, run)
    settle(world, branch, outside)
    for number in range(6):
        ask_destination(branch=branch, operation_key=world.operation(f"t{number}"))
    running, seen, guard = [0], [0], threading.Lock()

    def ask(self: FakeDestination, target: Target, question: Question) -> DestinationAnswer:
        with guard:
            running[0] += target.name == "tickets"
            seen[0] = max(seen[0], running[0])
        time.sleep(0.05)
        with guard:
            running[0] -= target.name == "tickets"
        return DestinationAnswer(Answer.PRESENT)

    monkeypatch.setattr(FakeDestination, "ask", ask)
    ask_again(branch=branch)
    assert seen == [1]


def test_an_ended_permit_asks_nobody(
    world: World, outside: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    branch = fork(world, failed_run(world))
    settle(world, branch, outside)
    approve(world, branch)
    permit = issue_permit(person=world.ada, branch=branch)
    decline_permit(recorder=world.recorder, permit=permit, rule="state_drifted")
    asked: list[str] = []

    def ask(self: FakeDestination, target: Target, question: Question) -> DestinationAnswer:
        asked.append(target.name)
        return DestinationAnswer(Answer.PRESENT)

    monkeypatch.setattr(FakeDestination, "ask", ask)
    with pytest.raises(Refused):
        redeem_permit(recorder=world.recorder, permit=permit, attempt=ids.mint("att"))
    assert asked == []


def _redemption_queries(world: World, outside: FakeWorld, many: int) -> int:
    run = failed_run(world)
    names = [f"{many}-{number}" for number in range(many)]
    for name in names:
        world.ingest(*effect(world, run.uid, name, "create_ticket", "c1"))
    branch = fork(world, run)
    settle(world, branch, outside)
    for name in names:
        ask_destination(branch=branch, operation_key=world.operation(name))
        reconcile(person=world.ada, branch=branch, operation_key=world.operation(name))
    attest(person=world.ada, branch=branch, run=run, reason="destinations_agree")
    approve(world, branch)
    permit = issue_permit(person=world.ada, branch=branch)
    with CaptureQueriesContext(connection) as found:
        redeem_permit(recorder=world.recorder, permit=permit, attempt=ids.mint("att"))
    return len(found)


def test_a_redemption_does_not_judge_the_whole_branch_once_for_every_effect(
    world: World, outside: FakeWorld
) -> None:
    few, many = (_redemption_queries(world, outside, number) for number in (5, 25))
    assert many - few < 20 * 10  # it is 40 queries an effect, each time over all effects


@pytest.mark.parametrize("options", ["text", [1], None])
def test_a_target_of_another_form_ends_its_job(
    world: World, outside: FakeWorld, settings: Any, options: Any
) -> None:
    branch = fork(world, failed_run(world))
    targets = json.loads(settings.BRANCHGATE_TARGETS.read_text())
    settings.BRANCHGATE_TARGETS.write_text(json.dumps({**targets, "browser": options}))
    job = Job.objects.get(run=branch, kind=JobKind.PROBE_STATE, subject="browser")
    Job.objects.filter(pk=job.pk).update(state=JobState.QUEUED, due_at=None)
    run_job(uid=job.uid)
    job.refresh_from_db()
    assert job.state == JobState.FAILED


def test_a_clock_put_back_does_not_close_a_place(world: World, outside: FakeWorld, later: Any) -> None:
    branch = fork(world, failed_run(world))
    Job.objects.all().delete()

    def probed() -> str:
        job = _job(world, branch, "browser")
        run_job(uid=job.uid)
        job.refresh_from_db()
        return job.state

    later(timedelta(hours=1))
    assert {probed() for _ in range(20)} == {JobState.DONE}
    later(timedelta(seconds=5))
    assert probed() == JobState.DONE


def _job(world: World, run: Run, subject: str, **columns: Any) -> Job:
    made: dict[str, Any] = {"uid": ids.mint("job"), "asked_by": "x", "total": 1, "made_at": now(), **columns}
    return Job.objects.create(
        workspace=world.workspace, kind=JobKind.PROBE_STATE, run=run, subject=subject, **made
    )


def test_a_hundred_jobs_that_wait_for_one_place_do_not_hide_another_places_job_from_the_sweep(
    world: World, outside: FakeWorld
) -> None:
    branch = fork(world, failed_run(world))
    Job.objects.all().delete()
    for _ in range(100):
        _job(world, branch, "browser", made_at=now() - timedelta(minutes=10))
    other = _job(world, branch, "agent_memory", made_at=now() - timedelta(minutes=5))
    running = {"state": JobState.RUNNING, "started_at": now(), "moved_at": now(), "place": "browser"}
    for _ in range(4):
        _job(world, branch, "browser", **running)
    seen: set[str] = set()
    for _ in range(3):
        swept = sweep_jobs()
        seen |= set(swept)
        for uid in swept:
            run_job(uid=uid)
        Job.objects.filter(uid__in=swept).update(due_at=now())  # half a second passed
    assert other.uid in seen


def test_a_baseline_whose_worker_always_dies_is_given_up_some_time(
    world: World, outside: FakeWorld, later: Any
) -> None:
    job = Job.objects.get(run=failed_run(world), kind=JobKind.TAKE_BASELINE)
    for number in range(20):
        later(timedelta(minutes=10 * number))
        silent = now() - timedelta(minutes=6)
        Job.objects.filter(pk=job.pk).update(state=JobState.RUNNING, started_at=silent, moved_at=silent)
        sweep_jobs()
        job.refresh_from_db()
        if job.state == JobState.FAILED:
            return
    raise AssertionError("retried for ever")


@pytest.mark.parametrize("text", ["[]", '"tickets"', "null", "7", "[" * 100_000, '{"tickets": ["at_once"]}'])
def test_a_targets_file_of_another_form_names_no_target(
    world: World, outside: FakeWorld, settings: Any, text: str
) -> None:
    settings.BRANCHGATE_TARGETS.write_text(text)
    with pytest.raises(TargetMissing):
        target(world.workspace, "tickets")


def test_a_job_that_cannot_be_placed_ends_in_one_word(
    world: World, outside: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_job: Job) -> None:
        raise RuntimeError("CONTENT-MARKER-7f3a")

    monkeypatch.setattr("branches.commands.run_job.place_of", broken)
    job = _job(world, fork(world, failed_run(world)), "agent_memory")
    run_job(uid=job.uid)
    job.refresh_from_db()
    assert (job.state, job.problem) == (JobState.FAILED, "no_place")


def _answering(monkeypatch: pytest.MonkeyPatch, answer: Callable[[Target], Answer]) -> None:
    def ask(self: FakeDestination, target: Target, question: Question) -> DestinationAnswer:
        return DestinationAnswer(answer(target))

    monkeypatch.setattr(FakeDestination, "ask", ask)


class Clock:
    """A clock that goes on only where somebody waits, and remembers what it told each thread last."""

    def __init__(self) -> None:
        self.now = 0.0
        self.told: dict[int, float] = {}

    def monotonic(self) -> float:
        self.told[threading.get_ident()] = self.now
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_asking_again_begins_no_more_in_a_second_than_a_target_takes(
    world: World, outside: FakeWorld, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    run = failed_run(world)
    for number in range(4):
        world.ingest(*effect(world, run.uid, f"t{number}", "create_ticket", "c1"))
    branch = fork(world, run)
    settle(world, branch, outside)
    for number in range(4):
        ask_destination(branch=branch, operation_key=world.operation(f"t{number}"))
    targets = json.loads(settings.BRANCHGATE_TARGETS.read_text())
    settings.BRANCHGATE_TARGETS.write_text(json.dumps({**targets, "tickets": {"per_second": 2}}))
    began: list[float] = []
    asking, clock = sys.modules[ask_again.__module__], Clock()
    monkeypatch.setattr(asking, "time", clock)
    take = asking._Queue.take

    def taken(queue: Any) -> Any:
        found = take(queue)
        if found is not None and found[2].name == "tickets":
            began.append(clock.told[threading.get_ident()])
        return found

    monkeypatch.setattr(asking._Queue, "take", taken)
    _answering(monkeypatch, lambda _: Answer.PRESENT)
    assert len(ask_again(branch=branch).answers) == 6
    assert sorted(began) == [0, 0, 1, 1, 2]


def test_after_one_silence_nobody_else_at_that_place_is_asked(
    world: World, outside: FakeWorld, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    run = failed_run(world)
    for number in range(9):
        world.ingest(*effect(world, run.uid, f"t{number}", "create_ticket", "c1"))
    branch = fork(world, run)
    settle(world, branch, outside)
    for number in range(9):
        ask_destination(branch=branch, operation_key=world.operation(f"t{number}"))
    targets = json.loads(settings.BRANCHGATE_TARGETS.read_text())
    settings.BRANCHGATE_TARGETS.write_text(json.dumps({**targets, "tickets": {"at_once": 1}}))
    asked: list[str] = []

    def answer(place: Target) -> Answer:
        asked.append(place.name)
        return Answer.UNKNOWN if place.name == "tickets" else Answer.PRESENT

    _answering(monkeypatch, answer)
    with pytest.raises(Refused) as refused:
        ask_again(branch=branch)
    assert (refused.value.rule, asked.count("tickets")) == ("destination_unreachable", 1)


def test_an_expired_permit_asks_nobody(
    world: World, outside: FakeWorld, monkeypatch: pytest.MonkeyPatch, later: Any
) -> None:
    branch = fork(world, failed_run(world))
    settle(world, branch, outside)
    approve(world, branch)
    permit = issue_permit(person=world.ada, branch=branch)
    asked: list[str] = []

    def answer(place: Target) -> Answer:
        asked.append(place.name)
        return Answer.PRESENT

    _answering(monkeypatch, answer)
    later(permit.expires_at - now())
    with pytest.raises(Refused) as refused:
        redeem_permit(recorder=world.recorder, permit=permit, attempt=ids.mint("att"))
    assert (refused.value.rule, asked) == ("expired", [])


def test_an_answer_that_another_contradicts_meanwhile_redeems_nothing(
    world: World, outside: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked first and told "there", and before that is recorded somebody else was told "not there"."""
    branch = fork(world, failed_run(world))
    settle(world, branch, outside)
    fresh = ask_again(branch=branch)
    outside.answers["tickets"] = Answer.ABSENT
    ask_destination(branch=branch, operation_key=world.operation("ticket"))
    with pytest.raises(Refused) as refused:
        fresh.record(branch)
    assert refused.value.rule == "asked_meanwhile"


def _ticket_job(world: World, branch: Run) -> Job:
    return Job.objects.create(
        uid=ids.mint("job"),
        workspace=world.workspace,
        kind=JobKind.ASK_DESTINATION,
        run=branch,
        subject=world.operation("ticket"),
        asked_by=world.ada.uid,
        total=1,
        made_at=now(),
    )


def _answers(branch: Run) -> list[str]:
    lines = {line.operation_key: line for line in branch_view(branch).effects}
    return [line.asked.body["answer"] for line in lines.values() if line.asked is not None]


@pytest.mark.parametrize("word", ["cancelled", "given up"])
def test_a_question_that_is_over_while_it_is_asked_records_no_answer(
    world: World, outside: FakeWorld, monkeypatch: pytest.MonkeyPatch, word: str, later: Any
) -> None:
    branch = fork(world, failed_run(world))
    older = _ticket_job(world, branch)
    newer: list[Job] = []

    def answer(_place: Target) -> Answer:
        if newer:
            return Answer.PRESENT
        if word == "cancelled":
            cancel_job(person=world.ada, job=older)
        else:
            later(timedelta(minutes=6))
            sweep_jobs()
        newer.append(_ticket_job(world, branch))
        run_job(uid=newer[0].uid)
        return Answer.ABSENT

    _answering(monkeypatch, answer)
    run_job(uid=older.uid)
    older.refresh_from_db()
    assert older.state == (JobState.CANCELLED if word == "cancelled" else JobState.FAILED)
    assert Receipt.objects.filter(run=branch, kind="effect_asked").count() == 1
    assert _answers(branch) == ["present"]


def test_a_turn_far_in_the_future_is_now(world: World, outside: FakeWorld) -> None:
    """A clock that was put back by an hour left it there."""
    job = _job(world, fork(world, failed_run(world)), "browser", due_at=now() + timedelta(hours=1))
    Job.objects.filter(pk=job.pk).update(made_at=now() + timedelta(hours=1))
    assert job.uid in sweep_jobs()
    run_job(uid=job.uid)
    job.refresh_from_db()
    assert job.state == JobState.DONE


def test_a_worker_that_was_lost_before_the_clock_was_put_back_is_noticed(
    world: World, outside: FakeWorld
) -> None:
    ahead = now() + timedelta(hours=1)
    columns = {"state": JobState.RUNNING, "started_at": ahead, "moved_at": ahead, "place": "browser"}
    job = _job(world, fork(world, failed_run(world)), "browser", **columns)
    sweep_jobs()
    job.refresh_from_db()
    assert (job.state, job.problem) == (JobState.FAILED, "worker_lost")


def test_a_baseline_is_begun_only_so_often(world: World, outside: FakeWorld) -> None:
    job = Job.objects.get(run=failed_run(world), kind=JobKind.TAKE_BASELINE)
    seen = []
    for _ in range(MOST_TRIES):
        silent = now() - timedelta(minutes=6)
        Job.objects.filter(pk=job.pk).update(state=JobState.RUNNING, started_at=silent, moved_at=silent)
        sweep_jobs()
        job.refresh_from_db()
        seen.append((job.state, job.problem))
    again = (JobState.QUEUED, "")
    assert seen == [again, again, (JobState.FAILED, "worker_lost")]


def test_a_sweep_hands_out_few_of_a_place_and_some_of_every_place(world: World, outside: FakeWorld) -> None:
    branch = fork(world, failed_run(world))
    Job.objects.all().delete()
    old = now() - timedelta(minutes=10)
    for number in range(120):
        _job(world, branch, f"key {number}", made_at=old, place="browser", due_at=old)
    others = [
        _job(world, branch, "agent_memory", made_at=now() - timedelta(minutes=1), place=place)
        for place in ("memory", "")
    ]
    swept = sweep_jobs()
    assert {job.uid for job in others} <= set(swept[:3])
    assert len(swept) == 22
