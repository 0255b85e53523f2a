"""Section 4 against an independent statement of its table."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rule_cases import complete, judge

TIME = "2026-11-30T09:50:00Z"
CAUSES = (
    *("natural_finish", "done_tool", "step_limit", "token_budget", "output_limit", "user_abort"),
    *("approval_requested", "tool_error", "provider_error", "timeout"),
)
ACTIONS = {
    "failed": "diagnose_the_boundary",
    "waiting": "route_the_dependency",
    "waiting_unrouted": "add_owner_and_route",
    "stuck": "prepare_bounded_recovery",
    "bounded_stop": "keep_partial_work_and_decide",
    "uncertain": "ask_before_acting",
    "verified_complete": "none",
    "false_complete": "verify_or_reopen",
}

small = st.integers(0, 4)
conditions = st.one_of(
    st.fixed_dictionaries({"type": st.just("step_count"), "n": small}),
    st.fixed_dictionaries({"type": st.just("token_budget"), "n": small}),
    st.fixed_dictionaries({"type": st.just("deadline"), "ms": small}),
    st.fixed_dictionaries({"type": st.just("tool_call"), "tool": st.just("done")}),
    st.just({"type": "loop_finished"}),
)
approvals = st.none() | st.fixed_dictionaries(
    {
        "owner": st.sampled_from(["ops", None, ""]),
        "deadline": st.sampled_from([TIME, None, ""]),
        "resume_token": st.sampled_from(["rt", None, ""]),
    }
)
stops = st.fixed_dictionaries(
    {
        "sdk": st.just("ai"),
        "policy": st.fixed_dictionaries(
            {"version": st.just("p"), "conditions": st.lists(conditions, max_size=3)}
        ),
        "stop_cause": st.sampled_from([*CAUSES, *CAUSES[:4] * 2, None]),
        "steps": st.lists(
            st.fixed_dictionaries(
                {"tools": st.lists(st.sampled_from(["done", "end", "search"]), max_size=2), "tokens": small}
            ),
            max_size=4,
        ),
        "tool_failed": st.sampled_from([False] * 7 + [True]),
        "approval": approvals,
        "useful_progress": st.booleans(),
        "outcome": st.none()
        | st.fixed_dictionaries(
            {
                "issuer": st.sampled_from(["destination", "validator", "human", "loop", "model"]),
                "verified": st.booleans(),
            }
        ),
    },
    optional={"done_tool": st.sampled_from(["done", "end"])},
)


def of_type(f, word):
    return [condition for condition in f["policy"]["conditions"] if condition["type"] == word]


def unrouted(f):
    approval = f["approval"] or {}
    return {f"no_{field}" for field in ("owner", "deadline", "resume_token") if not approval.get(field)}


def disagreements(f):
    cause, tokens = f["stop_cause"], sum(step["tokens"] for step in f["steps"])
    counts, budgets = of_type(f, "step_count"), of_type(f, "token_budget")
    last = f["steps"][-1]["tools"] if f["steps"] else []
    return {
        "cause_not_recorded": cause is None,
        "no_such_condition": (cause == "step_limit" and not counts)
        or (cause == "token_budget" and not budgets),
        "step_limit_not_reached": cause == "step_limit"
        and counts != []
        and all(condition["n"] != len(f["steps"]) for condition in counts),
        "budget_not_reached": cause == "token_budget"
        and budgets != []
        and all(tokens < condition["n"] for condition in budgets),
        "done_tool_not_last": cause == "done_tool" and f.get("done_tool", "done") not in last,
        "tools_in_last_step": cause == "natural_finish" and last != [],
        "approval_pending": cause in ("natural_finish", "done_tool") and f["approval"] is not None,
    }


def failures(f):
    found = {"tool_failed"} if f["tool_failed"] else set()
    return found | ({f["stop_cause"]} & {"tool_error", "provider_error"})


def receipt(f):
    if f["outcome"] is None:
        return "none"
    if f["outcome"]["issuer"] in ("loop", "model"):
        return "dependent"
    return "verified" if f["outcome"]["verified"] else "denied"


def table(f):
    cause = f["stop_cause"]
    own_word = {"dependent": "self_verified" if (f["outcome"] or {}).get("verified") else "no_receipt"}
    rows = [
        ("failed", bool(failures(f)), failures(f)),
        ("waiting", cause == "approval_requested" and not unrouted(f), set()),
        ("waiting_unrouted", cause == "approval_requested", unrouted(f)),
        ("stuck", cause == "timeout" and not f["useful_progress"], {"timeout"}),
        ("bounded_stop", cause in ("timeout", "user_abort", "output_limit"), {cause}),
        (
            "uncertain",
            any(disagreements(f).values()),
            {word for word, holds in disagreements(f).items() if holds},
        ),
        ("bounded_stop", cause in ("step_limit", "token_budget"), {cause}),
        ("verified_complete", receipt(f) == "verified", set()),
        ("false_complete", True, {{"denied": "check_failed", **own_word}.get(receipt(f), "no_receipt")}),
    ]
    state, reasons = next((state, reasons) for state, matches, reasons in rows if matches)
    bounds = of_type(f, "step_count") + of_type(f, "token_budget") + of_type(f, "deadline")
    return {
        "state": state,
        "reasons": sorted(reasons),
        "receipt": receipt(f),
        "warnings": [] if bounds else ["unbounded"],
        "next_action": ACTIONS[state],
    }


@settings(max_examples=400, deadline=None)
@given(stops)
def test_it_judges_any_stop_as_the_table_says(facts):
    assert judge("stops", facts) == table(facts)


def finished(**changes):
    """A loop that finished by itself with one budget, three steps and no receipt."""
    facts = complete("stops") | {
        "stop_cause": "natural_finish",
        "approval": None,
        "outcome": None,
        "steps": [{"tools": ["search"], "tokens": 100}] * 2 + [{"tools": [], "tokens": 100}],
    }
    return facts | changes


def policy(*conditions):
    return {"version": "p1", "conditions": list(conditions)}


BUDGETS = policy({"type": "token_budget", "n": 301}, {"type": "token_budget", "n": 300})
MOVES = [
    ({}, "false_complete", ["no_receipt"]),
    ({"outcome": {"issuer": "human", "verified": True}}, "verified_complete", []),
    ({"outcome": {"issuer": "human", "verified": False}}, "false_complete", ["check_failed"]),
    ({"outcome": {"issuer": "model", "verified": True}}, "false_complete", ["self_verified"]),
    ({"outcome": {"issuer": "model", "verified": False}}, "false_complete", ["no_receipt"]),
    ({"tool_failed": True, "stop_cause": "tool_error"}, "failed", ["tool_error", "tool_failed"]),
    ({"stop_cause": "provider_error"}, "failed", ["provider_error"]),
    ({"tool_failed": True, "stop_cause": "approval_requested"}, "failed", ["tool_failed"]),
    (
        {"stop_cause": "approval_requested"},
        "waiting_unrouted",
        ["no_deadline", "no_owner", "no_resume_token"],
    ),
    ({"stop_cause": "timeout"}, "bounded_stop", ["timeout"]),
    ({"stop_cause": "timeout", "useful_progress": False}, "stuck", ["timeout"]),
    ({"stop_cause": "user_abort", "useful_progress": False}, "bounded_stop", ["user_abort"]),
    ({"stop_cause": None}, "uncertain", ["cause_not_recorded"]),
    ({"stop_cause": "step_limit", "policy": policy()}, "uncertain", ["no_such_condition"]),
    ({"stop_cause": "step_limit"}, "uncertain", ["step_limit_not_reached"]),
    (
        {"stop_cause": "step_limit", "policy": policy({"type": "step_count", "n": 3})},
        "bounded_stop",
        ["step_limit"],
    ),
    (
        {"stop_cause": "step_limit", "policy": policy({"type": "step_count", "n": 0}), "steps": []},
        "bounded_stop",
        ["step_limit"],
    ),
    ({"stop_cause": "token_budget"}, "uncertain", ["budget_not_reached"]),
    ({"stop_cause": "token_budget", "policy": BUDGETS}, "bounded_stop", ["token_budget"]),
    ({"stop_cause": "done_tool"}, "uncertain", ["done_tool_not_last"]),
    ({"stop_cause": "done_tool", "steps": []}, "uncertain", ["done_tool_not_last"]),
    (
        {"stop_cause": "done_tool", "steps": [{"tools": ["search", "finish"], "tokens": 1}]},
        "false_complete",
        ["no_receipt"],
    ),
    ({"steps": []}, "false_complete", ["no_receipt"]),
    (
        {
            "steps": [{"tools": ["search"], "tokens": 1}],
            "approval": {"owner": None, "deadline": None, "resume_token": None},
        },
        "uncertain",
        ["approval_pending", "tools_in_last_step"],
    ),
]


@pytest.mark.parametrize(("changes", "state", "reasons"), MOVES)
def test_it_moves_as_the_table_says_when_facts_change(changes, state, reasons):
    found = judge("stops", finished(**changes))
    assert (found["state"], found["reasons"]) == (state, reasons)
    assert found["next_action"] == ACTIONS[state]


@pytest.mark.parametrize("bound", [{"type": "step_count", "n": 0}, {"type": "deadline", "ms": 0}])
def test_it_warns_only_when_nothing_bounds_the_loop(bound):
    unbounded = policy({"type": "tool_call", "tool": "done"}, {"type": "loop_finished"})
    assert judge("stops", finished(policy=unbounded))["warnings"] == ["unbounded"]
    assert judge("stops", finished(policy=policy()))["warnings"] == ["unbounded"]
    assert judge("stops", finished(policy=policy(bound, {"type": "loop_finished"})))["warnings"] == []


def test_it_calls_the_done_tool_done_when_nobody_named_it():
    facts = finished(stop_cause="done_tool", steps=[{"tools": ["done"], "tokens": 1}])
    assert judge("stops", facts)["state"] == "uncertain"
    del facts["done_tool"]
    assert judge("stops", facts)["state"] == "false_complete"
