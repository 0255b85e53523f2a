"""Published contracts as pages show them, and a draft made of the edges that a run was seen to take."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any, Final

from branches.evidence.ids import is_id
from branches.evidence.keys import is_hmac
from branches.evidence.kinds.forms import NAME_PATTERN
from branches.models import ApiToken, Contract, Person, Run, Workflow, Workspace
from branches.queries.chains import latest
from branches.queries.contract_form import MOST_AGENTS
from branches.queries.declarations import Quorum, quorums_of, read_workflow, rules_of
from branches.queries.edges import edges_of
from branches.queries.lookups import NotHere
from branches.queries.topology_view import Matrix, matrix_of

MOST_LISTED: Final = 200
_NAME: Final = re.compile(NAME_PATTERN)


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
class Undeclared:
    """Agents of a contract that the newest version of its workflow does not declare."""

    agents: tuple[str, ...]
    workflow: str
    version: str


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
    undeclared: Undeclared | None
    text: str


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Edges that a draft leaves out: their names are on record as keyed digests, which no contract holds."""

    by_agent: int
    """To or from an agent that no declaration names."""
    by_kind: int
    """Between declared agents, of a kind that no declaration names."""
    interactions: int
    """How often they were seen, all together."""

    @property
    def edges(self) -> int:
        return self.by_agent + self.by_kind


@dataclass(frozen=True, slots=True)
class Drafted:
    """A draft made of observed edges, and what was left out of it."""

    workflow: str
    contract: dict[str, Any]
    left_out: LeftOut


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
        undeclared=undeclared_agents(workspace, row.workflow, declared),
        text=contract_text(declared),
    )


def undeclared_agents(workspace: Workspace, workflow: str, contract: Mapping[str, Any]) -> Undeclared | None:
    """Return the agents that a workflow's newest version does not declare; None where there are none.

    A run's receipts hold such a name as its keyed digest, so no edge of the contract to or from it is ever
    seen. What is no list of names has none: whoever publishes it hears of that by field and rule.
    """
    newest = Workflow.objects.filter(workspace=workspace, name=workflow).order_by("-id").first()
    agents = contract.get("agents")
    if newest is None or not isinstance(agents, list):
        return None
    known = read_workflow(newest).agents
    names = dict.fromkeys(name for name in agents if isinstance(name, str) and _NAME.fullmatch(name))
    found = tuple(name for name in names if name not in known)[:MOST_AGENTS]
    return Undeclared(found, newest.name, newest.version) if found else None


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
    covered = {edge: count for edge, count in seen.items() if any(map(is_hmac, edge))}
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
    by_agent = sum(1 for source, target, _ in covered if is_hmac(source) or is_hmac(target))
    left_out = LeftOut(by_agent, len(covered) - by_agent, sum(covered.values()))
    return Drafted("" if run.workflow is None else run.workflow.name, contract, left_out)


def _line(row: Contract, names: dict[str, str]) -> ContractLine:
    by = names.get(row.publisher, "the command line")
    return ContractLine(row.uid, row.version, row.digest, row.is_draft, row.published_at, by)


def _names(rows: Iterable[Contract]) -> dict[str, str]:
    """Return what publishers are called: people by their names, machines by those of their tokens."""
    uids = {row.publisher for row in rows}
    people = Person.objects.filter(uid__in=uids).values_list("uid", "username")
    tokens = ApiToken.objects.filter(uid__in=uids).values_list("uid", "name")
    return {**dict(people), **{uid: f"token {name}" for uid, name in tokens}}
