"""Receipts as evidence: the chains of a workspace, one window of a chain, and whether it was checked."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.db.models import Max

from branches.models import Job, JobKind, JobState, Receipt, Run, Workspace
from branches.queries.chains import Link, head, link
from branches.queries.words import Badge, Shape

WINDOW: Final = 60
PAGE: Final = 30
CHAIN: Final = "chain"

INTACT: Final = Badge("pass", "pass", "Chain intact", Shape.OUTLINE)
BROKEN: Final = Badge("blocked", "blocked", "Chain broken", Shape.OUTLINE)
CHECKING: Final = Badge("working", "working", "Checking", Shape.OUTLINE)
NOT_CHECKED: Final = Badge("none", "none", "Not checked", Shape.DASH)
STALE: Final = Badge("stale", "stale", "Intact when checked", Shape.DASH)
UNFINISHED: Final = Badge("uncertain", "uncertain", "Check did not finish", Shape.DASH)


@dataclass(frozen=True, slots=True)
class ChainStatus:
    """What the newest check of a chain said; `broken_seq` is where a link was expected and none fitted."""

    badge: Badge
    at: datetime | None
    broken_seq: int | None
    busy: bool
    job: str | None


@dataclass(frozen=True, slots=True)
class ChainRow:
    """One run's chain in the list: its length and head."""

    run: Run
    receipts: int
    head: str | None
    status: ChainStatus


@dataclass(frozen=True, slots=True)
class ReceiptWindow:
    """Sixty receipts of a chain from a seq on."""

    rows: list[Link]
    first: int
    last: int
    total: int
    head: str | None

    @property
    def earlier(self) -> int | None:
        return max(1, self.first - WINDOW) if self.first > 1 else None

    @property
    def later(self) -> int | None:
        return self.last + 1 if 0 < self.last < self.total else None


def receipt_window(run: Run, at: int) -> ReceiptWindow:
    """Return one window of a run's chain; two queries, whatever its length."""
    total, digest = head(run.pk)
    first = max(1, min(at, max(1, total - WINDOW + 1)))
    rows = Receipt.objects.filter(run=run, seq__gte=first, seq__lt=first + WINDOW).order_by("seq")
    found = [link(row) for row in rows]
    return ReceiptWindow(found, first, found[-1].seq if found else 0, total, digest)


def chain_status(run: Run) -> ChainStatus:
    """Return what the newest check of a run's chain said, and whether receipts came after it."""
    newest = Receipt.objects.filter(run=run).order_by("-seq").first()
    return _status(_newest_jobs([run.pk]).get(run.pk), link(newest) if newest else None)


def chain_list(workspace: Workspace, *, before: str | None) -> tuple[list[ChainRow], str | None]:
    """Return thirty chains, newest first, and the run after which the next page starts."""
    rows = Run.objects.filter(workspace=workspace).select_related("workflow", "root")
    if before is not None:
        rows = rows.filter(pk__lt=Run.objects.filter(uid=before, workspace=workspace).values("pk"))
    runs = list(rows.order_by("-id")[: PAGE + 1])
    older = runs[PAGE - 1].uid if len(runs) > PAGE else None
    ids = [run.pk for run in runs[:PAGE]]
    heads, jobs = _heads(ids), _newest_jobs(ids)
    return [_chain_row(run, heads.get(run.pk), jobs.get(run.pk)) for run in runs[:PAGE]], older


def _heads(run_ids: list[int]) -> dict[int, Link]:
    newest = Receipt.objects.filter(run_id__in=run_ids).order_by().values("run_id").annotate(newest=Max("id"))
    return {row.run_id: link(row) for row in Receipt.objects.filter(pk__in=newest.values("newest"))}


def _newest_jobs(run_ids: Iterable[int]) -> dict[int, Job]:
    rows = Job.objects.filter(run_id__in=list(run_ids), kind=JobKind.VERIFY_RECEIPTS)
    newest = rows.order_by().values("run_id").annotate(newest=Max("id")).values("newest")
    return {job.run_id: job for job in Job.objects.filter(pk__in=newest) if job.run_id is not None}


def _chain_row(run: Run, newest: Link | None, job: Job | None) -> ChainRow:
    return ChainRow(
        run=run,
        receipts=newest.seq if newest else 0,
        head=newest.digest if newest else None,
        status=_status(job, newest),
    )


def _status(job: Job | None, newest: Link | None) -> ChainStatus:
    if job is None or job.state == JobState.CANCELLED:
        return ChainStatus(NOT_CHECKED, None, None, busy=False, job=None)
    if job.state in (JobState.QUEUED, JobState.RUNNING):
        return ChainStatus(CHECKING, job.made_at, None, busy=True, job=job.uid)
    if job.state == JobState.DONE:
        started = job.started_at or job.made_at
        grown = newest is not None and newest.recorded_at > started
        return ChainStatus(STALE if grown else INTACT, job.ended_at, None, busy=False, job=job.uid)
    rule, _, seq = job.problem.partition(":")
    if rule == "broken_at" and seq.isdigit():
        return ChainStatus(BROKEN, job.ended_at, int(seq), busy=False, job=job.uid)
    return ChainStatus(UNFINISHED, job.ended_at, None, busy=False, job=job.uid)
