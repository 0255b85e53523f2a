"""Section 3 of the decision rules: whether what was observed is the coordination that was meant to run."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from branches.rules.next_actions import AFTER_TOPOLOGY
from branches.rules.topology_facts import (
    Interaction,
    InteractionStatus,
    TopologyContract,
    TopologyEvidence,
    TopologyFacts,
    TopologyRun,
    parse_topology,
)
from branches.rules.verdicts import TopologyReason, TopologyState, TopologyVerdict, sort_reasons

__all__ = ["TopologyFacts", "TopologyVerdict", "judge_topology", "parse_topology"]

Reasons = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Observation:
    """A run of a contract, each event once, and the expectations that nothing ok fulfilled."""

    contract: TopologyContract
    run: TopologyRun
    events: tuple[Interaction, ...]
    missing: Reasons


def judge_topology(facts: TopologyFacts) -> TopologyVerdict:
    """The first row of the table that matches; `missing` and `naive_green` are said in every row."""
    events = tuple(dict.fromkeys(facts.events))
    seen = _Observation(facts.contract, facts.run, events, _missing(facts))
    state, reasons = _first_match(seen)
    return TopologyVerdict(
        verdict=state,
        reasons=sort_reasons(reasons),
        missing=seen.missing,
        naive_green=bool(events) and all(event.status == InteractionStatus.OK for event in events),
        next_action=AFTER_TOPOLOGY[state],
    )


def _missing(facts: TopologyFacts) -> Reasons:
    fulfilled = {event.key for event in facts.events if event.status == InteractionStatus.OK}
    expected = facts.contract.phases[facts.run.phase]
    choices = ((choice,) if isinstance(choice, str) else choice for choice in expected)
    return sort_reasons("|".join(sorted(set(choice))) for choice in choices if fulfilled.isdisjoint(choice))


def _first_match(seen: _Observation) -> tuple[TopologyState, Reasons]:
    for state, row in _ROWS:
        reasons = row(seen)
        if reasons is not None:
            return state, reasons
    raise AssertionError("the last row matches everything")


def _stale_contract(seen: _Observation) -> Reasons | None:
    pinned = seen.run.pinned_version
    own = [TopologyReason.CONTRACT] if seen.contract.version != pinned else []
    return (*own, *(event.event_id for event in seen.events if event.version != pinned)) or None


def _unknown_agent(seen: _Observation) -> Reasons | None:
    ends = {agent for event in seen.events for agent in (event.source, event.target)}
    return tuple(ends.difference(seen.contract.agents)) or None


def _forbidden_edge(seen: _Observation) -> Reasons | None:
    allowed = {edge.key for edge in seen.contract.edges}
    return tuple(event.key for event in seen.events if event.key not in allowed) or None


def _ambiguous_route(seen: _Observation) -> Reasons | None:
    # An attempt that failed was made all the same: a retry needs a maximum that allows it.
    observed = Counter(event.key for event in seen.events)
    return tuple(edge.key for edge in seen.contract.edges if observed[edge.key] > edge.max) or None


def _partial_evidence(seen: _Observation) -> Reasons | None:
    match seen.run.evidence:
        case TopologyEvidence.COMPLETE:
            return None
        case TopologyEvidence.SAMPLED:
            return (TopologyReason.SAMPLED,)
        case _:
            return (TopologyReason.UNKNOWN,)


def _false_complete(seen: _Observation) -> Reasons | None:
    if not seen.run.parent_terminal:
        return None
    unproved = () if seen.run.outcome_receipt else (TopologyReason.NO_OUTCOME_RECEIPT,)
    return (*seen.missing, *unproved) or None


def _healthy(seen: _Observation) -> Reasons | None:
    return () if seen.run.parent_terminal else None


def _waiting(seen: _Observation) -> Reasons | None:
    run = seen.run
    if not seen.missing or not run.dependency or run.deadline is None or run.now > run.deadline:
        return None
    return (TopologyReason.DEPENDENCY.about(run.dependency),)


def _incomplete(seen: _Observation) -> Reasons | None:
    overdue = seen.run.deadline is not None and seen.run.now > seen.run.deadline
    return seen.missing if seen.missing and overdue else None


def _working(seen: _Observation) -> Reasons | None:
    progress = seen.run.last_progress_at
    if progress is None or progress.is_older_than(seen.run.progress_s, seen.run.now):
        return None
    return ()


def _silent(_seen: _Observation) -> Reasons:
    return (TopologyReason.NO_RECENT_PROGRESS,)


# In the order of the contract: the first row that does not answer None decides.
_ROWS: tuple[tuple[TopologyState, Callable[[_Observation], Reasons | None]], ...] = (
    (TopologyState.STALE_CONTRACT, _stale_contract),
    (TopologyState.UNKNOWN_AGENT, _unknown_agent),
    (TopologyState.FORBIDDEN_EDGE, _forbidden_edge),
    (TopologyState.AMBIGUOUS_ROUTE, _ambiguous_route),
    (TopologyState.UNCERTAIN, _partial_evidence),
    (TopologyState.FALSE_COMPLETE, _false_complete),
    (TopologyState.HEALTHY, _healthy),
    (TopologyState.WAITING, _waiting),
    (TopologyState.INCOMPLETE, _incomplete),
    (TopologyState.WORKING, _working),
    (TopologyState.UNCERTAIN, _silent),
)
