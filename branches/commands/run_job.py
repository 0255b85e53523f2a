"""Does one job, cancels one, and finds those that a lost message forgot."""

from datetime import timedelta
from functools import partial
from typing import Final

from django.db import DatabaseError, transaction
from django.db.models import Case, CharField, F, Q, QuerySet, Value, When, Window
from django.db.models.functions import Coalesce, Concat, RowNumber

from branches.commands.append_receipt import lock_names
from branches.commands.ask_destination import ask_destination
from branches.commands.ask_for_job import OPEN_STATES, hint
from branches.commands.audit_arrivals import audit_arrivals
from branches.commands.check_outcome import check_outcome, take_run_baseline
from branches.commands.import_thread import import_thread
from branches.commands.measure_state import measure_state
from branches.commands.plugin_words import BREAKS, PluginBroke, broke
from branches.commands.refusal import Refused, Unanswered
from branches.models import Job, JobKind, JobState, Person, Role
from branches.queries.authority import roles_of
from branches.queries.clock import now
from branches.queries.job_places import Place, place_of
from branches.queries.receipts import verify_run
from branches.queries.targets import TargetMissing
from branches.registry import PluginMissing

SILENCE_LIMIT: Final = timedelta(minutes=5)
MOST_TRIES: Final = 3
FIRST_PAUSE: Final = timedelta(seconds=2)
# No job is told to wait longer than this: one that seems to was told so by a clock that was put back.
LONGEST_PAUSE: Final = FIRST_PAUSE * 2**MOST_TRIES
TURN: Final = timedelta(seconds=0.5)
SECOND: Final = timedelta(seconds=1)
# How many a sweep hands out, and how many of them that wait for one place.
MOST_SWEPT: Final = 100
MOST_OF_A_PLACE: Final = 20


def cancel_job(*, person: Person, job: Job) -> None:
    """Cancel a job that has not ended; one that already runs stops at its next step."""
    if job.asked_by != person.uid and Role.ENGINEER not in roles_of(person, job.workspace):
        raise Refused(rule=f"role:{Role.ENGINEER}")
    Job.objects.filter(pk=job.pk, state__in=OPEN_STATES).update(state=JobState.CANCELLED, ended_at=now())


def run_job(*, uid: str) -> None:
    """Do a job once: it is claimed by an UPDATE that must change exactly one row.

    Of one place only so many are asked at once and in a second: a job beyond that waits its turn.
    """
    if not _claim(uid):
        return
    job = Job.objects.select_related("run__workspace", "workspace").get(uid=uid)
    try:
        problem = _problem_of(job)
    except Unanswered:
        _put_back(job)
        return
    state = JobState.FAILED if problem else JobState.DONE
    _ours(job).update(
        state=state, problem=problem[:64], done=job.total if not problem else job.done, ended_at=now()
    )


def _ours(job: Job) -> QuerySet[Job]:
    """Return the job's row for as long as it is this worker's: not cancelled, given up or begun again."""
    return Job.objects.filter(pk=job.pk, state=JobState.RUNNING, started_at=job.started_at)


def _is_due() -> Q:
    at = now()
    return Q(due_at__isnull=True) | Q(due_at__lte=at) | Q(due_at__gt=at + LONGEST_PAUSE)


def _claim(uid: str) -> bool:
    job = (
        Job.objects.filter(_is_due(), uid=uid, state=JobState.QUEUED)
        .select_related("run__workspace", "run__workflow", "run__root", "workspace")
        .first()
    )
    if job is None:
        return False
    waiting = Job.objects.filter(pk=job.pk, state=JobState.QUEUED)
    try:
        place = place_of(job)
    except DatabaseError:
        raise  # of the moment and not of the job: it stays queued
    except Exception:  # noqa: BLE001 - what a job names is as others wrote it, and one that has no place ends
        waiting.update(state=JobState.FAILED, problem="no_place", ended_at=now())
        return False
    name = "" if place is None else place.name
    with transaction.atomic():
        if place is not None:
            lock_names([f"place {job.workspace.uid} {name}"])
            if not _has_room(job, place):
                waiting.update(due_at=now() + TURN, place=name)
                transaction.on_commit(partial(hint, uid, TURN))
                return False
        at = now()
        claimed = waiting.update(state=JobState.RUNNING, started_at=at, moved_at=at, place=name)
    return claimed == 1


def _has_room(job: Job, place: Place) -> bool:
    others = Job.objects.filter(workspace=job.workspace, place=place.name)
    if others.filter(state=JobState.RUNNING).count() >= place.at_once:
        return False
    at = now()
    # What seems to begin later was begun before the clock was put back.
    just_begun = others.filter(started_at__gt=at - SECOND, started_at__lte=at)
    return just_begun.count() < place.per_second


def _put_back(job: Job) -> None:
    """Let a job that nobody answered ask again after a while, ever longer."""
    pause = FIRST_PAUSE * 2**job.tries
    _ours(job).update(
        state=JobState.QUEUED,
        tries=job.tries + 1,
        due_at=now() + pause,
        started_at=None,
        problem="no_answer_yet",
    )
    hint(job.uid, pause)


def _problem_of(job: Job) -> str:
    """Do the work and return what stopped it as a short code, or nothing."""
    try:
        _do(job)
    except Unanswered:
        raise
    except Refused as refused:
        return str(refused)
    except TargetMissing:
        return "target_missing"
    except PluginBroke as broken:
        return str(broken)
    except PluginMissing as missing:
        return f"plugin_missing:{missing.port}"
    except BREAKS as error:
        return broke(error)
    return ""


def _do(job: Job) -> None:
    if job.kind == JobKind.IMPORT_THREAD:
        import_thread(job=job)
        return
    assert job.run is not None  # noqa: S101 - every other kind is about a run
    is_last, is_wanted = job.tries >= MOST_TRIES - 1, _ours(job).exists
    match job.kind:
        case JobKind.PROBE_STATE:
            measure_state(branch=job.run, key=job.subject, is_last_try=is_last, is_wanted=is_wanted)
        case JobKind.ASK_DESTINATION:
            ask_destination(
                branch=job.run,
                operation_key=job.subject,
                is_last_try=is_last,
                is_wanted=is_wanted,
            )
        case JobKind.AUDIT_ARRIVALS:
            audit_arrivals(branch=job.run, destination=job.subject, is_wanted=is_wanted)
        case JobKind.CHECK_OUTCOME:
            check_outcome(run=job.run, is_wanted=is_wanted)
        case JobKind.TAKE_BASELINE:
            take_run_baseline(run=job.run, is_wanted=is_wanted)
        case JobKind.VERIFY_RECEIPTS:
            verdict = verify_run(job.run)
            if not verdict.ok:
                raise Refused(rule=f"broken_at:{verdict.broken_seq}")


def sweep_jobs() -> list[str]:
    """Return the jobs a worker should do now, and give up those whose worker is gone.

    First the one that has waited longest for each place, then the second of each: none hides another's.
    """
    at = now()
    # A worker that moved in the future did so before the clock was put back.
    lost = Q(moved_at__lt=at - SILENCE_LIMIT) | Q(moved_at__gt=at + SILENCE_LIMIT)
    silent = Job.objects.filter(lost, state=JobState.RUNNING)
    # Nobody would ask for a baseline again, and without one nothing that the run makes can be verified.
    silent.filter(kind=JobKind.TAKE_BASELINE, tries__lt=MOST_TRIES - 1).update(
        state=JobState.QUEUED, tries=F("tries") + 1, started_at=None
    )
    silent.update(state=JobState.FAILED, problem="worker_lost", ended_at=at)
    forgotten = Q(made_at__lt=at - timedelta(seconds=2)) | Q(made_at__gt=at + timedelta(seconds=2))
    waiting = Job.objects.filter(_is_due(), forgotten, state=JobState.QUEUED)
    since = Coalesce("due_at", "made_at")
    ranked = waiting.annotate(
        since=since,
        rank=Window(RowNumber(), partition_by=_place_to_wait_for(), order_by=[since.asc(), F("id").asc()]),
    ).filter(Q(rank__lte=MOST_OF_A_PLACE) | Q(place=""))
    return list(ranked.order_by("rank", "since").values_list("uid", flat=True)[:MOST_SWEPT])


def _place_to_wait_for() -> list[F | Case]:
    """Return what tells the places of jobs apart: one never tried has none yet and goes by its subject."""
    is_new = Q(place="")
    subject = Case(
        When(is_new & Q(kind=JobKind.ASK_DESTINATION), then=F("kind")),
        When(is_new, then=Concat("kind", Value(" "), "subject")),
        default=Value(""),
        output_field=CharField(),
    )
    return [F("workspace"), F("place"), Case(When(is_new, then=F("run"))), subject]
