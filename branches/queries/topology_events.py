"""What was observed of a run's coordination, as the rules take it: facts, and events or few for many."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from branches.models import Run
from branches.queries.chains import Link, latest, links
from branches.queries.clock import stamp
from branches.queries.counted import is_short
from branches.queries.declarations import declaration_of
from branches.queries.edges import SeenEdge

MOST_ONE_BY_ONE: Final = 500
"""Up to so many interactions are judged one by one, beyond that by their counts."""

_WHOLE: Final = frozenset({"full", "imported_whole"})
"""Recorded apart from any sampling, or imported from what somebody declares to hold everything."""

type _Pair = tuple[str, str, str]


def observation(
    run: Run, before: Sequence[SeenEdge], own: Sequence[SeenEdge], contract: Mapping[str, Any], now: datetime
) -> tuple[Mapping[str, Any], list[dict[str, Any]]]:
    """Return a contract and the events to judge by it: the verdict is that of all that was observed.

    `before` are the edges of a branch's ancestors, `own` those of the run itself. Beyond the bound each edge
    stands for all that were equal to it, and how often it may be seen shrinks with it.
    """
    pinned = str(contract["version"])
    if sum(edge.count for edge in (*before, *own)) <= MOST_ONE_BY_ONE:
        single = (_interaction(item, pinned, now) for item in links([run.pk], ("interaction",)))
        return contract, [*_each(_apart(before), pinned, now), *single]
    seen = [*_apart(before), *own]
    return _shrunk(contract, seen), list(_few(contract, seen, pinned, now))


def _apart(before: Iterable[SeenEdge]) -> Iterator[SeenEdge]:
    """Yield what ancestors did under ids of its own: a branch may use an id of theirs again."""
    return (replace(edge, first_event=f"before.{edge.first_event}") for edge in before)


def _shrunk(contract: Mapping[str, Any], seen: Iterable[SeenEdge]) -> Mapping[str, Any]:
    """Return the contract in which an edge may be seen as often as it stands in the shrunk events."""
    rows = Counter(_pair(edge) for edge in seen)
    over = _over(contract, seen)
    edges = [
        {**edge, "max": 1 if pair in over else max(1, rows[pair])}
        for edge in contract["edges"]
        for pair in [(edge["from"], edge["to"], edge["kind"])]
    ]
    return {**contract, "edges": edges}


def _few(
    contract: Mapping[str, Any], seen: Sequence[SeenEdge], pinned: str, now: datetime
) -> Iterator[dict[str, Any]]:
    """Yield one event for all that were equal, and a second where there were too many of an edge.

    Of the offending events of another contract version so the first of each edge is named.
    """
    over = _over(contract, seen)
    for edge in seen:
        yield _event(edge, 0, pinned, now)
        if _pair(edge) in over and edge.version in ("", pinned):
            yield _event(edge, 1, pinned, now)


def _over(contract: Mapping[str, Any], seen: Iterable[SeenEdge]) -> frozenset[_Pair]:
    """Return the edges that were seen more often than the contract allows."""
    total: Counter[_Pair] = Counter()
    for edge in seen:
        total[_pair(edge)] += edge.count
    most = {(edge["from"], edge["to"], edge["kind"]): edge.get("max", 1) for edge in contract["edges"]}
    return frozenset(pair for pair, count in total.items() if pair in most and count > most[pair])


def _each(seen: Iterable[SeenEdge], pinned: str, now: datetime) -> Iterator[dict[str, Any]]:
    for edge in seen:
        for number in range(edge.count):
            yield _event(edge, number, pinned, now)


def _pair(edge: SeenEdge) -> _Pair:
    return edge.source, edge.target, edge.kind


def _event(edge: SeenEdge, number: int, pinned: str, now: datetime) -> dict[str, Any]:
    return {
        "event_id": edge.first_event if number == 0 else f"{edge.first_event}.{number}",
        "from": edge.source,
        "to": edge.target,
        "kind": edge.kind,
        "version": edge.version or pinned,
        "at": stamp(now),
        "status": edge.status,
    }


def _interaction(item: Link, version: str, now: datetime) -> dict[str, Any]:
    return {
        "event_id": item.event_id,
        "from": item.body["from"],
        "to": item.body["to"],
        "kind": item.body["kind"],
        "version": item.body["contract_version"] or version,
        "at": stamp(min(item.at, item.recorded_at, now)),
        "status": item.body["status"],
    }


def _evidence(run: Run, started: Link) -> str:
    """Return what a topology rests on: a gap that was said outweighs who declares that there is none.

    What its writer counted and nobody has may have been an edge.
    """
    line = [run]
    while line[-1].parent is not None:
        line.append(line[-1].parent)
    gaps = {item.body["gap"] for item in links([each.pk for each in line], ("recording_gap",))}
    if "sampled" in gaps:
        return "sampled"
    if started.body["recording"] not in _WHOLE or gaps or any(map(is_short, line)):
        return "unknown"
    return "complete"


def _only_phase(contract: Mapping[str, Any]) -> str:
    """Return the phase of a run that names none, where the contract has but one."""
    phases = list(contract["phases"])
    return str(phases[0]) if len(phases) == 1 else ""


def _limit(run: Run) -> dict[str, int]:
    """Return after how many seconds without progress the workflow worries, where it says so."""
    declaration = declaration_of(run)
    limits = declaration.handoffs.limits if declaration else {}
    return {name: limits[name] for name in ("progress_s",) if name in limits}


def run_facts(run: Run, started: Link, contract: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """Return what the rules take of a run, but whether it is over and what it waits for; times as text."""
    checked, progress = latest(run.pk, "outcome_checked"), latest(run.pk, "progress")
    has_receipt = checked is not None and checked.body["check"] == "passed" and checked.body["fresh"]
    return {
        "pinned_version": started.body["contract_version"] or str(contract["version"]),
        "phase": started.body["phase"] or _only_phase(contract),
        "outcome_receipt": bool(has_receipt),
        "evidence": _evidence(run, started),
        "now": stamp(now),
        "last_progress_at": None if progress is None else stamp(min(progress.at, progress.recorded_at, now)),
        **_limit(run),
    }
