"""Work that is delivered twice, late, in the wrong order, to a worker that dies, or by a broker gone."""

import json
from datetime import timedelta
from typing import Any

import pytest
from celery import current_app

from branches.commands.ask_for_job import ask_for_job
from branches.commands.check_outcome import take_run_baseline
from branches.commands.refusal import Refused
from branches.commands.run_job import cancel_job, run_job, sweep_jobs
from branches.evidence import ids
from branches.models import Job, JobKind, JobState, Receipt, Run
from branches.ports import Answer, Baseline, Target
from branches.queries.clock import now
from branches.tasks import do_job, sweep
from tests.branches.test_branch_life import approve, fork, settle, start, status
from tests.builders import World, checkpoint, closed, failed_run, run_started, stopped
from tests.patience import ends
from tests.plugins import FakeProbe, FakeVerifier, FakeWorld

MARKER = "CONTENT-MARKER-7f3a"


def job_of(run: Run, kind: JobKind, subject: str) -> Job:
    return Job.objects.get(run=run, kind=kind, subject=subject)


def recorded(run: Run, kind: str) -> int:
    return Receipt.objects.filter(run=run, kind=kind).count()


def begun(world: World) -> Run:
    uid = ids.mint("run")
    world.ingest(run_started(world, uid), checkpoint(world, uid, "c1"))
    return Run.objects.get(uid=uid)


def test_a_job_that_is_delivered_twice_is_done_once(world: World, outside: FakeWorld) -> None:
    branch = fork(world, failed_run(world))
    job = job_of(branch, JobKind.PROBE_STATE, "browser")
    do_job(job.uid)
    do_job(job.uid)
    job.refresh_from_db()
    assert (job.state, recorded(branch, "state_measured")) == (JobState.DONE, 1)


def test_an_unknown_and_a_cancelled_job_do_nothing(world: World, outside: FakeWorld) -> None:
    branch = fork(world, failed_run(world))
    job = job_of(branch, JobKind.PROBE_STATE, "browser")
    cancel_job(person=world.ada, job=job)
    do_job(job.uid)
    do_job(ids.mint("job"))
    job.refresh_from_db()
    assert (job.state, recorded(branch, "state_measured")) == (JobState.CANCELLED, 0)


def test_jobs_in_the_wrong_order_come_to_the_same(world: World, outside: FakeWorld) -> None:
    """An outcome that is asked for before the baseline says so, and the baseline is then too late."""
    run = begun(world)
    world.ingest(stopped(world, run.uid), closed(world, run.uid))
    check, baseline = (
        job_of(run, kind, "outcome") for kind in (JobKind.CHECK_OUTCOME, JobKind.TAKE_BASELINE)
    )
    for job in (check, baseline):
        run_job(uid=job.uid)
        job.refresh_from_db()
    assert [(job.state, job.problem) for job in (check, baseline)] == [
        (JobState.FAILED, "no_baseline"),
        (JobState.FAILED, "too_late_for_a_baseline"),
    ]
    assert recorded(run, "outcome_checked") + recorded(run, "baseline_taken") == 0


def test_a_run_that_stops_while_its_baseline_is_asked_for_gets_none(
    world: World, outside: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = begun(world)

    def baseline(_self: FakeVerifier, target: Target, expected: str) -> Baseline:
        world.ingest(stopped(world, run.uid))
        return Baseline("7", reachable=True)

    monkeypatch.setattr(FakeVerifier, "baseline", baseline)
    with pytest.raises(Refused) as refused:
        take_run_baseline(run=run)
    assert refused.value.rule == "too_late_for_a_baseline"
    assert recorded(run, "baseline_taken") == 0


def test_a_second_baseline_does_not_move_the_first(world: World, outside: FakeWorld) -> None:
    run = begun(world)
    outside.reachable = False
    take_run_baseline(run=run)
    outside.reachable = True
    take_run_baseline(run=run)
    outside.newest = "8"
    with pytest.raises(Refused):
        take_run_baseline(run=run)
    bodies = (
        Receipt.objects.filter(run=run, kind="baseline_taken").order_by("seq").values_list("body", flat=True)
    )
    assert ['"reachable":true' in body for body in bodies] == [False, True]
    assert all('"destination_version":"7"' in body for body in bodies)


def test_a_measurement_that_arrives_after_the_resume_changes_nothing(
    world: World, outside: FakeWorld
) -> None:
    branch = fork(world, failed_run(world))
    settle(world, branch, outside)
    approve(world, branch)
    start(world, branch)
    before = Receipt.objects.count()
    late = ask_for_job(
        workspace=world.workspace,
        kind=JobKind.PROBE_STATE,
        run=branch,
        subject="agent_memory",
        asked_by=world.ada.uid,
    )
    outside.states["memory"] = "drifted"
    run_job(uid=late.uid)
    late.refresh_from_db()
    assert (late.state, late.problem, Receipt.objects.count()) == (JobState.FAILED, "sealed", before)
    assert status(branch) == "awaiting_outcome"


def test_a_worker_that_died_is_noticed_and_its_work_can_be_asked_for_again(
    world: World, outside: FakeWorld
) -> None:
    branch = fork(world, failed_run(world))
    dead = job_of(branch, JobKind.PROBE_STATE, "browser")
    long_ago = now() - timedelta(minutes=6)
    Job.objects.filter(pk=dead.pk).update(state=JobState.RUNNING, started_at=long_ago, moved_at=long_ago)
    again = {"workspace": world.workspace, "kind": JobKind.PROBE_STATE, "run": branch, "subject": "browser"}
    assert ask_for_job(**again, asked_by=world.ada.uid).pk == dead.pk
    sweep_jobs()
    dead.refresh_from_db()
    assert (dead.state, dead.problem) == (JobState.FAILED, "worker_lost")
    new = ask_for_job(**again, asked_by=world.ada.uid)
    assert new.pk != dead.pk
    run_job(uid=dead.uid)  # the message of the dead one, delivered once more
    run_job(uid=new.uid)
    assert recorded(branch, "state_measured") == 1


def asking(branch: Run, world: World, subject: str = "ticket") -> Job:
    return ask_for_job(
        workspace=world.workspace,
        kind=JobKind.ASK_DESTINATION,
        run=branch,
        subject=world.operation(subject),
        asked_by=world.ada.uid,
    )


def test_silence_is_recorded_only_when_asking_again_did_not_help(
    world: World, outside: FakeWorld, later: Any
) -> None:
    branch = fork(world, failed_run(world))
    job = asking(branch, world)
    later(timedelta(), still=True)
    for tries in (1, 2):
        run_job(uid=job.uid)
        job.refresh_from_db()
        assert (job.state, job.tries, recorded(branch, "effect_asked")) == (JobState.QUEUED, tries, 0)
        run_job(uid=job.uid)  # a message that comes too early does nothing
        job.refresh_from_db()
        assert job.tries == tries
        assert job.uid not in sweep_jobs()
        later(timedelta(seconds=10 * tries), still=True)
        assert job.uid in sweep_jobs()
    run_job(uid=job.uid)
    job.refresh_from_db()
    assert (job.state, recorded(branch, "effect_asked")) == (JobState.DONE, 1)


def test_an_answer_at_the_second_try_is_the_only_one_recorded(
    world: World, outside: FakeWorld, later: Any
) -> None:
    branch = fork(world, failed_run(world))
    job = asking(branch, world)
    run_job(uid=job.uid)
    outside.answers["tickets"] = Answer.PRESENT
    later(timedelta(seconds=3))
    run_job(uid=job.uid)
    job.refresh_from_db()
    assert (job.state, recorded(branch, "effect_asked")) == (JobState.DONE, 1)


def test_a_job_that_waits_for_its_next_try_can_be_cancelled(
    world: World, outside: FakeWorld, later: Any
) -> None:
    branch = fork(world, failed_run(world))
    job = asking(branch, world)
    run_job(uid=job.uid)
    cancel_job(person=world.ada, job=job)
    later(timedelta(seconds=60))
    run_job(uid=job.uid)
    job.refresh_from_db()
    assert (job.state, recorded(branch, "effect_asked")) == (JobState.CANCELLED, 0)


@pytest.mark.parametrize(
    ("options", "running", "just_begun"), [({"at_once": 1}, 1, 0), ({"per_second": 2}, 0, 2)]
)
def test_of_one_place_only_so_many_are_asked_at_once_and_in_a_second(
    world: World, outside: FakeWorld, later: Any, settings: Any, options: Any, running: int, just_begun: int
) -> None:
    targets = json.loads(settings.BRANCHGATE_TARGETS.read_text())
    settings.BRANCHGATE_TARGETS.write_text(json.dumps({**targets, "tickets": options}))
    outside.answers["tickets"] = Answer.PRESENT
    branch = fork(world, failed_run(world))
    job = asking(branch, world)
    later(timedelta(), still=True)
    for number in range(running + just_begun):
        Job.objects.create(
            uid=ids.mint("job"),
            workspace=world.workspace,
            kind=JobKind.ASK_DESTINATION,
            run=branch,
            subject=f"other {number}",
            place="tickets",
            state=JobState.RUNNING if number < running else JobState.DONE,
            asked_by=world.ada.uid,
            made_at=now(),
            started_at=now(),
        )
    run_job(uid=job.uid)
    job.refresh_from_db()
    assert (job.state, recorded(branch, "effect_asked")) == (JobState.QUEUED, 0)
    assert job.tries == 0
    Job.objects.filter(subject__startswith="other").update(state=JobState.DONE)
    later(timedelta(seconds=2))
    run_job(uid=job.uid)
    job.refresh_from_db()
    assert (job.state, recorded(branch, "effect_asked")) == (JobState.DONE, 1)


def test_a_baseline_whose_worker_died_is_taken_by_the_next(world: World, outside: FakeWorld) -> None:
    run = begun(world)
    job = job_of(run, JobKind.TAKE_BASELINE, "outcome")
    long_ago = now() - timedelta(minutes=6)
    Job.objects.filter(pk=job.pk).update(
        state=JobState.RUNNING, made_at=long_ago, started_at=long_ago, moved_at=long_ago
    )
    sweep()
    job.refresh_from_db()
    assert (job.state, recorded(run, "baseline_taken")) == (JobState.DONE, 1)


def test_a_broker_that_is_gone_costs_a_moment_and_no_work(
    world: World, outside: FakeWorld, monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: Any
) -> None:
    def gone(*_arguments: object, **_named: object) -> None:
        raise OSError(MARKER)

    monkeypatch.setattr(current_app, "signature", gone)
    with django_capture_on_commit_callbacks(execute=True):
        run = begun(world)
    job = job_of(run, JobKind.TAKE_BASELINE, "outcome")
    assert job.state == JobState.QUEUED
    Job.objects.filter(pk=job.pk).update(made_at=now() - timedelta(seconds=3))
    sweep()
    job.refresh_from_db()
    assert (job.state, recorded(run, "baseline_taken")) == (JobState.DONE, 1)


def test_a_hint_to_a_closed_port_gives_up_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    from celery import Celery

    from branches.commands import ask_for_job as module

    app = Celery("nowhere", broker="redis://127.0.0.1:1/0", set_as_current=False)
    monkeypatch.setattr(module, "current_app", app)
    with ends():
        module.hint(ids.mint("job"))


def test_a_plug_in_that_fails_leaves_its_sort_and_none_of_its_words(
    world: World, outside: FakeWorld, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_arguments: object) -> None:
        raise RuntimeError(MARKER)

    monkeypatch.setattr(FakeProbe, "measure", fails)
    branch = fork(world, failed_run(world))
    job = job_of(branch, JobKind.PROBE_STATE, "browser")
    run_job(uid=job.uid)
    job.refresh_from_db()
    assert (job.state, job.problem) == (JobState.FAILED, "failed:RuntimeError")
    assert MARKER not in caplog.text


def test_a_sweep_asks_for_the_outcome_of_a_branch_that_stopped(
    world: World, outside: FakeWorld, later: Any
) -> None:
    branch = fork(world, failed_run(world))
    settle(world, branch, outside)
    approve(world, branch)
    start(world, branch)
    world.ingest(stopped(world, branch.uid), closed(world, branch.uid))
    Job.objects.filter(run=branch, kind=JobKind.CHECK_OUTCOME).delete()  # its worker and its row are gone
    later(timedelta(), still=True)
    sweep()
    sweep()
    assert Job.objects.filter(run=branch, kind=JobKind.CHECK_OUTCOME).count() == 1
