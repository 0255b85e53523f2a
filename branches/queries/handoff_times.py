"""How long handoffs of a workflow really took, and the limits that follow from it."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.db.models import F, Q

from branches.models import Receipt, Run
from branches.queries.chains import Link, link
from branches.queries.declarations import declaration_of
from branches.queries.writers import counted_writers, token_names, writers_by
from branches.rules.handoff_facts import HandoffLimits

LOOKED_AT: Final = 4_000
FEWEST: Final = 20
"""With fewer times than this nothing is suggested."""
MARGIN: Final = 2
"""A suggested limit is this many times the 95th percentile: work that is merely slow is no orphan."""


@dataclass(frozen=True, slots=True)
class LimitRow:
    """One limit in seconds: what counts, how long the 95th of a hundred took, and what that suggests."""

    name: str
    limit_s: int
    declared: bool
    times: int
    p95_s: int | None
    suggested_s: int | None


def limit_rows(run: Run) -> tuple[LimitRow, ...]:
    """Return acceptance and progress limits beside the times of the workflow's newest handoffs."""
    declaration = declaration_of(run)
    own = dict(declaration.handoffs.limits) if declaration else {}
    usual = HandoffLimits()
    accepted, progressed = observed(_newest(run))
    return (
        _row("acceptance_s", own, usual.acceptance_s, accepted),
        _row("progress_s", own, usual.progress_s, progressed),
    )


def observed(events: Iterable[Link]) -> tuple[list[float], list[float]]:
    """Return in seconds how long acceptances took, and the pauses between signs of progress after one."""
    accepted: list[float] = []
    progressed: list[float] = []
    last: dict[tuple[int, str], tuple[str, datetime]] = {}
    for item in events:
        key, event = (item.run_id, item.body["handoff"]), item.body["event"]
        before = last.get(key)
        at = _at(item)
        if before is not None and at >= before[1]:
            took = (at - before[1]).total_seconds()
            if before[0] == "delegated" and event == "accepted":
                accepted.append(took)
            elif before[0] in {"accepted", "progress"} and event in {"progress", "completed", "waiting"}:
                progressed.append(took)
        last[key] = (event, at)
    return accepted, progressed


def p95(times: Sequence[float]) -> float:
    """Return the nearest-rank 95th percentile of one time or more."""
    return sorted(times)[math.ceil(0.95 * len(times)) - 1]


def _row(name: str, own: dict[str, int], usual: int, times: list[float]) -> LimitRow:
    found = math.ceil(p95(times)) if times else None
    enough = found is not None and len(times) >= FEWEST
    suggested = max(1, MARGIN * found) if enough and found is not None else None
    return LimitRow(name, own.get(name, usual), name in own, len(times), found, suggested)


def _newest(run: Run) -> list[Link]:
    """Return the newest handoff receipts of the workflow's runs in every version, each run's in order."""
    runs = Run.objects.filter(workspace=run.workspace)
    runs = runs.filter(workflow__name=run.workflow.name) if run.workflow else runs.filter(pk=run.pk)
    ids = list(runs.order_by("-id").values_list("id", flat=True)[:200])
    by_run: dict[int, list[Link]] = defaultdict(list)
    told = Receipt.objects.filter(run_id__in=ids, kind="handoff")
    told = told.filter(Q(writer=F("run__recorder__uid")) | Q(writer__in=counted_writers(run)))
    for row in told.order_by("-id")[:LOOKED_AT]:
        by_run[row.run_id].append(link(row))
    tokens = token_names({item.writer for found in by_run.values() for item in found})
    counts = {
        each.pk: writers_by(each, tokens)
        for each in Run.objects.filter(pk__in=by_run).select_related("workflow", "recorder")
    }
    return [
        item
        for pk, found in by_run.items()
        for item in sorted(found, key=lambda each: (_at(each), each.id))
        if counts[pk].trusts(item)
    ]


def _at(item: Link) -> datetime:
    """When something happened; a clock that runs ahead is not believed beyond when the server heard of it."""
    return min(item.at, item.recorded_at)
