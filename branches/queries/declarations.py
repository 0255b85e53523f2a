"""What a workflow declared, read from its exact bytes and kept: a declaration never changes."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

from branches.evidence.kinds.forms import Declared
from branches.models import Run, Workflow
from branches.queries.clock import parse


@dataclass(frozen=True, slots=True)
class StateKey:
    """A required state key: which probe measures it, where, and whether drift may be acknowledged."""

    name: str
    probe: str
    target: str
    acknowledgeable: bool


@dataclass(frozen=True, slots=True)
class Tool:
    """A declared tool: where it writes and what its effect is worth."""

    name: str
    destination: str | None
    effect_class: str


@dataclass(frozen=True, slots=True)
class DestinationRule:
    """A declared destination: how it is asked, and whether it is only a local fixture."""

    name: str
    query: str
    target: str
    fixture: bool
    acceptance: "Acceptance | None"


@dataclass(frozen=True, slots=True)
class Acceptance:
    """Which of a destination's answers need no person to be accepted, and until when."""

    answers: frozenset[str]
    until: datetime

    def covers(self, answer: str, at: datetime) -> bool:
        return answer in self.answers and at < self.until


@dataclass(frozen=True, slots=True)
class ExpectedOutcome:
    """What counts as done, and who is asked for it."""

    expected: str
    verifier: str
    target: str


@dataclass(frozen=True, slots=True)
class Quorum:
    """How many of the sources of a fan-in have to report before it may go on."""

    into: str
    kind: str
    of: tuple[str, ...]
    at_least: int


@dataclass(frozen=True, slots=True)
class Redelivery:
    """That work which nobody accepted may be delivered again: whoever declares it says it is idempotent."""

    attempts: int
    limit_s: int


RECOVERY_LIMITS: Final[Mapping[str, tuple[str, int]]] = {
    "route_wait": ("route_s", 3600),
    "run_verifier": ("verifier_s", 600),
    "ask_for_artifact": ("artifact_s", 3600),
}
"""For how many seconds a recovery may be carried out unless declared: its member of the limits, by action."""


@dataclass(frozen=True, slots=True)
class HandoffRules:
    """How long a handoff may take, and each action that recovers one, in seconds."""

    limits: Mapping[str, int]
    redelivery: Redelivery | None
    recovery: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Writer:
    """What recorders under a token of some name may say of a run that is not theirs."""

    agents: frozenset[str]
    outcomes: bool


@dataclass(frozen=True, slots=True)
class Declaration:
    """One workflow version, typed."""

    uid: str
    name: str
    version: str
    digest: str
    agents: tuple[str, ...]
    state_keys: Mapping[str, StateKey]
    tools: Mapping[str, Tool]
    destinations: Mapping[str, DestinationRule]
    outcome: ExpectedOutcome
    max_age_s: int
    start_s: int
    contract: Mapping[str, Any] | None
    """Its own topology contract, as the rules take it; a run may be frozen with another one."""
    quorums: tuple[Quorum, ...]
    handoffs: HandoffRules
    phase: str | None
    """The phase a run begins in."""
    owners: tuple[str, ...]
    names: Mapping[str, frozenset[str]]
    writers: Mapping[str, Writer]
    """By the names of API tokens."""
    has_own_outcome: bool = False
    """Whether the outcome was declared at a fork and not by the workflow."""

    def writes_outside(self) -> bool:
        """Return whether a tool can write anywhere but a declared local fixture."""
        return any(
            tool.effect_class != "read"
            and (tool.destination is None or not self.destinations[tool.destination].fixture)
            for tool in self.tools.values()
        )


def declaration_of(run: Run) -> Declaration | None:
    """Return what was declared for a run, or None for an imported one.

    A branch inherits its root's, with the outcome that was declared at the fork where one was.
    """
    if run.workflow is None:
        return None
    return _read(run.workflow.uid) if run.outcome is None else _read_with(run.workflow.uid, run.outcome)


def read_workflow(workflow: Workflow) -> Declaration:
    """Return what one published version of a workflow declares."""
    return _read(workflow.uid)


@lru_cache(maxsize=256)
def _read_with(uid: str, outcome: str) -> Declaration:
    found, own = _read(uid), ExpectedOutcome(**json.loads(outcome))
    names = {**found.names, Declared.OUTCOME: found.names[Declared.OUTCOME] | {own.expected}}
    return replace(found, outcome=own, names=names, has_own_outcome=True)


@lru_cache(maxsize=256)
def _read(uid: str) -> Declaration:
    row = Workflow.objects.get(uid=uid)
    return read_declaration(json.loads(row.declaration), uid=row.uid, digest=row.digest)


def read_declaration(declared: Mapping[str, Any], *, uid: str, digest: str) -> Declaration:
    """Return a declaration that `publish_workflow` has checked."""
    limits = declared["limits"]
    return Declaration(
        uid=uid,
        name=declared["workflow"],
        version=declared["version"],
        digest=digest,
        agents=tuple(declared["agents"]),
        state_keys={
            name: StateKey(name, key["probe"], key["target"], key.get("acknowledgeable", False))
            for name, key in declared["state_keys"].items()
        },
        tools={
            name: Tool(name, tool["destination"], tool["effect_class"])
            for name, tool in declared["tools"].items()
        },
        destinations={
            name: DestinationRule(
                name,
                rule["query"],
                rule["target"],
                rule.get("fixture", False),
                _acceptance(rule.get("accept")),
            )
            for name, rule in declared["destinations"].items()
        },
        outcome=ExpectedOutcome(**declared["outcome"]),
        max_age_s=limits["max_age_s"],
        start_s=limits["start_s"],
        contract=rules_of(declared.get("contract")),
        quorums=quorums_of(declared.get("contract")),
        handoffs=_handoff_rules(limits.get("handoffs", {})),
        phase=declared.get("phase"),
        owners=tuple(declared.get("owners", ())),
        names=declared_names(declared),
        writers={
            token: Writer(frozenset(each.get("agents", ())), each.get("outcomes", False))
            for token, each in declared.get("writers", {}).items()
        },
    )


def _acceptance(declared: Mapping[str, Any] | None) -> Acceptance | None:
    if declared is None:
        return None
    return Acceptance(frozenset(declared["answers"]), parse(declared["until"]))


def rules_of(contract: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Return what the rules judge of a contract: all but its quorums, which stand beside the verdict."""
    if contract is None:
        return None
    judged = {name: member for name, member in contract.items() if name != "quorums"}
    return {**judged, "version": str(contract["version"])}


def quorums_of(contract: Mapping[str, Any] | None) -> tuple[Quorum, ...]:
    """Return how many of a fan-in's sources have to report."""
    declared = () if contract is None else contract.get("quorums", ())
    return tuple(Quorum(each["into"], each["kind"], tuple(each["of"]), each["at_least"]) for each in declared)


def _handoff_rules(declared: Mapping[str, Any]) -> HandoffRules:
    redeliver = declared.get("redeliver")
    recovery = {action: declared.get(name, usual) for action, (name, usual) in RECOVERY_LIMITS.items()}
    others = {"redeliver", *(name for name, _ in RECOVERY_LIMITS.values())}
    limits = {name: seconds for name, seconds in declared.items() if name not in others}
    again = None if redeliver is None else Redelivery(redeliver["attempts"], redeliver["limit_s"])
    return HandoffRules(limits, again, recovery)


def declared_names(declared: Mapping[str, Any]) -> dict[str, frozenset[str]]:
    """Return the names a receipt of this workflow may carry, by category."""
    facts = declared.get("facts", {})
    return {
        Declared.AGENT: frozenset(declared["agents"]),
        Declared.TOOL: frozenset(declared["tools"]),
        Declared.MODEL: frozenset(declared.get("models", ())),
        Declared.DESTINATION: frozenset(declared["destinations"]),
        Declared.KIND: frozenset(declared.get("kinds", ())),
        Declared.PHASE: frozenset(declared.get("phases", ())),
        Declared.STATE_KEY: frozenset(declared["state_keys"]),
        Declared.DEPENDENCY: frozenset(declared.get("dependencies", ())),
        Declared.OUTCOME: frozenset({declared["outcome"]["expected"]}),
        Declared.VALIDATOR: frozenset(declared.get("validators", ())) | frozenset(declared["destinations"]),
        Declared.FACT: frozenset(facts),
        Declared.FACT_WORD: frozenset(word for words in facts.values() for word in words),
        Declared.REASON: frozenset(declared.get("reasons", ())),
        Declared.OWNER: frozenset(declared.get("owners", ())),
        Declared.RUNTIME: frozenset({declared["runtime"]}),
        Declared.PROBE: frozenset(key["probe"] for key in declared["state_keys"].values()),
        Declared.LIMIT: frozenset(key["probe"] for key in declared["state_keys"].values()),
        Declared.CAPABILITY: frozenset(declared.get("capabilities", ())),
    }
