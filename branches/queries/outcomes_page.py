"""Claims beside what destinations say, false success first."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.db.models import Max

from branches.models import Receipt, Redemption, Run, Workspace
from branches.queries.branch_list import branch_rows
from branches.queries.chains import Link, link
from branches.queries.compare import CLAIM
from branches.queries.run_stop import run_outcome_badge
from branches.queries.words import Badge

# So many of the newest runs, and of the newest resumed branches, are looked at; twenty branches are judged.
LOOKED_AT: Final = 300
JUDGED: Final = 20
SHOWN: Final = 100
_RANK: Final = ("false", "uncertain", "claimed", "bounded", "none", "verified")
FILTERS: Final = ("all", *_RANK)


@dataclass(frozen=True, slots=True)
class OutcomeRow:
    """One run or resumed branch: what it claimed, and what its destination said and when."""

    run: Run
    root: Run
    claim: Badge | None
    ended: bool
    claimed_at: datetime | None
    outcome: Badge
    says: str
    asked_at: datetime | None
    version: str | None

    @property
    def rank(self) -> int:
        return _RANK.index(self.outcome.hue) if self.outcome.hue in _RANK else len(_RANK)

    @property
    def is_worst(self) -> bool:
        return self.outcome.hue == "false"


@dataclass(frozen=True, slots=True)
class OutcomesPage:
    """The rows of one filter, and how many there are of each."""

    rows: list[OutcomeRow]
    counts: dict[str, int]


def outcomes_page(workspace: Workspace, *, chosen: str) -> OutcomesPage:
    """Return the worst first; the number of queries does not grow with the runs."""
    roots = list(
        Run.objects.filter(workspace=workspace, root__isnull=True)
        .select_related("workflow")
        .order_by("-id")[:LOOKED_AT]
    )
    resumed = Redemption.objects.filter(branch__workspace=workspace).select_related("branch__root__workflow")
    branches = [row.branch for row in resumed.order_by("-id")[:LOOKED_AT]]
    newest = newest_links([run.pk for run in (*roots, *branches)])
    judged = _judged(branches, newest)
    rows = [_row(run, newest, _provisional(run, newest)) for run in roots]
    rows += [_row(branch, newest, badge) for branch, badge in judged]
    rows.sort(key=lambda row: (row.rank, -row.run.pk))
    counts = {name: sum(1 for row in rows if name in {"all", row.outcome.hue}) for name in FILTERS}
    return OutcomesPage([row for row in rows if chosen in {"all", row.outcome.hue}][:SHOWN], counts)


def newest_links(run_ids: list[int]) -> dict[tuple[int, str], Link]:
    """Return the newest stop and the newest outcome check of each run, in one query."""
    found = Receipt.objects.filter(run_id__in=run_ids, kind__in=("stopped", "outcome_checked"))
    newest = found.order_by().values("run_id", "kind").annotate(newest=Max("id")).values("newest")
    return {(row.run_id, row.kind): link(row) for row in Receipt.objects.filter(pk__in=newest)}


def _judged(branches: list[Run], newest: dict[tuple[int, str], Link]) -> list[tuple[Run, Badge]]:
    """Let the gates judge the branches that look worst; what a branch came to is never guessed."""
    by_badge = sorted(branches, key=lambda run: (_RANK.index(_provisional(run, newest).hue), -run.pk))
    return [(row.branch, row.outcome) for row in branch_rows(by_badge[:JUDGED])]


def _provisional(run: Run, newest: dict[tuple[int, str], Link]) -> Badge:
    return run_outcome_badge(newest.get((run.pk, "stopped")), newest.get((run.pk, "outcome_checked")))


def _row(run: Run, newest: dict[tuple[int, str], Link], outcome: Badge) -> OutcomeRow:
    stopped, checked = newest.get((run.pk, "stopped")), newest.get((run.pk, "outcome_checked"))
    version = checked.body["destination_version"] if checked else None
    return OutcomeRow(
        run=run,
        root=run.root if run.root is not None else run,
        claim=CLAIM if stopped is not None and stopped.body["loop"] == "claimed" else None,
        ended=stopped is not None,
        claimed_at=stopped.recorded_at if stopped else None,
        outcome=outcome,
        says=_says(checked),
        asked_at=checked.recorded_at if checked else None,
        version=None if version is None else str(version),
    )


def _says(checked: Link | None) -> str:
    if checked is None:
        return "not asked"
    match checked.body["check"]:
        case "passed" if checked.body["fresh"]:
            return "holds it, and it is newer than what stood there before"
        case "passed":
            return "holds only what stood there before"
        case "failed":
            return "does not hold it"
        case "unreachable":
            return "did not answer"
    return "said nothing"
