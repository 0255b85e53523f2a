"""The three audits of a run, judged from its receipts: handoffs, topology, stops."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db.models import Max, Q

from branches.models import AuditState, Receipt, Run
from branches.queries.chains import Link, latest, links, newest_by_subject
from branches.queries.clock import stamp
from branches.queries.contracts import contract_of
from branches.queries.declarations import declaration_of
from branches.queries.edges import inherited_edges, own_edges
from branches.queries.run_stop import stop_verdict
from branches.queries.topology_events import observation
from branches.rules.facts import FactError
from branches.rules.handoffs import judge_handoff, parse_handoff
from branches.rules.topology import judge_topology, parse_topology
from branches.rules.verdicts import HandoffState, HandoffVerdict, StopVerdict, TopologyVerdict
from branches.rules.waits import Wait

MOST_SHOWN: Final = 300
"""As many operations of a run are judged for a page, those that moved last."""
NEEDS_ATTENTION: Final = frozenset(
    set(HandoffState) - {HandoffState.WORKING, HandoffState.DELEGATED, HandoffState.VERIFIED}
)
_WHOLE: Final = frozenset({"full", "imported_whole"})
"""Recorded apart from any sampling, or imported from what somebody declares to hold everything."""
_SAID: Final = ("receiver", "expected_artifact", "dependency", "deadline", "reason")


@dataclass(frozen=True, slots=True)
class StopAudit:
    """One loop's end: its receipt, what the rules say of it, and who said whom its approval waits for."""

    stopped: Link
    verdict: StopVerdict
    routed: Link | None = None


@dataclass(frozen=True, slots=True)
class HandoffAudit:
    """One operation: its handoff receipts, oldest first, and what the rules say of them."""

    operation: str
    events: tuple[Link, ...]
    verdict: HandoffVerdict

    @property
    def holder(self) -> str | None:
        """The receiver of the newest delegation."""
        receivers = [
            event.body.get("receiver") for event in self.events if event.body["event"] == "delegated"
        ]
        return receivers[-1] if receivers else None

    @property
    def dependency(self) -> str | None:
        """What its newest wait is for."""
        waits = [event.body.get("dependency") for event in self.events if event.body["event"] == "waiting"]
        return waits[-1] if waits else None


@dataclass(frozen=True, slots=True)
class TopologyAudit:
    """A run against its pinned contract."""

    verdict: TopologyVerdict
    observed: int


@dataclass(frozen=True, slots=True)
class Audits:
    """What the three audits say of a run now."""

    stops: tuple[StopAudit, ...]
    handoffs: tuple[HandoffAudit, ...]
    topology: TopologyAudit | None
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
    """Judge a run's receipts as they are now; with `most` only so many of its operations."""
    topology, problem = _topology(run, now)
    return Audits(tuple(_stops(run)), tuple(handoffs_now(run, now, most=most)), topology, problem)


def audits_json(audits: Audits | None) -> dict[str, Any]:
    """Return the audits as machines read them; without a run there is nothing to judge."""
    if audits is None:
        return {"stops": [], "handoffs": [], "topology": None}
    return {
        "stops": [
            {"state": str(each.verdict.state), "reasons": list(each.verdict.reasons)} for each in audits.stops
        ],
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


def _stops(run: Run) -> Iterator[StopAudit]:
    checked = latest(run.pk, "outcome_checked")
    routed = newest_by_subject(links([run.pk], ("approval_routed",)))
    newest = {item.body.get("loop_ref") or item.event_id: item for item in links([run.pk], ("stopped",))}
    for stopped in sorted(newest.values(), key=lambda item: (item.at, item.id)):
        route = routed.get(stopped.event_id)
        verdict = stop_verdict(stopped, checked, route)
        if verdict is not None:
            yield StopAudit(stopped, verdict, route)


def handoffs_now(
    run: Run, now: datetime, *, only: Collection[str] | None = None, most: int | None = None
) -> Iterator[HandoffAudit]:
    """Judge the operations of a run now, or only some, by the limits that its workflow declares.

    One whose receipts do not fit together is uncertain: they are evidence of nothing. With `most` only so
    many are judged that moved last, and as many that needed attention when they were last looked at.
    """
    declaration = declaration_of(run)
    limits = dict(declaration.handoffs.limits) if declaration else {}
    by_operation: dict[str, list[Link]] = {}
    for item in links([run.pk], ("handoff",), where=_those(run, only, most)):
        by_operation.setdefault(item.body["operation"], []).append(item)
    writer = run.recorder.uid if run.recorder is not None else None
    for operation, events in by_operation.items():
        facts = {
            "operation_id": operation,
            "now": stamp(now),
            "limits": limits,
            "events": [_handoff_event(item, now, writer) for item in events],
        }
        try:
            verdict = judge_handoff(parse_handoff(facts))
        except FactError:
            verdict = judge_handoff(parse_handoff({**facts, "evidence": "unavailable", "events": []}))
        yield HandoffAudit(operation, tuple(events), verdict)


def _those(run: Run, only: Collection[str] | None, most: int | None) -> Q | None:
    if only is not None:
        return Q(subject__in=list(only))
    if most is None or operations_in(run) <= most:
        return None
    own = Receipt.objects.filter(run=run, kind="handoff")
    if run.recorder is not None:
        own = own.filter(writer=run.recorder.uid)  # what others say does not push anything out of sight
    newest = own.values("subject").annotate(last=Max("id")).order_by("-last")
    noted = AuditState.objects.filter(run=run, state__in=NEEDS_ATTENTION).order_by("-since")
    wanted = [*newest.values_list("subject", flat=True)[:most]]
    return Q(subject__in=[*wanted, *noted.values_list("operation", flat=True)[:most]])


def operations_in(run: Run) -> int:
    """Return how many operations were handed over in a run."""
    return Receipt.objects.filter(run=run, kind="handoff").values("subject").distinct().count()


def _handoff_event(item: Link, now: datetime, writer: str | None) -> dict[str, Any]:
    """Return one event; a clock that runs ahead is not believed beyond when the server had its word."""
    said = {name: item.body[name] for name in _SAID if item.body.get(name) is not None}
    return {
        "handoff_id": item.body["handoff"],
        "event": item.body["event"],
        "at": stamp(min(item.at, item.recorded_at, now)),
        "agent": item.actor.get("name") or item.actor["id"],
        **said,
        "trusted": item.writer == writer,
    }


def _topology(run: Run, now: datetime) -> tuple[TopologyAudit | None, str | None]:
    contract = contract_of(run)
    started = start_of(run)
    if contract is None or started is None:
        return None, None
    before, own = inherited_edges(run), own_edges(run)
    observed = sum(edge.count for edge in (*before, *own))
    judged, events = observation(run, before, own, contract, now)
    facts = {"contract": judged, "run": _run_facts(run, started, contract, now), "events": events}
    try:
        return TopologyAudit(judge_topology(parse_topology(facts)), observed), None
    except FactError as error:
        return None, error.field


def start_of(run: Run) -> Link | None:
    """Return the start that froze a run's contract: its root's. A branch that has not begun has none yet."""
    if run.parent_id is not None and latest(run.pk, "started") is None:
        return None
    return latest(run.family_id, "run_started")


def _evidence(run: Run, started: Link) -> str:
    """Return what a topology rests on: a gap that was said outweighs who declares that there is none."""
    line, at = [run.pk], run.parent
    while at is not None:
        line.append(at.pk)
        at = at.parent
    gaps = {item.body["gap"] for item in links(line, ("recording_gap",))}
    if "sampled" in gaps:
        return "sampled"
    return "complete" if started.body["recording"] in _WHOLE and not gaps else "unknown"


def _only_phase(contract: Mapping[str, Any]) -> str:
    """Return the phase of a run that names none, where the contract has but one."""
    phases = list(contract["phases"])
    return str(phases[0]) if len(phases) == 1 else ""


def _run_facts(run: Run, started: Link, contract: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    checked, progress = latest(run.pk, "outcome_checked"), latest(run.pk, "progress")
    has_receipt = checked is not None and checked.body["check"] == "passed" and checked.body["fresh"]
    return {
        "pinned_version": started.body["contract_version"] or str(contract["version"]),
        "phase": started.body["phase"] or _only_phase(contract),
        "parent_terminal": latest(run.pk, "stopped") is not None,
        "outcome_receipt": bool(has_receipt),
        "evidence": _evidence(run, started),
        "now": stamp(now),
        "deadline": None,
        "dependency": None,
        "last_progress_at": None if progress is None else stamp(min(progress.at, progress.recorded_at, now)),
    }
