"""The facts of a coordination: a contract that holds together, one run of it, and what was observed."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum, auto

from branches.rules.facts import FactError, Fields, check_unique, read_name
from branches.rules.instants import Instant

DEFAULT_PROGRESS_S = 600
_RESERVED = frozenset("*>:|")

type Expectation = str | tuple[str, ...]


class TopologyEvidence(StrEnum):
    """Receipts recorded apart from any sampling, a sample of them, or something that does not say."""

    COMPLETE = auto()
    SAMPLED = auto()
    UNKNOWN = auto()


class InteractionStatus(StrEnum):
    OK = auto()
    ERROR = auto()
    UNSET = auto()


def edge_key(source: str, target: str, kind: str) -> str:
    return f"{source}>{target}:{kind}"


@dataclass(frozen=True, slots=True)
class Edge:
    """One allowed interaction; `max` is how often it may be observed in a run."""

    source: str
    target: str
    kind: str
    max: int = 1

    @property
    def key(self) -> str:
        return edge_key(self.source, self.target, self.kind)


@dataclass(frozen=True, slots=True)
class TopologyContract:
    """`phases` maps a name to expectations: an edge key, or a tuple of them of which one must be seen."""

    version: str
    agents: tuple[str, ...]
    edges: tuple[Edge, ...]
    phases: Mapping[str, tuple[Expectation, ...]]


@dataclass(frozen=True, slots=True)
class TopologyRun:
    """`outcome_receipt` is true only for an independent receipt."""

    pinned_version: str
    phase: str
    parent_terminal: bool
    outcome_receipt: bool
    evidence: TopologyEvidence
    now: Instant
    deadline: Instant | None
    dependency: str | None
    last_progress_at: Instant | None
    progress_s: int = DEFAULT_PROGRESS_S


@dataclass(frozen=True, slots=True)
class Interaction:
    """One observed edge. Equal interactions with one id are one."""

    event_id: str
    source: str
    target: str
    kind: str
    version: str
    at: Instant
    status: InteractionStatus

    @property
    def key(self) -> str:
        return edge_key(self.source, self.target, self.kind)


@dataclass(frozen=True, slots=True)
class TopologyFacts:
    contract: TopologyContract
    run: TopologyRun
    events: tuple[Interaction, ...]

    def __post_init__(self) -> None:
        check_contract(self.contract, "contract")
        if self.run.phase not in self.contract.phases:
            raise FactError("run.phase", "is not a phase of the contract")
        if self.run.last_progress_at is not None and self.run.last_progress_at > self.run.now:
            raise FactError("run.last_progress_at", "must not be later than now")
        known: dict[str, Interaction] = {}
        for index, event in enumerate(self.events):
            if event.at > self.run.now:
                raise FactError(f"events.{index}.at", "must not be later than now")
            if known.setdefault(event.event_id, event) != event:
                raise FactError(f"events.{index}.event_id", "stands for another event already")


def check_contract(contract: TopologyContract, path: str) -> None:
    """Refuse a contract that does not hold together, in every phase; FactError under the dotted path."""
    for index, agent in enumerate(contract.agents):
        _check_unreserved(agent, f"{path}.agents.{index}")
    check_unique(contract.agents, f"{path}.agents")
    for index, edge in enumerate(contract.edges):
        _check_edge(edge, contract.agents, f"{path}.edges.{index}")
    check_unique(tuple(edge.key for edge in contract.edges), f"{path}.edges")
    keys = {edge.key for edge in contract.edges}
    for phase, expectations in contract.phases.items():
        for index, expectation in enumerate(expectations):
            _check_expectation(expectation, keys, f"{path}.phases.{phase}.{index}")


def _check_edge(edge: Edge, agents: Iterable[str], path: str) -> None:
    for end, agent in (("from", edge.source), ("to", edge.target)):
        if agent not in agents:
            raise FactError(f"{path}.{end}", "is not an agent of the contract")
    _check_unreserved(edge.kind, f"{path}.kind")
    if edge.max < 1:
        raise FactError(f"{path}.max", "must be 1 or more")


def _check_unreserved(name: str, path: str) -> None:
    """Edge keys and choices are written with these characters: a name with one could pass for another."""
    if any(letter in _RESERVED or letter.isspace() for letter in name):
        raise FactError(path, "must not hold *, >, :, | or white space")


def _check_expectation(expectation: Expectation, keys: set[str], path: str) -> None:
    if isinstance(expectation, str):
        if expectation not in keys:
            raise FactError(path, "is not an edge of the contract")
        return
    if not expectation:
        raise FactError(path, "must not be an empty choice")
    for index, key in enumerate(expectation):
        _check_expectation(key, keys, f"{path}.{index}")


def parse_topology(value: object) -> TopologyFacts:
    """Read contract, run and events from a parsed JSON object; FactError names the first problem found."""
    fields = Fields(value)
    fields.only("contract", "run", "events")
    return TopologyFacts(
        contract=read_contract(fields.fields("contract")),
        run=_read_run(fields.fields("run")),
        events=tuple(_read_interaction(event) for event in fields.objects("events")),
    )


def read_contract(fields: Fields) -> TopologyContract:
    """Read the form of a contract; whether it holds together is for `check_contract` to say."""
    fields.only("version", "agents", "edges", "phases")
    phases = fields.fields("phases")
    return TopologyContract(
        version=fields.name("version"),
        agents=fields.names("agents"),
        edges=tuple(_read_edge(edge) for edge in fields.objects("edges")),
        phases={phase: _read_expectations(phases, phase) for phase in phases.own_names()},
    )


def _read_edge(fields: Fields) -> Edge:
    fields.only("from", "to", "kind", "max")
    return Edge(
        source=fields.name("from"),
        target=fields.name("to"),
        kind=fields.name("kind"),
        max=fields.count("max", default=1, least=1),
    )


def _read_expectations(phases: Fields, phase: str) -> tuple[Expectation, ...]:
    return tuple(_read_expectation(value, path) for path, value in phases.items(phase))


def _read_expectation(value: object, path: str) -> Expectation:
    if isinstance(value, list):
        return tuple(read_name(key, f"{path}.{index}") for index, key in enumerate(value))
    if isinstance(value, str):
        return read_name(value, path)
    raise FactError(path, "must be an edge key or an array of them")


def _read_run(fields: Fields) -> TopologyRun:
    fields.only(
        *("pinned_version", "phase", "parent_terminal", "outcome_receipt", "evidence", "now", "deadline"),
        *("dependency", "last_progress_at", "progress_s"),
    )
    return TopologyRun(
        pinned_version=fields.name("pinned_version"),
        phase=fields.name("phase"),
        parent_terminal=fields.flag("parent_terminal"),
        outcome_receipt=fields.flag("outcome_receipt"),
        evidence=fields.word("evidence", TopologyEvidence),
        now=fields.instant("now"),
        deadline=fields.nullable_instant("deadline"),
        dependency=fields.nullable_name("dependency"),
        last_progress_at=fields.nullable_instant("last_progress_at"),
        progress_s=fields.count("progress_s", default=DEFAULT_PROGRESS_S),
    )


def _read_interaction(fields: Fields) -> Interaction:
    fields.only("event_id", "from", "to", "kind", "version", "at", "status")
    return Interaction(
        event_id=fields.name("event_id"),
        source=fields.name("from"),
        target=fields.name("to"),
        kind=fields.name("kind"),
        version=fields.name("version"),
        at=fields.instant("at"),
        status=fields.word("status", InteractionStatus),
    )
