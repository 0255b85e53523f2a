"""What is connected to a workspace, step by step, and what is missing next."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from branches.models import ApiToken, Person, Presence, Recorder, Run, Workflow, Workspace
from branches.queries.clock import now
from branches.queries.declarations import Declaration, read_workflow
from branches.queries.lookups import ONLINE_FOR
from branches.queries.standings import roster_of
from branches.queries.targets import registered
from branches.rules.quorum import DESTINATION_OWNER

MOST: Final = 50


@dataclass(frozen=True, slots=True)
class WorkflowRow:
    """The newest version of a workflow, and whether a run of it was ever recorded."""

    name: str
    version: str
    runtime: str
    at: datetime
    versions: int
    runs: int


@dataclass(frozen=True, slots=True)
class RecorderRow:
    """A token that may speak for a recorder, and when the recorder that took it was last heard."""

    token: str
    ends: datetime
    recorder: str | None
    runtime: str
    heard_at: datetime | None
    online: bool


@dataclass(frozen=True, slots=True)
class DestinationRow:
    """Where a workflow's tools write: is it registered, who owns it, and is it only a fixture."""

    name: str
    workflow: str
    target: str
    is_registered: bool
    is_fixture: bool
    owners: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """One step of connecting: whether it is done, and what is missing where it is not."""

    number: int
    name: str
    anchor: str
    is_done: bool
    missing: str


@dataclass(frozen=True, slots=True)
class ConnectPage:
    """The four steps with what stands behind each."""

    steps: tuple[Step, ...]
    workflows: tuple[WorkflowRow, ...]
    recorders: tuple[RecorderRow, ...]
    destinations: tuple[DestinationRow, ...]
    first_run: Run | None

    @property
    def next(self) -> Step | None:
        return next((step for step in self.steps if not step.is_done), None)


def connect_page(workspace: Workspace) -> ConnectPage:
    """Return the page."""
    rows = list(Workflow.objects.filter(workspace=workspace).order_by("id"))
    newest = {row.name: row for row in rows}
    workflows = tuple(_workflow(row, rows) for row in newest.values())
    recorders = tuple(_recorders(workspace))
    destinations = tuple(
        each for row in newest.values() for each in _destinations(workspace, read_workflow(row))
    )
    recorded = Run.objects.filter(workspace=workspace, parent__isnull=True, workflow__isnull=False)
    first = recorded.filter(recorder__isnull=False).order_by("id").first()
    steps = (
        Step(1, "Workflow", "workflow", bool(workflows), "No workflow is declared yet."),
        Step(2, "Recorder", "recorder", _has_recorder(recorders), _recorder_words(recorders)),
        Step(3, "Destinations", "destinations", _is_settled(destinations), _missing(destinations)),
        Step(4, "First run", "run", first is not None, "No recorder has sent a run of a workflow yet."),
    )
    return ConnectPage(steps, workflows, recorders, destinations, first)


def _workflow(row: Workflow, rows: list[Workflow]) -> WorkflowRow:
    declared = read_workflow(row)
    versions = sum(1 for each in rows if each.name == row.name)
    runs = Run.objects.filter(workspace=row.workspace, workflow__name=row.name, parent__isnull=True).count()
    runtime = next(iter(declared.names["runtime"]), "")
    return WorkflowRow(row.name, row.version, runtime, row.published_at, versions, runs)


def _recorders(workspace: Workspace) -> list[RecorderRow]:
    at = now()
    tokens = ApiToken.objects.filter(workspace=workspace, end__isnull=True, expires_at__gt=at).order_by("-id")
    able = [token for token in tokens[:MOST] if "redeem" in token.scopes or "ingest" in token.scopes]
    paired = Recorder.objects.filter(token__in=able).order_by("id")
    of_token: Mapping[int, Recorder] = {recorder.token_id: recorder for recorder in paired}
    heard = dict(Presence.objects.filter(recorder__in=paired).values_list("recorder_id", "heard_at"))
    return [_row(token, of_token.get(token.pk), heard, at) for token in able]


def _row(
    token: ApiToken, recorder: Recorder | None, heard: Mapping[int, datetime], at: datetime
) -> RecorderRow:
    heard_at = heard.get(recorder.pk) if recorder is not None else None
    return RecorderRow(
        token=token.name,
        ends=token.expires_at,
        recorder=recorder.name if recorder is not None else None,
        runtime=recorder.runtime if recorder is not None else "",
        heard_at=heard_at,
        online=heard_at is not None and at - heard_at < ONLINE_FOR,
    )


def _has_recorder(rows: tuple[RecorderRow, ...]) -> bool:
    return any(row.heard_at is not None for row in rows)


def _recorder_words(rows: tuple[RecorderRow, ...]) -> str:
    if not rows:
        return "No recorder has a token yet."
    return "A token waits for its recorder: it was not heard from yet."


def _destinations(workspace: Workspace, declared: Declaration) -> list[DestinationRow]:
    targets, roster = registered(), roster_of(workspace)
    names = dict(Person.objects.filter(uid__in=roster).values_list("uid", "username"))
    found = []
    for rule in declared.destinations.values():
        owners = [
            names.get(uid, uid)
            for uid, voter in sorted(roster.items())
            if any(each.role == DESTINATION_OWNER and each.scope == rule.name for each in voter.standings)
        ]
        found.append(
            DestinationRow(
                rule.name, declared.name, rule.target, rule.target in targets, rule.fixture, tuple(owners)
            )
        )
    return found


def _is_settled(rows: tuple[DestinationRow, ...]) -> bool:
    return bool(rows) and all(row.is_registered and (row.is_fixture or row.owners) for row in rows)


def _missing(rows: tuple[DestinationRow, ...]) -> str:
    if not rows:
        return "No workflow names a destination yet."
    strange = [row.target for row in rows if not row.is_registered]
    if strange:
        return f"The operator’s targets file does not name {', '.join(sorted(set(strange)))}."
    unowned = sorted({row.name for row in rows if not row.owners and not row.is_fixture})
    return f"Nobody owns {', '.join(unowned)}: a branch that writes there cannot be approved by its owner."
