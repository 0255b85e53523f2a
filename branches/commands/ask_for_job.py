"""Asks for work as a row; the broker is only a hint, and a sweep finds what a lost message forgot."""

from datetime import timedelta
from typing import Final

from celery import current_app
from django.db import transaction

from branches.commands.append_receipt import lock_families
from branches.commands.refusal import Refused
from branches.evidence import ids
from branches.models import MAX_SUBJECT, Job, JobKind, JobState, Person, Role, Run, Workspace
from branches.queries.authority import roles_of
from branches.queries.clock import now

OPEN_STATES: Final = (JobState.QUEUED, JobState.RUNNING)


def ask_for_job(
    *, workspace: Workspace, kind: JobKind, run: Run | None, subject: str, asked_by: str, total: int = 1
) -> Job:
    """Return the job; one that is already open for the same thing is returned instead of a second."""
    with transaction.atomic():
        if run is not None:
            lock_families([run.family_id])
        existing = Job.objects.filter(
            workspace=workspace, kind=kind, run=run, subject=subject, state__in=OPEN_STATES
        ).first()
        if existing is not None:
            return existing
        job = Job.objects.create(
            uid=ids.mint("job"),
            workspace=workspace,
            kind=kind,
            run=run,
            subject=subject,
            asked_by=asked_by,
            total=total,
            made_at=now(),
        )
        transaction.on_commit(lambda: hint(job.uid))
    return job


# Work that a person may ask for on a run; checking a chain changes nothing, so anyone may.
FOR_EVERYBODY: Final = frozenset({JobKind.VERIFY_RECEIPTS})
FOR_ENGINEERS: Final = frozenset(
    {
        JobKind.PROBE_STATE,
        JobKind.ASK_DESTINATION,
        JobKind.AUDIT_ARRIVALS,
        JobKind.CHECK_OUTCOME,
        JobKind.IMPORT_THREAD,
    }
)


def ask_as_person(
    *, person: Person, workspace: Workspace, kind: str, run: Run | None, subject: str, total: int = 1
) -> Job:
    """Return the job a person asks for, where their role allows it."""
    roles = roles_of(person, workspace)
    if kind not in FOR_EVERYBODY | FOR_ENGINEERS:
        raise Refused(rule="no_such_job", field="kind")
    if kind in FOR_ENGINEERS and Role.ENGINEER not in roles:
        raise Refused(rule=f"role:{Role.ENGINEER}")
    if len(subject) > MAX_SUBJECT:
        raise Refused(rule="max_bytes", field="subject")
    return ask_for_job(
        workspace=workspace,
        kind=JobKind(kind),
        run=run,
        subject=subject,
        asked_by=person.uid,
        total=total,
    )


def hint(uid: str, pause: timedelta = timedelta(0)) -> None:
    """Tell a worker, for after a pause; where the broker is gone the sweep finds the row."""
    try:
        task = current_app.signature("branches.tasks.do_job", args=(uid,))
        task.apply_async(countdown=pause.total_seconds())
    except Exception:  # noqa: BLE001 - whatever a broker raises, the row stays and is swept
        return
