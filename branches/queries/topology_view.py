"""A run's coordination beside its contract: a matrix of edges, what was found, and a picture of the same."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from branches.models import Run
from branches.queries.audits import Audits, TopologyAudit
from branches.queries.chains import latest
from branches.queries.contracts import contract_of
from branches.queries.edges import edges_of
from branches.queries.topology_graph import Graph, drawn
from branches.queries.words import Badge, Shape
from branches.rules.topology_facts import TopologyEvidence, edge_key
from branches.rules.verdicts import TopologyState


@dataclass(frozen=True, slots=True)
class Cell:
    """One edge between two agents: how often it was seen, and what the contract says of it."""

    source: str
    target: str
    state: str
    count: int
    kinds: tuple[str, ...]

    @property
    def mark(self) -> "CellMark":
        return CELL_MARKS[self.state]


@dataclass(frozen=True, slots=True)
class CellMark:
    """How a cell's state is told from others: a border of its own, an icon and words; hue only helps."""

    state: str
    icon: str
    """Empty where the number alone stands in the cell."""
    words: str
    is_counted: bool = True
    """Whether something was seen, so that a number stands in the cell."""


@dataclass(frozen=True, slots=True)
class Matrix:
    """Agents as rows and columns, and the same as a picture."""

    agents: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Cell | None, ...]], ...]
    graph: Graph

    @property
    def cells(self) -> tuple[Cell, ...]:
        return tuple(cell for _, row in self.rows for cell in row if cell is not None)


@dataclass(frozen=True, slots=True)
class Finding:
    """Something the audit found besides what the verdict says first."""

    icon: str
    hue: str
    words: str


@dataclass(frozen=True, slots=True)
class TopologyView:
    """A contract beside what was observed."""

    badge: Badge | None
    reasons: tuple[str, ...]
    """Of very many the first; `more_reasons` says how many there are besides."""
    more_reasons: int
    naive_green: bool
    next_action: str
    version: str | None
    observed: int
    matrix: Matrix
    found: tuple[Finding, ...]
    missing: tuple[str, ...]
    problem: str | None
    legend: tuple[CellMark, ...]


_MOST_REASONS: Final = 20
CELL_MARKS: Final = {
    mark.state: mark
    for mark in (
        CellMark("ok", "pass", "allowed, seen"),
        CellMark("seen", "", "seen, judged by nothing"),
        CellMark("unseen", "none", "allowed, not seen", is_counted=False),
        CellMark("missing", "waiting", "expected, missing", is_counted=False),
        CellMark("forbidden", "blocked", "forbidden, seen"),
        CellMark("unknown", "unrouted", "unknown agent"),
        CellMark("ambig", "uncertain", "seen more often than allowed"),
    )
}
CONTRACT_LEGEND: Final = (CellMark("unseen", "none", "allowed", is_counted=False),)
"""What a contract alone can say: nothing was observed there."""
TOPOLOGY_BADGES: Final = {
    TopologyState.STALE_CONTRACT: Badge("stale", "stale", "Stale contract", Shape.DASH),
    TopologyState.UNKNOWN_AGENT: Badge("unrouted", "blocked", "Unknown agent", Shape.OUTLINE),
    TopologyState.FORBIDDEN_EDGE: Badge("blocked", "blocked", "Forbidden edge", Shape.OUTLINE),
    TopologyState.AMBIGUOUS_ROUTE: Badge("uncertain", "uncertain", "Ambiguous route", Shape.DASH),
    TopologyState.UNCERTAIN: Badge("uncertain", "uncertain", "Uncertain", Shape.DASH),
    TopologyState.FALSE_COMPLETE: Badge("claimed", "claimed", "Says complete", Shape.DASH),
    TopologyState.HEALTHY: Badge("pass", "pass", "As the contract says", Shape.OUTLINE),
    TopologyState.WAITING: Badge("waiting", "waiting", "Waiting", Shape.OUTLINE),
    TopologyState.INCOMPLETE: Badge("bounded", "bounded", "Incomplete", Shape.OUTLINE),
    TopologyState.WORKING: Badge("working", "working", "Working", Shape.OUTLINE),
}


def topology_view(run: Run, audits: Audits) -> TopologyView:
    """Lay a run's coordination out beside its contract."""
    contract = contract_of(run)
    started = latest(run.family_id, "run_started")
    seen: Counter[tuple[str, str, str]] = Counter()
    for edge in edges_of(run):
        seen[edge.source, edge.target, edge.kind] += edge.count
    verdict = None if audits.topology is None else audits.topology.verdict
    missing = () if verdict is None else verdict.missing
    reasons = () if verdict is None else verdict.reasons
    matrix = matrix_of(contract, seen, missing)
    return TopologyView(
        badge=None if verdict is None else TOPOLOGY_BADGES[verdict.verdict],
        reasons=reasons[:_MOST_REASONS],
        more_reasons=len(reasons[_MOST_REASONS:]),
        naive_green=verdict is not None and verdict.naive_green,
        next_action="" if verdict is None else str(verdict.next_action),
        version=None if contract is None or started is None else str(contract["version"]),
        observed=seen.total(),
        matrix=matrix,
        found=(*_findings(matrix.cells, missing), *_facts_behind(audits.topology)),
        missing=missing,
        problem=audits.problem,
        legend=_legend(contract),
    )


def _legend(contract: Mapping[str, Any] | None) -> tuple[CellMark, ...]:
    """Return what a cell can be: without a contract there is nothing but what was seen."""
    return tuple(mark for mark in CELL_MARKS.values() if (mark.state == "seen") is (contract is None))


def matrix_of(
    contract: Mapping[str, Any] | None,
    seen: Mapping[tuple[str, str, str], int],
    missing: Iterable[str],
) -> Matrix:
    """Lay edges out, what was `seen` of each beside what the contract says; either may be nothing."""
    cells, agents = _cells(contract, seen, missing), _agents(contract, seen)
    rows = tuple((source, tuple(cells.get((source, target)) for target in agents)) for source in agents)
    return Matrix(agents, rows, drawn(agents, cells.values()))


def _agents(contract: Mapping[str, Any] | None, seen: Iterable[tuple[str, str, str]]) -> tuple[str, ...]:
    declared = list(contract["agents"]) if contract else []
    others = sorted({name for source, target, _ in seen for name in (source, target)} - set(declared))
    return (*declared, *others)


def _cells(
    contract: Mapping[str, Any] | None,
    seen: Mapping[tuple[str, str, str], int],
    missing: Iterable[str],
) -> dict[tuple[str, str], Cell]:
    """Return what each pair of agents is to the contract; of several kinds the worst counts."""
    edges = {
        (edge["from"], edge["to"], edge["kind"]): edge for edge in (contract["edges"] if contract else ())
    }
    agents = set(contract["agents"]) if contract else set()
    gone = {key for text in missing for key in text.split("|")}
    worst: dict[tuple[str, str], Cell] = {}
    for source, target, kind in sorted({*edges, *seen}):
        count = seen.get((source, target, kind), 0)
        edge = edges.get((source, target, kind))
        if contract is None:
            state = "seen"
        elif source not in agents or target not in agents:
            state = "unknown"
        elif edge is None:
            state = "forbidden"
        elif count > edge.get("max", 1):
            state = "ambig"
        elif edge_key(source, target, kind) in gone:
            state = "missing"
        else:
            state = "ok" if count else "unseen"
        other = worst.get((source, target))
        cell = Cell(source, target, state, count, (kind,))
        worst[source, target] = cell if other is None else _worse(other, cell)
    return worst


_SEVERITY: Final = ("unseen", "seen", "ok", "missing", "ambig", "forbidden", "unknown")


def _worse(one: Cell, other: Cell) -> Cell:
    state = max(one.state, other.state, key=_SEVERITY.index)
    return Cell(one.source, one.target, state, one.count + other.count, (*one.kinds, *other.kinds))


def _findings(cells: Iterable[Cell], missing: Iterable[str]) -> Iterable[Finding]:
    counted = Counter(cell.state for cell in cells)
    for state, icon, hue, words in (
        ("unknown", "unrouted", "blocked", "to or from an unknown agent"),
        ("forbidden", "blocked", "blocked", "forbidden"),
        ("ambig", "uncertain", "uncertain", "ambiguous"),
    ):
        if counted[state]:
            yield Finding(icon, hue, f"{counted[state]} {words}")
    absent = len(list(missing))
    if absent:
        yield Finding("waiting", "waiting", f"{absent} missing")


def _facts_behind(audit: TopologyAudit | None) -> Iterable[Finding]:
    """Yield what no cell shows: an earlier verdict must not hide what the audit itself rests on.

    What the verdict itself gives as its reason is not said again.
    """
    if audit is None:
        return
    verdict = audit.verdict.verdict
    if audit.of_another_version:
        yield Finding("stale", "stale", f"{audit.of_another_version} under another contract version")
    if audit.evidence != TopologyEvidence.COMPLETE and verdict is not TopologyState.UNCERTAIN:
        yield Finding("uncertain", "uncertain", f"evidence {audit.evidence}")
    if audit.is_unproved and verdict is not TopologyState.FALSE_COMPLETE:
        yield Finding("claimed", "claimed", "no outcome receipt")
