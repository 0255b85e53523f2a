"""The run list: root runs, newest first, with stop and outcome apart."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from branches.models import Receipt, Redemption, Run, Workspace
from branches.queries.chains import Link, links
from branches.queries.loops import went_on
from branches.queries.open_requests import undecided_requests, unrevoked
from branches.queries.run_stop import is_imported, run_outcome_badge, stop_badge, unstopped_badge
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
    source: str
    """What it is by its runtime, where it was imported or no workflow names it; else empty."""
    is_imported: bool

    @property
    def needs_work(self) -> bool:
        """Whether it went wrong and nobody closed the incident."""
        return not self.concluded and (
            self.outcome.hue in {"false", "uncertain"} or self.stop.hue == "failed"
        )


# A runtime's name, and what an import of it was made of.
_SOURCES: Final = {
    "langgraph": ("LangGraph", "thread"),
    "otlp": ("OpenTelemetry", "trace"),
    "mcp": ("MCP", "tool list"),
    "autogen": ("AutoGen", "team"),
    "agdebugger": ("AGDebugger", "session"),
    "openai-agents": ("OpenAI Agents SDK", "run"),
    "ai-sdk": ("AI SDK", "loop"),
}


def source_words(started: Link | None, *, imported: bool) -> str:
    """Return what a run is by the runtime that its start names: what was imported of it, or a run of it."""
    known = None if started is None else _SOURCES.get(started.body["runtime"]["name"])
    if known is None:
        return "Import from an unknown runtime" if imported else "Run of an unknown runtime"
    runtime, part = known
    return f"{runtime} {part if imported else 'run'}"


@dataclass(frozen=True, slots=True)
class RunList:
    """A page of rows, how many match each filter, and where the next page starts."""

    rows: list[RunRow]
    counts: dict[str, int]
    older: str | None


def run_list(workspace: Workspace, *, chosen: str, before: str | None, find: str) -> RunList:
    """Return the rows of one filter; the number of queries is the same for any number of runs."""
    roots = Run.objects.filter(workspace=workspace, root__isnull=True).select_related("workflow", "recorder")
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


@dataclass(frozen=True, slots=True)
class _Said:
    """What the receipts of the listed runs say, read at once."""

    newest: dict[tuple[int, str], Link]
    routed: dict[tuple[int, str | None], Link]
    started: dict[int, Link]
    went_on: frozenset[int]

    @classmethod
    def of(cls, roots: list[Run]) -> "_Said":
        newest: dict[tuple[int, str], Link] = {}
        routed: dict[tuple[int, str | None], Link] = {}
        kinds = ("stopped", "outcome_checked", "concluded", "approval_routed")
        for item in links([run.pk for run in roots], kinds):
            newest[item.run_id, item.kind] = item
            if item.kind == "approval_routed":
                routed[item.run_id, item.subject] = item
        # A start holds a whole configuration: it is read only where a row needs what it says.
        asked = [run.pk for run in roots if run.workflow is None or (run.pk, "stopped") not in newest]
        asked += [run.pk for run in roots if is_imported(run, None)]
        started = {item.run_id: item for item in links(asked, ("run_started",))}
        stops = [item for (_, kind), item in newest.items() if kind == "stopped"]
        return cls(newest, routed, started, went_on(stops))

    def is_concluded(self, run: Run) -> bool:
        """Whether a reviewer closed the incident with their newest conclusion."""
        concluded = self.newest.get((run.pk, "concluded"))
        return concluded is not None and bool(concluded.body["closes"])

    def stop(self, run: Run) -> Badge:
        stopped = self.newest.get((run.pk, "stopped"))
        routed = None if stopped is None else self.routed.get((run.pk, stopped.event_id))
        checked = self.newest.get((run.pk, "outcome_checked"))
        if stopped is None or run.pk in self.went_on:
            return unstopped_badge(run, self.started.get(run.pk))
        return stop_badge(stopped, checked, routed)

    def outcome(self, run: Run) -> Badge:
        return run_outcome_badge(
            self.newest.get((run.pk, "stopped")), self.newest.get((run.pk, "outcome_checked"))
        )

    def is_imported(self, run: Run) -> bool:
        return is_imported(run, self.started.get(run.pk))

    def source(self, run: Run) -> str:
        imported = self.is_imported(run)
        if run.workflow is not None and not imported:
            return ""
        return source_words(self.started.get(run.pk), imported=imported)


def _rows(roots: list[Run]) -> list[RunRow]:
    ids = [run.pk for run in roots]
    said = _Said.of(roots)
    branches = Counter(Run.objects.filter(root_id__in=ids).values_list("root_id", flat=True))
    requests = _per_root(
        unrevoked(undecided_requests())
        .filter(branch__root_id__in=ids)
        .values_list("branch__root_id", flat=True)
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
            stop=said.stop(run),
            outcome=said.outcome(run),
            branches=branches[run.pk],
            open_requests=requests[run.pk],
            resumed=resumed[run.pk],
            effects=effects[run.pk],
            concluded=said.is_concluded(run),
            at=run.made_at,
            source=said.source(run),
            is_imported=said.is_imported(run),
        )
        for run in roots
    ]


def _per_root(found: Iterable[int | None]) -> Counter[int]:
    return Counter(root for root in found if root is not None)
