"""The three audits of a run, judged from its receipts: handoffs, topology, stops."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from branches.models import Run
from branches.queries.chains import Link, latest, links, newest_by_subject
from branches.queries.clock import parse
from branches.queries.contracts import contract_of
from branches.queries.edges import inherited_edges, own_edges
from branches.queries.handoff_audits import HandoffAudit, handoffs_now, operations_in
from branches.queries.loops import gone_on, is_wait, one_a_loop
from branches.queries.run_stop import approval_of, end_of, stop_verdict
from branches.queries.topology_events import observation, run_facts
from branches.rules.facts import FactError
from branches.rules.topology import judge_topology, parse_topology
from branches.rules.verdicts import HandoffState, StopState, StopVerdict, TopologyVerdict
from branches.rules.waits import Wait

MOST_STOPS: Final = 100
"""As many stops of a run are judged for a page, those that came last; and as many more that wait still."""
_APPROVAL: Final = frozenset({StopState.WAITING, StopState.WAITING_UNROUTED})


@dataclass(frozen=True, slots=True)
class StopAudit:
    """One loop's end: its receipt, what the rules say of it, and who said whom its approval waits for."""

    stopped: Link
    verdict: StopVerdict
    routed: Link | None = None
    went_on: Link | None = None
    """The receipt that shows that it waits no more: its loop's next stop, or its first work after it."""

    @property
    def waits(self) -> bool:
        """Whether it stopped for an approval, and nothing shows that it went on."""
        return self.went_on is None and self.verdict.state in _APPROVAL


@dataclass(frozen=True, slots=True)
class _Pending:
    """What a run waits for and until when; None is what nobody said."""

    dependency: str | None = None
    deadline: str | None = None


@dataclass(frozen=True, slots=True)
class TopologyAudit:
    """A run against its pinned contract, with what a verdict that comes earlier does not say."""

    verdict: TopologyVerdict
    observed: int
    evidence: str
    """`complete`, `sampled` or `unknown`."""
    is_unproved: bool
    """Whether the run is over and no independent receipt says that its outcome is there."""
    of_another_version: int
    """How many interactions name another contract version than the pinned one."""


@dataclass(frozen=True, slots=True)
class Audits:
    """What the three audits say of a run now."""

    stops: tuple[StopAudit, ...]
    handoffs: tuple[HandoffAudit, ...]
    topology: TopologyAudit | None
    operations: int
    """How many were handed over in all; of very many only those are judged that moved last."""
    ends: int
    """How many stops there are in all, of a loop with a name one; of very many only some are judged."""
    problem: str | None = None
    """Why the topology could not be judged, as the field of the fact that does not fit."""

    @property
    def waits(self) -> tuple[Wait, ...]:
        """Who waits for whom: whoever holds a waiting operation, for its dependency's holder or for that."""
        held = {each.operation: each.holder for each in self.handoffs}
        return tuple(
            Wait(each.holder, held.get(on) or on)
            for each in self.handoffs
            if each.verdict.state is HandoffState.WAITING and each.holder is not None
            for on in [each.dependency]
            if on is not None
        )


def audits_now(run: Run, now: datetime, *, most: int | None = None) -> Audits:
    """Judge a run's receipts as they are now; with `most` only so many of its operations and stops.

    Of the stops that is at most `MOST_STOPS` that came last, and as many of those that wait still.
    """
    ends = one_a_loop(links([run.pk], ("stopped",)))
    on = gone_on(ends)
    waits = [item for item in ends if is_wait(item) and item.event_id not in on]
    wanted = ends if most is None else [*_newest(ends), *_newest(waits)]
    routed = newest_by_subject(links([run.pk], ("approval_routed",)))
    checked = latest(run.pk, "outcome_checked")
    handoffs = tuple(handoffs_now(run, now, most=most))
    pending = _pending(_judged(waits, on, routed, checked), handoffs)
    topology, problem = _topology(run, now, end_of(ends, on) is not None, pending)
    operations = len(handoffs) if most is None or len(handoffs) < most else operations_in(run)
    stops = tuple(_judged({item.id: item for item in wanted}.values(), on, routed, checked))
    return Audits(stops, handoffs, topology, operations, len(ends), problem)


def _newest(ends: Iterable[Link]) -> list[Link]:
    """Return the last of some stops by when they happened."""
    return sorted(ends, key=lambda item: (item.at, item.id))[-MOST_STOPS:]


def audits_json(audits: Audits | None) -> dict[str, Any]:
    """Return the audits as machines read them; without a run there is nothing to judge."""
    if audits is None:
        return {"stops": [], "handoffs": [], "topology": None}
    return {
        "stops": [_stop_json(each) for each in audits.stops],
        "handoffs": [
            {
                "operation_id": each.operation,
                "state": str(each.verdict.state),
                "reasons": list(each.verdict.reasons),
            }
            for each in audits.handoffs
        ],
        "topology": None if audits.topology is None else audits.topology.verdict.as_json(),
    }


def counts_json(audits: Audits | None) -> dict[str, int]:
    """Return how much there is in all, beside what was judged of it where that is bounded."""
    if audits is None:
        return {"operations": 0, "judged": 0, "ends": 0}
    return {"operations": audits.operations, "judged": len(audits.handoffs), "ends": audits.ends}


def _stop_json(audit: StopAudit) -> dict[str, Any]:
    """Return one stop; `went_on`, the receipt's seq, is there only where its loop waits no more."""
    on = {} if audit.went_on is None else {"went_on": audit.went_on.seq}
    return {"state": str(audit.verdict.state), "reasons": list(audit.verdict.reasons), **on}


def _judged(
    ends: Iterable[Link], on: Mapping[str, Link], routed: Mapping[str, Link], checked: Link | None
) -> Iterator[StopAudit]:
    for stopped in sorted(ends, key=lambda item: (item.at, item.id)):
        route = routed.get(stopped.event_id)
        verdict = stop_verdict(stopped, checked, route)
        if verdict is not None:
            went_on = on.get(stopped.event_id) if verdict.state in _APPROVAL else None
            yield StopAudit(stopped, verdict, route, went_on)


def _pending(stops: Iterable[StopAudit], handoffs: Iterable[HandoffAudit]) -> _Pending:
    """Return the wait of a run that is due first: an operation's, or an approval that has an owner.

    One without a deadline counts only where none has one: it can never be overdue.
    """
    waits = [
        _Pending(each.dependency, each.deadline)
        for each in handoffs
        if each.verdict.state is HandoffState.WAITING
    ]
    for each in stops:
        approval = (approval_of(each.stopped, each.routed) or {}) if each.waits else {}
        if approval.get("owner"):
            waits.append(_Pending(approval["owner"], approval.get("deadline")))
    due = [(parse(wait.deadline), wait) for wait in waits if wait.deadline]
    if due:
        return min(due, key=lambda each: each[0])[1]
    return waits[0] if waits else _Pending()


def _topology(
    run: Run, now: datetime, is_over: bool, pending: _Pending
) -> tuple[TopologyAudit | None, str | None]:
    contract = contract_of(run)
    started = start_of(run)
    if contract is None or started is None:
        return None, None
    before, own = inherited_edges(run), own_edges(run)
    observed = sum(edge.count for edge in (*before, *own))
    judged, events = observation(run, before, own, contract, now)
    own_facts = run_facts(run, started, contract, now)
    waiting = {"parent_terminal": is_over, "deadline": pending.deadline, "dependency": pending.dependency}
    facts = {"contract": judged, "run": {**own_facts, **waiting}, "events": events}
    try:
        verdict = judge_topology(parse_topology(facts))
    except FactError as error:
        return None, error.field
    pinned = own_facts["pinned_version"]
    return TopologyAudit(
        verdict,
        observed,
        evidence=own_facts["evidence"],
        is_unproved=is_over and not own_facts["outcome_receipt"],
        of_another_version=sum(
            edge.count for edge in (*before, *own) if (edge.version or str(contract["version"])) != pinned
        ),
    ), None


def start_of(run: Run) -> Link | None:
    """Return the start that froze a run's contract: its root's. A branch that has not begun has none yet."""
    if run.parent_id is not None and latest(run.pk, "started") is None:
        return None
    return latest(run.family_id, "run_started")
