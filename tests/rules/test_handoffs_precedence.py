"""Section 2 against an independent statement of its table, and the rows it is easy to get wrong."""

from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rule_cases import judge

START = datetime.fromisoformat("2026-11-30T09:00:00+00:00")
OUTCOMES = ("outcome_verified", "outcome_failed")
WORK = ("progress", "waiting", "completed", *OUTCOMES)
ACTIONS = {
    "uncertain": "ask_before_acting",
    "verified": "none",
    "failed_outcome": "reopen_outcome",
    "false_success": "verify_or_reopen",
    "waiting": "route_the_dependency",
    "orphaned": "redeliver_if_idempotent",
    "delegated": "leave_alone",
    "stuck": "prepare_bounded_recovery",
    "working": "leave_alone",
}


def time(minutes):
    return (START + timedelta(minutes=minutes)).isoformat()


def event(word, minutes, handoff="h-1", **more):
    usual = {
        "delegated": {"receiver": "worker", "expected_artifact": "sha256:a"},
        "waiting": {"dependency": "dns"},
    }
    agent = {"delegated": "sender", "released": "sender", **dict.fromkeys(OUTCOMES, "checker")}.get(
        word, "worker"
    )
    found = {"handoff_id": handoff, "event": word, "at": time(minutes), "agent": agent}
    return found | usual.get(word, {}) | more


def story(*events, now=60, **more):
    return {"operation_id": "op", "now": time(now), "events": list(events), **more}


def state_of(*events, **more):
    found = judge("handoffs", story(*events, **more))
    return found["state"], found["reasons"], found["next_action"]


lives = st.sampled_from(
    [
        *("delegated", "delegated accepted", "delegated accepted waiting", "delegated accepted progress"),
        *("delegated accepted completed", "delegated accepted completed outcome_verified"),
        *("delegated accepted completed outcome_failed", "delegated rejected", "delegated released"),
        *("delegated accepted released", "delegated accepted completed waiting", "accepted progress"),
        *(
            "delegated accepted completed outcome_failed outcome_verified",
            "delegated accepted waiting released",
        ),
    ]
)


@st.composite
def histories(draw):
    """One to three plausible lives of handoffs, some with one thing wrong, in a random order of arrival."""
    events = []
    for number in range(draw(st.integers(1, 3))):
        minute = draw(st.integers(0, 12))
        for word in draw(lives).split():
            events.append(event(word, minute, handoff=f"h-{number}"))
            minute += draw(st.integers(0, 6))
    if draw(st.integers(0, 3)) == 0:
        wrong = draw(st.sampled_from(events))
        wrong |= draw(
            st.sampled_from(
                [
                    *({"agent": "worker"}, {"agent": "checker"}, {"trusted": False}, {"at": time(0)}),
                    *({"expected_artifact": "sha256:b"}, {"dependency": ""}, {"handoff_id": "h-0"}),
                    {"deadline": time(5), "dependency": None},
                ]
            )
        )
    if draw(st.booleans()):
        events.append(dict(draw(st.sampled_from(events))))
    latest = max(datetime.fromisoformat(found["at"]) for found in events)
    limits = st.fixed_dictionaries(
        {}, optional={f"{word}_s": st.sampled_from([0, 60, 300]) for word in LIMITS}
    )
    return {
        "operation_id": "op",
        "now": (latest + timedelta(minutes=draw(st.integers(0, 12)))).isoformat(),
        "limits": draw(limits),
        "events": draw(st.permutations(events)) if draw(st.booleans()) else events,
    }


LIMITS = {"acceptance": 120, "progress": 600, "verification": 0}


def ordered(facts):
    seen = []
    for found in facts["events"]:
        full = {"trusted": True, "receiver": None, "expected_artifact": None, "deadline": None, **found}
        full["dependency"] = found.get("dependency") or None
        full["at"] = datetime.fromisoformat(found["at"])
        if full not in seen:
            seen.append(full)
    return sorted(seen, key=lambda found: found["at"])


def disagreements(events):
    by_id = {}
    for place, found in enumerate(events):
        by_id.setdefault(found["handoff_id"], []).append((place, found))
    delegated = {
        name: steps for name, steps in by_id.items() if any(e["event"] == "delegated" for _, e in steps)
    }
    every = [(name, place, e) for name, steps in delegated.items() for place, e in steps]
    delegations = {
        name: [(p, e) for p, e in steps if e["event"] == "delegated"] for name, steps in delegated.items()
    }
    receivers = {name: {e["receiver"] for _, e in found} for name, found in delegations.items()}
    artifacts = {name: {e["expected_artifact"] for _, e in found} for name, found in delegations.items()}
    places = {
        name: {word: [p for p, e in steps if e["event"] == word] for word in ("accepted", "rejected")}
        for name, steps in delegated.items()
    }
    words = {name: {e["event"] for _, e in steps} for name, steps in delegated.items()}
    owned = [n for n, w in words.items() if "accepted" in w and not w & {"completed", "rejected", "released"}]
    by_receiver = ("accepted", "rejected", "progress", "waiting", "completed")
    return {
        "untrusted_writer": any(not e["trusted"] for e in events),
        "no_delegation": len(delegated) < len(by_id),
        "delegated_twice": any(len(found) > 1 for found in delegations.values()),
        "before_delegation": any(p < delegations[n][0][0] for n, p, _ in every),
        "receiver_mismatch": any(
            e["event"] in by_receiver and e["agent"] not in receivers[n] for n, _, e in every
        ),
        "work_without_acceptance": any(
            e["event"] in WORK and not any(a < p for a in places[n]["accepted"]) for n, p, e in every
        ),
        "accepted_after_rejection": any(
            e["event"] == "accepted" and any(r < p for r in places[n]["rejected"]) for n, p, e in every
        ),
        "artifact_changed": len(set().union(*artifacts.values())) > 1,
        "artifact_mismatch": any(
            e["event"] in OUTCOMES and e["expected_artifact"] and e["expected_artifact"] not in artifacts[n]
            for n, _, e in every
        ),
        "self_verified": any(
            e["event"] == "outcome_verified" and e["agent"] in set().union(*receivers.values())
            for _, _, e in every
        ),
        "waiting_without_dependency": any(
            e["event"] == "waiting" and not e["dependency"] for _, _, e in every
        ),
        "two_owners": len(owned) >= 2,
    }


def table(facts):
    now = datetime.fromisoformat(facts["now"])
    events = ordered(facts)
    wrong = {word for word, holds in disagreements(events).items() if holds}
    if wrong:
        return "uncertain", sorted(wrong), ACTIONS["uncertain"]
    limit = {word: facts.get("limits", {}).get(f"{word}_s", usual) for word, usual in LIMITS.items()}
    newest_delegation = max(place for place, e in enumerate(events) if e["event"] == "delegated")
    newest_id = events[newest_delegation]["handoff_id"]
    newest = [e for e in events if e["handoff_id"] == newest_id]
    outcomes = [place for place, e in enumerate(events) if e["event"] in OUTCOMES]
    last_outcome = events[outcomes[-1]]["event"] if outcomes else None
    redelegated = bool(outcomes) and newest_delegation > outcomes[-1]

    def age(*words):
        times = [e["at"] for e in newest if e["event"] in words]
        return (now - times[-1]).total_seconds() if times else None

    last = newest[-1]
    ends = {e["event"] for e in newest} & {"rejected", "released"}
    only = len(newest) == 1
    overdue = last["deadline"] is not None and now > datetime.fromisoformat(last["deadline"])
    completed, alive = age("completed"), age("accepted", "progress", "waiting")
    rows = [
        ("verified", last_outcome == "outcome_verified", {"delegated_again"} if redelegated else set()),
        ("failed_outcome", last_outcome == "outcome_failed" and not redelegated, {"check_failed"}),
        ("false_success", completed is not None and completed > limit["verification"], {"unverified"}),
        (
            "waiting",
            last["event"] == "waiting",
            {f"dependency:{last['dependency']}"} | ({"overdue"} if overdue else set()),
        ),
        ("orphaned", bool(ends), ends),
        ("orphaned", only and age("delegated") > limit["acceptance"], {"not_accepted"}),
        ("delegated", only, set()),
        ("stuck", completed is None and alive is not None and alive > limit["progress"], {"no_progress"}),
        ("working", True, set()),
    ]
    row, (state, _, reasons) = next((n, found) for n, found in enumerate(rows) if found[1])
    unchecked = any(
        e["event"] == "completed" and e["handoff_id"] != newest_id and all(o < place for o in outcomes)
        for place, e in enumerate(events)
    )
    if row >= 2 and unchecked:
        return state, sorted({*reasons, "earlier_completion_unverified"}), "verify_or_reopen"
    return state, sorted(reasons), ACTIONS[state]


@settings(max_examples=600, deadline=None)
@given(histories())
def test_it_judges_any_history_as_the_table_says(facts):
    found = judge("handoffs", facts)
    assert (found["state"], found["reasons"], found["next_action"]) == table(facts)


@settings(max_examples=200, deadline=None)
@given(histories())
def test_it_gives_the_same_verdict_when_every_event_arrives_twice(facts):
    twice = facts | {"events": facts["events"] + facts["events"]}
    assert judge("handoffs", twice) == judge("handoffs", facts)


D, A, DONE = event("delegated", 0), event("accepted", 1), event("completed", 5)
SECOND = event("delegated", 8, "h-2")
MOVES = [
    ([D], {"now": 2}, "delegated", []),
    ([D], {"now": 3}, "orphaned", ["not_accepted"]),
    ([D, A], {"now": 11}, "working", []),
    ([D, A], {"now": 12}, "stuck", ["no_progress"]),
    ([D, A, event("progress", 9)], {"now": 19}, "working", []),
    ([D, A, DONE], {"now": 5}, "working", []),
    ([D, A, DONE], {"now": 6}, "false_success", ["unverified"]),
    ([D, A, DONE, event("progress", 6)], {"now": 6}, "false_success", ["unverified"]),
    ([D, A, event("waiting", 2)], {}, "waiting", ["dependency:dns"]),
    ([D, A, event("waiting", 2, deadline=time(60))], {}, "waiting", ["dependency:dns"]),
    ([D, A, event("waiting", 2, deadline=time(59))], {}, "waiting", ["dependency:dns", "overdue"]),
    ([D, event("rejected", 1), event("released", 2)], {}, "orphaned", ["rejected", "released"]),
    ([D, A, event("released", 2)], {}, "orphaned", ["released"]),
    ([D, A, event("released", 2), event("waiting", 3)], {}, "waiting", ["dependency:dns"]),
    ([D, A, event("outcome_verified", 3), event("delegated", 4, "h-2")], {}, "verified", ["delegated_again"]),
    ([D, A, event("outcome_failed", 3)], {}, "failed_outcome", ["check_failed"]),
    ([D, A, event("released", 2), event("outcome_failed", 3), SECOND], {}, "orphaned", ["not_accepted"]),
    (
        [D, A, DONE, event("outcome_verified", 6), event("outcome_failed", 7)],
        {},
        "failed_outcome",
        ["check_failed"],
    ),
    (
        [D, SECOND, event("accepted", 9, "h-2"), A, DONE],
        {"now": 9},
        "working",
        ["earlier_completion_unverified"],
    ),
    ([D, A, DONE, SECOND], {"now": 9}, "delegated", ["earlier_completion_unverified"]),
    (
        [D, A, DONE, SECOND, event("accepted", 9, "h-2"), event("completed", 10, "h-2")],
        *({}, "false_success", ["earlier_completion_unverified", "unverified"]),
    ),
    ([], {"evidence": "unavailable"}, "uncertain", ["evidence_unavailable"]),
    ([A], {"evidence": "unavailable"}, "uncertain", ["evidence_unavailable", "no_delegation"]),
    ([A | {"agent": "nobody"}], {}, "uncertain", ["no_delegation"]),
    (
        [D, A | {"handoff_id": "h-9", "trusted": False}],
        {},
        "uncertain",
        ["no_delegation", "untrusted_writer"],
    ),
    ([D, D | {"at": time(1)}], {}, "uncertain", ["delegated_twice"]),
    ([event("released", 0), D], {}, "uncertain", ["before_delegation"]),
    ([D, A | {"agent": "other"}], {}, "uncertain", ["receiver_mismatch"]),
    ([D, event("released", 1, agent="other")], {}, "orphaned", ["released"]),
    ([D, event("progress", 1)], {}, "uncertain", ["work_without_acceptance"]),
    ([D, event("progress", 1), A], {}, "uncertain", ["work_without_acceptance"]),
    ([D, event("rejected", 1), event("accepted", 2)], {}, "uncertain", ["accepted_after_rejection"]),
    ([D, A, event("rejected", 2)], {}, "orphaned", ["rejected"]),
    ([D, SECOND | {"expected_artifact": "sha256:b"}], {}, "uncertain", ["artifact_changed"]),
    (
        [D, A, event("outcome_failed", 3, expected_artifact="sha256:b")],
        {},
        "uncertain",
        ["artifact_mismatch"],
    ),
    ([D, A, event("outcome_verified", 3, agent="worker")], {}, "uncertain", ["self_verified"]),
    (
        [D, A, event("outcome_verified", 3, agent="w2"), SECOND | {"receiver": "w2"}],
        *({}, "uncertain", ["self_verified"]),
    ),
    ([D, A, event("outcome_failed", 3, agent="worker")], {}, "failed_outcome", ["check_failed"]),
    ([D, A, event("waiting", 2, dependency=None)], {}, "uncertain", ["waiting_without_dependency"]),
    ([D, A, SECOND, event("accepted", 9, "h-2")], {}, "uncertain", ["two_owners"]),
    (
        [D, A, DONE, SECOND, event("accepted", 9, "h-2")],
        {"now": 9},
        "working",
        ["earlier_completion_unverified"],
    ),
]


@pytest.mark.parametrize(("events", "more", "state", "reasons"), MOVES)
def test_it_moves_as_the_table_says_event_by_event(events, more, state, reasons):
    action = "verify_or_reopen" if "earlier_completion_unverified" in reasons else ACTIONS[state]
    assert state_of(*events, **more) == (state, reasons, action)


def test_it_counts_one_record_once_however_its_time_and_defaults_are_written():
    again = D | {"at": "2026-11-30T10:00:00.000+01:00", "trusted": True, "dependency": ""}
    assert state_of(D, again, now=1) == ("delegated", [], "leave_alone")
    assert state_of(D, again | {"reason": "other"}, now=1)[1] == ["delegated_twice"]


def test_it_keeps_a_duplicate_at_the_place_of_the_first():
    verified, failed = event("outcome_verified", 6), event("outcome_failed", 6)
    assert state_of(D, A, DONE, verified, failed, verified)[0] == "failed_outcome"
    assert state_of(D, A, DONE, failed, verified, failed)[0] == "verified"


def test_it_breaks_ties_by_the_order_given():
    same = [found | {"at": time(0)} for found in (D, A, event("progress", 0))]
    assert state_of(*same, now=1)[0] == "working"
    assert state_of(same[0], same[2], same[1], now=1)[1] == ["work_without_acceptance"]
    assert state_of(same[1], same[0], now=1)[1] == ["before_delegation"]


def test_it_tells_instants_apart_below_a_microsecond():
    failed = event("outcome_failed", 0) | {"at": "2026-11-30T09:06:00.0000000002Z"}
    verified = event("outcome_verified", 0) | {"at": "2026-11-30T09:06:00.0000000001Z"}
    assert state_of(D, A, DONE, failed, verified)[0] == "failed_outcome"


@pytest.mark.parametrize("limit", ["acceptance_s", "progress_s", "verification_s"])
def test_it_takes_a_limit_beyond_every_calendar(limit):
    assert "error" not in judge("handoffs", story(D, A, DONE, limits={limit: 10**40}))
