"""What is connected to a workspace, step by step, and what is missing next."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from branches.models import ApiToken, Person, Presence, Recorder, Run, TokenUse, Workflow, Workspace
from branches.queries.clock import now
from branches.queries.declarations import Declaration, read_workflow
from branches.queries.lookups import ONLINE_FOR
from branches.queries.standings import roster_of
from branches.queries.targets import registered
from branches.rules.quorum import DESTINATION_OWNER

MOST: Final = 50
MEMORY_PROBE: Final = "langgraph_memory"
IMPORTER: Final = "import"
"""The runtime of the product's own recorder, which writes what is imported or comes in as traces."""


@dataclass(frozen=True, slots=True)
class WorkflowRow:
    """The newest version of a workflow, and whether a run of it was ever recorded."""

    name: str
    version: str
    runtime: str
    at: datetime
    versions: int
    runs: int
    memory: str
    """The target that holds the agents' memory of LangGraph; empty where no state key asks for it."""


@dataclass(frozen=True, slots=True)
class RecorderRow:
    """A token that may speak for a recorder, and when the recorder that took it was last heard.

    One that `only_sends` has no recorder that pairs: what was sent with it is all that is heard.
    """

    token: str
    ends: datetime
    recorder: str | None
    runtime: str
    heard_at: datetime | None
    online: bool
    only_sends: bool


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
    """The four steps with what stands behind each; `unnamed_run`: the newest of no workflow."""

    steps: tuple[Step, ...]
    workflows: tuple[WorkflowRow, ...]
    recorders: tuple[RecorderRow, ...]
    destinations: tuple[DestinationRow, ...]
    first_run: Run | None
    unnamed_run: Run | None

    @property
    def next(self) -> Step | None:
        return next((step for step in self.steps if not step.is_done), None)


def connect_page(workspace: Workspace) -> ConnectPage:
    """Return the page."""
    rows = list(Workflow.objects.filter(workspace=workspace).order_by("id"))
    newest = {row.name: row for row in rows}
    workflows = tuple(_workflow(row, rows) for row in newest.values())
    imported = _newest_import(workspace)
    recorders = tuple(_recorders(workspace, imported))
    destinations = tuple(
        each for row in newest.values() for each in _destinations(workspace, read_workflow(row))
    )
    recorded = Run.objects.filter(workspace=workspace, parent__isnull=True, recorder__isnull=False)
    first = recorded.filter(workflow__isnull=False).order_by("id").first()
    unnamed = recorded.filter(workflow__isnull=True).order_by("-id").first()
    steps = (
        Step(1, "Workflow", "workflow", bool(workflows), "No workflow is declared yet."),
        Step(2, "Recorder", "recorder", _has_recorder(recorders, imported), _recorder_words(recorders)),
        Step(
            3,
            "Destinations",
            "destinations",
            bool(workflows) and _is_settled(destinations),
            _missing(destinations),
        ),
        Step(4, "First run", "run", first is not None, _run_words(unnamed)),
    )
    return ConnectPage(steps, workflows, recorders, destinations, first, unnamed)


def _workflow(row: Workflow, rows: list[Workflow]) -> WorkflowRow:
    declared = read_workflow(row)
    versions = sum(1 for each in rows if each.name == row.name)
    runs = Run.objects.filter(workspace=row.workspace, workflow__name=row.name, parent__isnull=True).count()
    runtime = next(iter(declared.names["runtime"]), "")
    stores = (key.target for key in declared.state_keys.values() if key.probe == MEMORY_PROBE)
    memory = next(stores, "")
    return WorkflowRow(row.name, row.version, runtime, row.published_at, versions, runs, memory)


def _recorders(workspace: Workspace, imported: datetime | None) -> list[RecorderRow]:
    at = now()
    tokens = ApiToken.objects.filter(workspace=workspace, end__isnull=True, expires_at__gt=at).order_by("-id")
    able = [token for token in tokens[:MOST] if "redeem" in token.scopes or "ingest" in token.scopes]
    paired = Recorder.objects.filter(token__in=able).order_by("id")
    of_token: Mapping[int, Recorder] = {recorder.token_id: recorder for recorder in paired}
    polled = dict(Presence.objects.filter(recorder__in=paired).values_list("recorder_id", "heard_at"))
    used = dict(TokenUse.objects.filter(token__in=able).values_list("token_id", "used_at"))
    rows = []
    for token in able:
        recorder, use = of_token.get(token.pk), used.get(token.pk)
        if recorder is None and not _has_sent(token, imported):
            use = None
        rows.append(_row(token, recorder, None if recorder is None else polled.get(recorder.pk), use, at))
    return rows


def _newest_import(workspace: Workspace) -> datetime | None:
    """Return when the newest run arrived that no recorder of its own sent: traces and evidence of loops."""
    runs = Run.objects.filter(workspace=workspace, parent__isnull=True, recorder__runtime=IMPORTER)
    return runs.order_by("-id").values_list("made_at", flat=True).first()


def _has_sent(token: ApiToken, imported: datetime | None) -> bool:
    """Whether the use of a token that nobody paired with was to send: one that may do more may have read."""
    return _only_sends(token) or (
        "ingest" in token.scopes and imported is not None and imported >= token.made_at
    )


def _only_sends(token: ApiToken) -> bool:
    return set(token.scopes) == {"ingest"}


def _row(
    token: ApiToken,
    recorder: Recorder | None,
    polled_at: datetime | None,
    used_at: datetime | None,
    at: datetime,
) -> RecorderRow:
    """Return the row; a recorder that polls is online, and one that only sends is heard as well."""
    heard = [each for each in (polled_at, used_at) if each is not None]
    return RecorderRow(
        token=token.name,
        ends=token.expires_at,
        recorder=recorder.name if recorder is not None else None,
        runtime=recorder.runtime if recorder is not None else "",
        heard_at=max(heard, default=None),
        online=polled_at is not None and at - polled_at < ONLINE_FOR,
        only_sends=recorder is None and _only_sends(token),
    )


def _has_recorder(rows: tuple[RecorderRow, ...], imported: datetime | None) -> bool:
    """Whether a source was heard: by a token, or where nobody has one by files that were imported."""
    return any(row.heard_at is not None for row in rows) or (not rows and imported is not None)


def _recorder_words(rows: tuple[RecorderRow, ...]) -> str:
    if not rows:
        return "No recorder has a token yet."
    if all(row.only_sends for row in rows):
        return "A token waits for its sender: it was not heard from yet."
    return "A token waits for its recorder: it was not heard from yet."


def _run_words(unnamed: Run | None) -> str:
    if unnamed is None:
        return "No recorder has sent a run of a workflow yet."
    return "Runs arrived, but none names a workflow: say it where they are sent, or when they are imported."


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
    """Whether nothing is missing; workflows whose tools write nowhere need no destination."""
    return all(row.is_registered and (row.is_fixture or row.owners) for row in rows)


def _missing(rows: tuple[DestinationRow, ...]) -> str:
    if not rows:
        return "No workflow names a destination yet."
    strange = [row.target for row in rows if not row.is_registered]
    if strange:
        return f"The operator’s targets file does not name {', '.join(sorted(set(strange)))}."
    unowned = sorted({row.name for row in rows if not row.owners and not row.is_fixture})
    return f"Nobody owns {', '.join(unowned)}: a branch that writes there cannot be approved by its owner."
