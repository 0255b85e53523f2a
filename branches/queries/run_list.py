"""The run list: root runs, newest first, with stop and outcome apart."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from branches.models import ApprovalRequest, Receipt, Redemption, Run, Workspace
from branches.queries.chains import Link, links
from branches.queries.run_stop import run_outcome_badge, stop_badge
from branches.queries.words import Badge

PAGE: Final = 50
FILTERS: Final = ("needs-me", "failed", "false-success", "uncertain", "all")
# A filter looks at this many of the newest runs; older ones are found through search and the API.
LOOKED_AT: Final = 500


@dataclass(frozen=True, slots=True)
class RunRow:
    """One root run as the list shows it."""

    run: Run
    stop: Badge
    outcome: Badge
    branches: int
    open_requests: int
    resumed: int
    effects: int
    concluded: bool
    at: datetime

    @property
    def needs_work(self) -> bool:
        """Whether it went wrong and nobody closed the incident."""
        return not self.concluded and (
            self.outcome.hue in {"false", "uncertain"} or self.stop.hue == "failed"
        )


@dataclass(frozen=True, slots=True)
class RunList:
    """A page of rows, how many match each filter, and where the next page starts."""

    rows: list[RunRow]
    counts: dict[str, int]
    older: str | None


def run_list(workspace: Workspace, *, chosen: str, before: str | None, find: str) -> RunList:
    """Return the rows of one filter; the number of queries is the same for any number of runs."""
    roots = Run.objects.filter(workspace=workspace, root__isnull=True).select_related("workflow")
    if find:
        roots = roots.filter(uid__startswith=find) | roots.filter(workflow__name__startswith=find)
    looked_at = list(roots.order_by("-id")[:LOOKED_AT])
    rows = _rows(looked_at)
    matching = {name: [row for row in rows if _matches(name, row)] for name in FILTERS}
    shown = matching[chosen]
    if before is not None:
        position = next((i for i, row in enumerate(shown) if row.run.uid == before), len(shown))
        shown = shown[position + 1 :]
    older = shown[PAGE - 1].run.uid if len(shown) > PAGE else None
    return RunList(shown[:PAGE], {name: len(found) for name, found in matching.items()}, older)


def _matches(name: str, row: RunRow) -> bool:
    match name:
        case "needs-me":
            return row.needs_work or row.open_requests > 0
        case "failed":
            return row.stop.hue == "failed"
        case "false-success":
            return row.outcome.hue == "false"
        case "uncertain":
            return "uncertain" in {row.stop.hue, row.outcome.hue}
    return True


def _rows(roots: list[Run]) -> list[RunRow]:
    ids = [run.pk for run in roots]
    newest: dict[tuple[int, str], Link] = {}
    routed: dict[tuple[int, str | None], Link] = {}
    for item in links(ids, ("stopped", "outcome_checked", "concluded", "approval_routed")):
        newest[item.run_id, item.kind] = item
        if item.kind == "approval_routed":
            routed[item.run_id, item.subject] = item

    def route_of(run: Run) -> Link | None:
        stopped = newest.get((run.pk, "stopped"))
        return None if stopped is None else routed.get((run.pk, stopped.event_id))

    branches = Counter(Run.objects.filter(root_id__in=ids).values_list("root_id", flat=True))
    requests = _per_root(
        ApprovalRequest.objects.filter(
            branch__root_id__in=ids, end__isnull=True, decisions__isnull=True, branch__redemption__isnull=True
        ).values_list("branch__root_id", flat=True)
    )
    resumed = _per_root(
        Redemption.objects.filter(branch__root_id__in=ids).values_list("branch__root_id", flat=True)
    )
    effects = _per_root(
        Receipt.objects.filter(run_id__in=ids, kind="effect_intended")
        .exclude(body__contains='"effect_class":"read"')
        .values_list("run_id", flat=True)
    )
    return [
        RunRow(
            run=run,
            stop=stop_badge(
                newest.get((run.pk, "stopped")),
                newest.get((run.pk, "outcome_checked")),
                route_of(run),
            ),
            outcome=run_outcome_badge(
                newest.get((run.pk, "stopped")), newest.get((run.pk, "outcome_checked"))
            ),
            branches=branches[run.pk],
            open_requests=requests[run.pk],
            resumed=resumed[run.pk],
            effects=effects[run.pk],
            concluded=(run.pk, "concluded") in newest,
            at=run.made_at,
        )
        for run in roots
    ]


def _per_root(found: Iterable[int | None]) -> Counter[int]:
    return Counter(root for root in found if root is not None)
