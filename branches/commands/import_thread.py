"""Imports a thread from a runtime's own store as a run whose ledger is unknown; safe to ask again."""

import json
from itertools import batched
from pathlib import Path

from branches.commands.import_source import importer_of
from branches.commands.ingest_receipts import ingest_receipts
from branches.commands.refusal import Refused
from branches.models import Job, JobState
from branches.queries.clock import now
from branches.queries.import_page import imported_run
from branches.queries.secrets import workspace_key
from branches.queries.targets import target
from branches.registry import find

_BATCH = 500


def import_thread(*, job: Job) -> None:
    """Ingest the thread named by the job's subject: `target|external_ref`, both content-free."""
    place_name, _, external_ref = job.subject.partition("|")
    place = target(job.workspace, place_name)
    adapter = find("runtimes", place.text("runtime"))
    key = workspace_key(job.workspace)
    run = imported_run(job.workspace, external_ref)
    receipts = adapter.receipts(Path(place.text("store")), external_ref, key, run)
    recorder = importer_of(job.workspace)
    done = 0
    for batch in batched(receipts, _BATCH):
        if Job.objects.filter(pk=job.pk, state=JobState.CANCELLED).exists():
            return
        report = ingest_receipts(recorder=recorder, lines=[json.dumps(sent).encode() for sent in batch])
        if report.refused:
            first = report.refused[0]
            raise Refused(rule=first.rule, field=first.field)
        done += len(batch)
        Job.objects.filter(pk=job.pk).update(done=done, total=max(done, job.total), moved_at=now())
