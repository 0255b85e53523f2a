"""Very many interactions are judged by their counts, and as if each had been judged by itself."""

from datetime import UTC, datetime
from typing import Any
from unittest import mock

from hypothesis import given
from hypothesis import strategies as some

from branches.models import Run
from branches.queries import topology_events
from branches.queries.edges import SeenEdge
from branches.queries.topology_events import observation
from branches.rules.topology import judge_topology, parse_topology

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
AGENTS = ["a", "b", "c"]
NAMES = some.sampled_from([*AGENTS, "stranger"])
SEEN = some.lists(
    some.builds(
        SeenEdge,
        source=NAMES,
        target=NAMES,
        kind=some.sampled_from(["hand", "tell"]),
        version=some.sampled_from(["", "1", "0"]),
        status=some.sampled_from(["ok", "error", "unset"]),
        count=some.integers(1, 12),
        first_event=some.just(""),
    ),
    max_size=8,
)
MOST = some.lists(some.integers(1, 12), min_size=4, max_size=4)


def judged(before: list[SeenEdge], most: list[int], bound: int, *, is_over: bool) -> dict[str, Any]:
    pairs = [("a", "b", "hand"), ("b", "c", "hand"), ("c", "a", "tell"), ("a", "c", "tell")]
    contract = {
        "version": "1",
        "agents": AGENTS,
        "edges": [
            {"from": source, "to": target, "kind": kind, "max": number}
            for (source, target, kind), number in zip(pairs, most, strict=True)
        ],
        "phases": {"all": ["a>b:hand", ["b>c:hand", "c>a:tell"]]},
    }
    with (
        mock.patch.object(topology_events, "MOST_ONE_BY_ONE", bound),
        mock.patch.object(topology_events, "links", return_value=[]),
    ):
        shrunk, events = observation(Run(), before, [], contract, NOW)
    run = {
        "pinned_version": "1",
        "phase": "all",
        "parent_terminal": is_over,
        "outcome_receipt": is_over,
        "evidence": "complete",
        "now": NOW.isoformat(),
        "deadline": None,
        "dependency": None,
        "last_progress_at": None,
    }
    verdict = judge_topology(parse_topology({"contract": shrunk, "run": run, "events": events})).as_json()
    if verdict["verdict"] == "stale_contract":  # names every offending event, or the first of each edge
        verdict["reasons"] = sorted({reason.partition(".")[0] for reason in verdict["reasons"]})
    return verdict


@given(SEEN, MOST, some.booleans())
def test_the_verdict_is_the_same_whether_each_is_judged_or_their_counts(
    seen: list[SeenEdge], most: list[int], is_over: bool
) -> None:
    once = {(e.source, e.target, e.kind, e.version, e.status): e for e in seen}.values()
    named = [
        SeenEdge(e.source, e.target, e.kind, e.version, e.status, e.count, f"evt{number}")
        for number, e in enumerate(once)
    ]
    assert judged(named, most, 10_000, is_over=is_over) == judged(named, most, 0, is_over=is_over)


def test_a_million_of_an_edge_are_few_events() -> None:
    many = [SeenEdge("a", "b", "hand", "1", "ok", 1_000_000, "evt1")]
    contract = {
        "version": "1",
        "agents": AGENTS,
        "edges": [{"from": "a", "to": "b", "kind": "hand", "max": 2_000_000}],
        "phases": {},
    }
    shrunk, events = observation(Run(), many, [], contract, NOW)
    assert (len(events), shrunk["edges"][0]["max"]) == (1, 1)
