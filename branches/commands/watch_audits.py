"""Looks at audits again without new receipts, for the clock moves states too; keeps since when they hold."""

import time
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any, Final

from branches.models import AuditState, AuditWatch, Run
from branches.queries.audits import audits_now
from branches.queries.clock import now
from branches.queries.handoff_audits import MOST_SHOWN
from branches.rules.verdicts import HandoffState, TopologyState

WATCHED_KINDS: Final = frozenset(
    {"handoff", "interaction", "progress", "stopped", "outcome", "outcome_checked"}
)
MOST_AT_ONCE: Final = 20
SOON: Final = timedelta(seconds=1)
LATER: Final = timedelta(seconds=30)
# What neither a clock nor silence changes; a new receipt sets the watch anew.
_SETTLED: Final = frozenset(
    {
        HandoffState.VERIFIED,
        HandoffState.FALSE_SUCCESS,
        HandoffState.FAILED_OUTCOME,
        HandoffState.ORPHANED,
        HandoffState.STUCK,
        HandoffState.UNCERTAIN,
    }
)
_SETTLED_TOPOLOGY: Final = frozenset(set(TopologyState) - {TopologyState.WORKING, TopologyState.WAITING})


def watch_audits(*, run: Run, receipts: Iterable[Mapping[str, Any]]) -> None:
    """Have a run's audits looked at soon, where a batch moved them; the caller holds the family's lock."""
    if any(receipt["kind"] in WATCHED_KINDS for receipt in receipts):
        AuditWatch.objects.update_or_create(run=run, defaults={"due_at": now() + SOON})


def reevaluate_audits() -> int:
    """Judge the runs whose audits are due, and note what moved; returns how many were looked at."""
    due = AuditWatch.objects.filter(due_at__lte=now()).select_related("run__workflow", "run__recorder")
    found = list(due.order_by("due_at")[:MOST_AT_ONCE])
    for watch in found:
        began = time.monotonic()
        try:
            moves_on = _note(watch.run)
        except Exception:  # noqa: BLE001 - one run that cannot be judged does not stop the clock of the others
            moves_on = True
        # A long run takes no more than a twentieth of a worker's time.
        pause = max(LATER, timedelta(seconds=20 * (time.monotonic() - began)))
        same = AuditWatch.objects.filter(pk=watch.pk, due_at=watch.due_at)  # else something came meanwhile
        if moves_on:
            same.update(due_at=now() + pause)
        else:
            same.delete()
    return len(found)


def _note(run: Run) -> bool:
    """Write down where each subject stands; returns whether time alone may move one."""
    at = now()
    audits = audits_now(run, at, most=MOST_SHOWN)
    states = {each.operation: str(each.verdict.state) for each in audits.handoffs}
    known = {row.operation: row for row in AuditState.objects.filter(run=run, operation__in=list(states))}
    for operation, state in states.items():
        row = known.get(operation)
        if row is None:
            AuditState.objects.get_or_create(
                run=run, operation=operation, defaults={"state": state, "since": at}
            )
        elif row.state != state:
            AuditState.objects.filter(pk=row.pk, state=row.state).update(state=state, since=at)
    moving = any(each.verdict.state not in _SETTLED for each in audits.handoffs)
    return moving or (
        audits.topology is not None and audits.topology.verdict.verdict not in _SETTLED_TOPOLOGY
    )
