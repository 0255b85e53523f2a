"""Published contracts as pages show them, and a draft made of the edges that a run was seen to take."""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any, Final

from branches.evidence.ids import is_id
from branches.evidence.keys import is_hmac
from branches.models import ApiToken, Contract, Person, Run, Workflow, Workspace
from branches.queries.chains import latest
from branches.queries.declarations import Quorum, quorums_of, rules_of
from branches.queries.edges import edges_of
from branches.queries.lookups import NotHere
from branches.queries.topology_view import Matrix, matrix_of

MOST_LISTED: Final = 200


@dataclass(frozen=True, slots=True)
class ContractLine:
    """One published contract in the list."""

    uid: str
    version: str
    digest: str
    is_draft: bool
    at: datetime
    by: str


@dataclass(frozen=True, slots=True)
class ContractGroup:
    """A workflow's contracts, newest first."""

    workflow: str
    lines: tuple[ContractLine, ...]


@dataclass(frozen=True, slots=True)
class Phase:
    """A phase and what it expects: an edge, or a bounded choice of them."""

    name: str
    expected: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class ContractPage:
    """One contract with everything it says."""

    line: ContractLine
    workflow: str
    matrix: Matrix
    edges: tuple[tuple[str, str, str, int], ...]
    """From, to, kind, and how often it may be seen."""
    phases: tuple[Phase, ...]
    quorums: tuple[Quorum, ...]
    frozen: int
    """How many root runs are judged by it."""
    is_beside_own: bool
    """Whether the workflow declares a contract of this version itself, which then counts instead."""
    text: str


@dataclass(frozen=True, slots=True)
class Drafted:
    """A draft made of observed edges, and how many were left out: a covered name cannot be in a contract."""

    workflow: str
    contract: dict[str, Any]
    left_out: int


def contract_groups(workspace: Workspace) -> tuple[ContractGroup, ...]:
    """Return the newest contracts by workflow."""
    rows = list(Contract.objects.filter(workspace=workspace).order_by("-id")[:MOST_LISTED])
    names = _names(rows)
    rows.sort(key=lambda row: row.workflow)  # the newest stay first within each
    return tuple(
        ContractGroup(workflow, tuple(_line(row, names) for row in group))
        for workflow, group in groupby(rows, key=lambda row: row.workflow)
    )


def workflow_names(workspace: Workspace) -> tuple[str, ...]:
    """Return the names of the workflows that a contract can be published for."""
    found = Workflow.objects.filter(workspace=workspace).values_list("name", flat=True)
    return tuple(sorted(set(found)))


def contract_page(workspace: Workspace, uid: str) -> ContractPage:
    """Return one contract laid out; raises NotHere."""
    row = Contract.objects.filter(workspace=workspace, uid=uid).first() if is_id(uid, "con") else None
    if row is None:
        raise NotHere
    declared = json.loads(row.declaration)
    return ContractPage(
        line=_line(row, _names([row])),
        workflow=row.workflow,
        matrix=matrix_of(rules_of(declared), {}, ()),
        edges=tuple(
            (edge["from"], edge["to"], edge["kind"], edge.get("max", 1)) for edge in declared["edges"]
        ),
        phases=tuple(
            Phase(name, tuple((each,) if isinstance(each, str) else tuple(each) for each in expected))
            for name, expected in declared["phases"].items()
        ),
        quorums=quorums_of(declared),
        frozen=row.runs.count(),
        is_beside_own=_is_declared(row),
        text=contract_text(declared),
    )


def _is_declared(row: Contract) -> bool:
    workflows = Workflow.objects.filter(workspace_id=row.workspace_id, name=row.workflow)
    own = (
        rules_of(json.loads(each).get("contract")) for each in workflows.values_list("declaration", flat=True)
    )
    return any(each is not None and each["version"] == row.version for each in own)


def contract_text(contract: dict[str, Any]) -> str:
    """Return a contract as a person reads and edits it."""
    return json.dumps(contract, indent=2)


def drafted(run: Run) -> Drafted:
    """Return a contract that allows what a run did, as often as it did; nobody says that it should have.

    It has no version: whoever publishes it gives it one.
    """
    seen: Counter[tuple[str, str, str]] = Counter()
    for edge in edges_of(run):
        seen[edge.source, edge.target, edge.kind] += edge.count
    edges = [edge for edge in sorted(seen) if not any(map(is_hmac, edge))]
    started = latest(run.family_id, "run_started")
    phase = None if started is None else started.body["phase"]
    contract = {
        "version": "",
        "agents": sorted({name for source, target, _ in edges for name in (source, target)}),
        "edges": [
            {"from": source, "to": target, "kind": kind, "max": seen[source, target, kind]}
            for source, target, kind in edges
        ],
        "phases": {
            "whole" if phase is None or is_hmac(phase) else phase: [
                f"{source}>{target}:{kind}" for source, target, kind in edges
            ]
        },
    }
    return Drafted("" if run.workflow is None else run.workflow.name, contract, len(seen) - len(edges))


def _line(row: Contract, names: dict[str, str]) -> ContractLine:
    by = names.get(row.publisher, "the command line")
    return ContractLine(row.uid, row.version, row.digest, row.is_draft, row.published_at, by)


def _names(rows: Iterable[Contract]) -> dict[str, str]:
    """Return what publishers are called: people by their names, machines by those of their tokens."""
    uids = {row.publisher for row in rows}
    people = Person.objects.filter(uid__in=uids).values_list("uid", "username")
    tokens = ApiToken.objects.filter(uid__in=uids).values_list("uid", "name")
    return {**dict(people), **{uid: f"token {name}" for uid, name in tokens}}
