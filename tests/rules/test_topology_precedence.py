"""Section 3 against an independent statement of its table, and each row reached from a healthy run."""

from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rule_cases import judge

START = datetime.fromisoformat("2026-11-30T09:00:00+00:00")
CONTRACT = {
    "version": "v3",
    "agents": ["lead", "scout", "judge"],
    "edges": [
        {"from": "lead", "to": "scout", "kind": "delegate", "max": 2},
        {"from": "scout", "to": "judge", "kind": "evidence"},
        {"from": "judge", "to": "lead", "kind": "return"},
    ],
    "phases": {
        "all": ["lead>scout:delegate", "scout>judge:evidence", "judge>lead:return"],
        "choice": ["lead>scout:delegate", ["scout>judge:evidence", "judge>lead:return"]],
        "none": [],
    },
}
ACTIONS = {
    "stale_contract": "compare_with_the_pinned_version",
    "unknown_agent": "verify_identity",
    "forbidden_edge": "contain_the_route",
    "ambiguous_route": "reconcile_ownership",
    "uncertain": "ask_before_acting",
    "false_complete": "verify_or_reopen",
    "healthy": "none",
    "waiting": "route_the_dependency",
    "incomplete": "inspect_first_missing_edge",
    "working": "leave_alone",
}


def time(minutes):
    return (START + timedelta(minutes=minutes)).isoformat()


def seen(source, target, kind, **more):
    key = f"{source}-{target}-{kind}"
    found = {"event_id": key, "from": source, "to": target, "kind": kind, "version": "v3", "at": time(1)}
    return found | {"status": "ok"} | more


DELEGATE, EVIDENCE, RETURN = (seen(edge["from"], edge["to"], edge["kind"]) for edge in CONTRACT["edges"])


def run(**changes):
    usual = {"pinned_version": "v3", "phase": "all", "parent_terminal": True, "outcome_receipt": True}
    times = {"now": time(5), "deadline": time(10), "last_progress_at": time(4)}
    return usual | times | {"evidence": "complete", "dependency": None} | changes


LAWFUL = [(edge["from"], edge["to"], edge["kind"]) for edge in CONTRACT["edges"]]
FOREIGN = [("scout", "lead", "return"), ("lead", "ghost", "delegate"), ("imp", "imp", "return")]


@st.composite
def observations(draw):
    """Some of the lawful edges, and sometimes one interaction more of any kind."""
    found = [seen(*ends) for ends in draw(st.lists(st.sampled_from(LAWFUL), max_size=3, unique=True))]
    if found and draw(st.booleans()):
        draw(st.sampled_from(found))["status"] = draw(st.sampled_from(["error", "unset"]))
    if draw(st.booleans()):
        ends = draw(st.sampled_from([*LAWFUL, *FOREIGN]))
        found.append(seen(*ends, version=draw(st.sampled_from(["v3", "v3", "v2"]))))
    return [event | {"event_id": f"e{n}"} for n, event in enumerate(found)]


topologies = st.fixed_dictionaries(
    {
        "contract": st.sampled_from([CONTRACT] * 15 + [CONTRACT | {"version": "v4"}]),
        "run": st.builds(
            run,
            phase=st.sampled_from(["all", "choice", "none"]),
            parent_terminal=st.booleans(),
            outcome_receipt=st.booleans(),
            evidence=st.sampled_from(["complete"] * 6 + ["sampled", "unknown"]),
            deadline=st.sampled_from([None, time(4), time(5), time(6)]),
            dependency=st.sampled_from([None, "", "judge"]),
            last_progress_at=st.sampled_from([None, time(0), time(4), time(5)]),
            progress_s=st.sampled_from([0, 60, 300]),
        ),
        "events": observations(),
    }
)


def key(event):
    return f"{event['from']}>{event['to']}:{event['kind']}"


def missing_of(contract, phase, events):
    done = {key(event) for event in events if event["status"] == "ok"}
    found = set()
    for expected in contract["phases"][phase]:
        choice = [expected] if isinstance(expected, str) else expected
        if not any(one in done for one in choice):
            found.add("|".join(sorted(choice)))
    return found


def table(facts):
    contract, how, events = facts["contract"], facts["run"], facts["events"]
    now = datetime.fromisoformat(how["now"])
    limits = {key(edge): edge.get("max", 1) for edge in contract["edges"]}
    keys = [key(event) for event in events]
    stale = {event["event_id"] for event in events if event["version"] != how["pinned_version"]}
    stale |= {"contract"} if contract["version"] != how["pinned_version"] else set()
    unknown = {event[end] for event in events for end in ("from", "to")} - set(contract["agents"])
    forbidden = set(keys) - set(limits)
    crowded = {one for one in limits if keys.count(one) > limits[one]}
    missing = missing_of(contract, how["phase"], events)
    unproved = missing | (set() if how["outcome_receipt"] else {"no_outcome_receipt"})
    due = how["deadline"] and datetime.fromisoformat(how["deadline"])
    progress = how["last_progress_at"] and datetime.fromisoformat(how["last_progress_at"])
    recent = bool(progress) and (now - progress).total_seconds() <= how.get("progress_s", 600)
    over = how["parent_terminal"]
    rows = [
        ("stale_contract", stale, stale),
        ("unknown_agent", unknown, unknown),
        ("forbidden_edge", forbidden, forbidden),
        ("ambiguous_route", crowded, crowded),
        ("uncertain", how["evidence"] != "complete", {how["evidence"]}),
        ("false_complete", over and unproved, unproved),
        ("healthy", over, set()),
        (
            "waiting",
            missing and how["dependency"] and due and now <= due,
            {f"dependency:{how['dependency']}"},
        ),
        ("incomplete", missing and due and now > due, missing),
        ("working", recent, set()),
        ("uncertain", True, {"no_recent_progress"}),
    ]
    state, _, reasons = next(row for row in rows if row[1])
    return {
        "verdict": state,
        "reasons": sorted(reasons),
        "missing": sorted(missing),
        "naive_green": len(events) > 0 and {event["status"] for event in events} == {"ok"},
        "next_action": ACTIONS[state],
    }


@settings(max_examples=400, deadline=None)
@given(topologies)
def test_it_judges_any_coordination_as_the_table_says(facts):
    assert judge("topology", facts) == table(facts)


@settings(max_examples=100, deadline=None)
@given(topologies)
def test_it_counts_an_event_delivered_twice_once(facts):
    again = [event | {"at": event["at"].replace("+00:00", ".0Z")} for event in facts["events"]]
    assert judge("topology", facts | {"events": facts["events"] + again}) == judge("topology", facts)


ALL = [DELEGATE, EVIDENCE, RETURN]
OPEN = {"parent_terminal": False, "outcome_receipt": False}
LACKS = "judge>lead:return"
MOVES = [
    (ALL, {}, "healthy", []),
    (ALL, {"pinned_version": "v2"}, "stale_contract", ["contract", *sorted(e["event_id"] for e in ALL)]),
    ([*ALL, seen("lead", "ghost", "x"), seen("imp", "lead", "x")], {}, "unknown_agent", ["ghost", "imp"]),
    ([*ALL, seen("scout", "lead", "return")], {}, "forbidden_edge", ["scout>lead:return"]),
    ([*ALL, seen("scout", "lead", "return", status="error")], {}, "forbidden_edge", ["scout>lead:return"]),
    (
        [*ALL, seen("lead", "scout", "delegate:delegate")],
        {},
        "forbidden_edge",
        ["lead>scout:delegate:delegate"],
    ),
    ([*ALL, RETURN | {"event_id": "x"}], {}, "ambiguous_route", [LACKS]),
    ([*ALL, RETURN | {"event_id": "x", "status": "error"}], {}, "ambiguous_route", [LACKS]),
    ([*ALL, DELEGATE | {"event_id": "x", "status": "error"}], {}, "healthy", []),
    (ALL, {"evidence": "sampled"}, "uncertain", ["sampled"]),
    (ALL, {"evidence": "unknown"}, "uncertain", ["unknown"]),
    (ALL, {"outcome_receipt": False}, "false_complete", ["no_outcome_receipt"]),
    (ALL[:2], {}, "false_complete", [LACKS]),
    ([*ALL[:2], RETURN | {"status": "unset"}], {}, "false_complete", [LACKS]),
    (ALL[:1], {"phase": "choice"}, "false_complete", [f"{LACKS}|scout>judge:evidence"]),
    ([], {"phase": "none"}, "healthy", []),
    (ALL[:2], OPEN | {"dependency": "judge"}, "waiting", ["dependency:judge"]),
    (ALL[:2], OPEN | {"dependency": "judge", "deadline": time(5)}, "waiting", ["dependency:judge"]),
    (ALL[:2], OPEN | {"dependency": "judge", "deadline": None}, "working", []),
    (ALL[:2], OPEN | {"dependency": "judge", "deadline": time(4)}, "incomplete", [LACKS]),
    (ALL[:2], OPEN | {"dependency": ""}, "working", []),
    (ALL, OPEN | {"dependency": "judge"}, "working", []),
    (ALL[:2], OPEN | {"progress_s": 60}, "working", []),
    (ALL[:2], OPEN | {"progress_s": 59}, "uncertain", ["no_recent_progress"]),
    (ALL[:2], OPEN | {"last_progress_at": None}, "uncertain", ["no_recent_progress"]),
]


@pytest.mark.parametrize(("events", "changes", "state", "reasons"), MOVES)
def test_it_moves_as_the_table_says_when_facts_change(events, changes, state, reasons):
    found = judge("topology", {"contract": CONTRACT, "run": run(**changes), "events": events})
    assert (found["verdict"], found["reasons"], found["next_action"]) == (state, reasons, ACTIONS[state])


def test_it_says_of_a_run_without_events_that_not_even_the_common_rule_is_green():
    found = judge("topology", {"contract": CONTRACT, "run": run(phase="none"), "events": []})
    assert (found["verdict"], found["naive_green"]) == ("healthy", False)


def test_it_writes_a_missing_edge_once_however_often_a_phase_asks_for_it():
    asked = ["judge>lead:return", ["judge>lead:return"], ["judge>lead:return"]]
    contract = CONTRACT | {"phases": {"all": asked}}
    found = judge("topology", {"contract": contract, "run": run(), "events": []})
    assert found["missing"] == ["judge>lead:return"]
