"""Section 1 against an independent statement of its table: the first gate shut decides, all are judged."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rule_cases import DIGEST, changed, complete, judge

GATES = ("lineage", "state", "effects", "authority", "configuration", "outcome")
SHUT = dict(
    zip(
        GATES,
        (
            *("invalid_lineage", "restore_uncertain", "effects_unreconciled"),
            *("needs_approval", "configuration_unpinned"),
        ),
        strict=False,
    )
)
ACTIONS = {
    "invalid_lineage": "fork_again_from_parent",
    "restore_uncertain": "capture_or_probe_state",
    "configuration_unpinned": "pin_configuration",
    "ready_to_resume": "resume",
    "resuming": "leave_alone",
    "resume_uncertain": "ask_before_acting",
    "verified": "none",
    "outcome_uncertain": "ask_destination_again",
    "false_success": "verify_or_reopen",
    "unfinished": "keep_partial_work_and_decide",
    "awaiting_outcome": "leave_alone",
}


def any_of(*values):
    return st.sampled_from(values)


def ready():
    return complete("branches") | {"resume": "none", "outcome": None}


key_states = st.fixed_dictionaries(
    {
        "fingerprint": any_of(DIGEST, None, ""),
        "restore": any_of("matched", "drift_acknowledged", "drifted", "unreachable", "not_restored"),
    },
    optional={"stale": any_of(False, True)},
)
effects = st.one_of(
    st.fixed_dictionaries(
        {"status": any_of("reconciled", "reverted", "pending"), "decision": st.none()},
        optional={"stale": any_of(False, True)},
    ),
    st.fixed_dictionaries(
        {"status": st.just("irreversible"), "decision": st.sampled_from([None, "skip", "repeat"])},
        optional={"stale": any_of(False, True)},
    ),
)
outcomes = st.none() | st.fixed_dictionaries(
    {
        "loop": st.sampled_from(["running", "claimed", "ended"]),
        "check": st.sampled_from(["none", "passed", "failed", "unreachable"]),
        "fresh": st.booleans(),
    }
)
GATE_FACTS = {
    "branch_id": any_of("br-1", "", "run-1"),
    "parent_id": any_of("run-1", ""),
    "fork_point": st.fixed_dictionaries(
        {"checkpoint_id": st.just("c"), "in_parent": st.booleans(), "parent_unchanged": st.booleans()}
    ),
    "required_state_keys": any_of(["memory"], ["memory", "browser"], ["browser", "other"]),
    "acknowledgeable_keys": any_of([], ["memory"], ["browser", "memory"]),
    "state": st.dictionaries(st.sampled_from(["memory", "browser", "other"]), key_states, min_size=1),
    "effects_ledger": any_of("attested", "unknown"),
    "effects": st.lists(effects, max_size=2).map(
        lambda found: [effect | {"operation_key": f"op-{n}"} for n, effect in enumerate(found)]
    ),
    "authority": st.fixed_dictionaries(
        {
            "operator_authorised": st.booleans(),
            "required": st.booleans(),
            "decision": any_of("approved", "none", "rejected", "expired", "revoked", "superseded"),
        }
    ),
    "configuration": st.fixed_dictionaries({"pinned": st.booleans()}),
}


@st.composite
def branches(draw):
    """A branch that is ready, with up to three of its facts drawn anew, somewhere on its way."""
    names = draw(st.lists(st.sampled_from(list(GATE_FACTS)), max_size=3, unique=True))
    facts = ready() | {name: draw(GATE_FACTS[name]) for name in names}
    if draw(st.booleans()):
        del facts["acknowledgeable_keys"]
    resume = draw(any_of("started", "started", "started", "none", "redeemed", "lost"))
    return facts | {"resume": resume, "outcome": draw(outcomes)}


def table_lineage(f):
    empty = "" in (f["branch_id"], f["parent_id"])
    return {
        "missing_identity": empty,
        "same_identity": not empty and f["branch_id"] == f["parent_id"],
        "checkpoint_not_in_parent": not f["fork_point"]["in_parent"],
        "parent_history_changed": not f["fork_point"]["parent_unchanged"],
    }


def table_state(f):
    acknowledgeable = f.get("acknowledgeable_keys", ["tool_registry", "browser"])
    rows = {}
    for key in f["required_state_keys"]:
        rows[f"missing:{key}"] = key not in f["state"]
        state = f["state"].get(key, {"fingerprint": "x", "restore": "matched"})
        rows[f"no_fingerprint:{key}"] = state["fingerprint"] in (None, "")
        rows[f"stale:{key}"] = state.get("stale", False)
        rows |= {
            f"{word}:{key}": state["restore"] == word for word in ("drifted", "unreachable", "not_restored")
        }
        acknowledged = state["restore"] == "drift_acknowledged"
        rows[f"not_acknowledgeable:{key}"] = acknowledged and key not in acknowledgeable
    return rows


def table_effects(f):
    rows = {"ledger_unknown": f["effects_ledger"] == "unknown"}
    for effect in f["effects"]:
        key = effect["operation_key"]
        rows[f"pending:{key}"] = effect["status"] == "pending"
        rows[f"irreversible:{key}"] = (effect["status"], effect["decision"]) == ("irreversible", None)
        rows[f"stale:{key}"] = effect.get("stale", False)
    return rows


def table_authority(f):
    authority = f["authority"]
    decided = any(effect["decision"] for effect in f["effects"])
    needed = authority["required"] or decided
    word = authority["decision"]
    rows = {"operator_not_authorised": not authority["operator_authorised"]}
    rows |= {refusal: word == refusal for refusal in ("rejected", "revoked")}
    rows |= {ended: needed and word == ended for ended in ("expired", "superseded")}
    rows["no_decision"] = needed and word == "none"
    return rows


def table_after_start(outcome):
    if outcome and outcome["check"] == "passed" and outcome["fresh"]:
        return "verified", []
    loop, check = (outcome["loop"], outcome["check"]) if outcome else ("running", "none")
    if loop == "running":
        return "awaiting_outcome", ["no_outcome"]
    if loop == "ended":
        return "unfinished", ["check_failed"] * (check == "failed") + ["ended_without_claim"]
    if check == "unreachable":
        return "outcome_uncertain", ["unreachable"]
    return "false_success", [{"none": "no_receipt", "failed": "check_failed", "passed": "not_fresh"}[check]]


def table(f):
    """Every gate's reasons, the status and its reasons, and the next action, as the rules tell them."""
    tables = (table_lineage, table_state, table_effects, table_authority)
    reasons = [sorted(reason for reason, holds in rows(f).items() if holds) for rows in tables]
    reasons.append([] if f["configuration"]["pinned"] else ["unpinned"])
    started = f["resume"] == "started"
    after, after_reasons = table_after_start(f["outcome"])
    reasons.append(after_reasons if started else ["outcome_before_resume"] if f["outcome"] else [])
    passed = [not found for found in reasons[:5]] + [started and after == "verified"]
    rows = [(SHUT[gate], found) for gate, found in zip(GATES[:5], reasons[:5], strict=True) if found]
    row_of_resume = {
        "none": ("ready_to_resume", []),
        "redeemed": ("resuming", []),
        "lost": ("resume_uncertain", ["no_start_receipt"]),
        "started": (after, after_reasons),
    }
    status, why = (*rows, row_of_resume[f["resume"]])[0]
    return {
        "status": status,
        "fidelity": table_fidelity(f, passed[1]),
        "gates": [
            {"gate": gate, "passed": ok, "reasons": found}
            for gate, ok, found in zip(GATES, passed, reasons, strict=True)
        ],
        "reasons": why,
        "next_action": table_action(status, why),
    }


def table_fidelity(f, state_passed):
    restores = {f["state"][key]["restore"] for key in f["required_state_keys"] if key in f["state"]}
    return "unknown" if not state_passed else "partial" if "drift_acknowledged" in restores else "exact"


def table_action(status, reasons):
    if status == "effects_unreconciled":
        others = [reason for reason in reasons if reason.split(":")[0] != "irreversible"]
        return "ask_destination" if others else "decide_irreversible"
    if status == "needs_approval":
        if "operator_not_authorised" in reasons:
            return "hand_to_authorised_operator"
        return "respect_the_decision" if {"rejected", "revoked"} & set(reasons) else "route_to_owner"
    return ACTIONS[status]


@settings(max_examples=400, deadline=None)
@given(branches())
def test_it_judges_any_branch_as_the_table_says(facts):
    assert judge("branches", facts) == table(facts)


@settings(max_examples=100, deadline=None)
@given(branches())
def test_it_repairs_a_branch_gate_by_gate_and_the_status_only_moves_on(facts):
    order = [*SHUT.values(), "ready_to_resume"]
    good = ready() | {"effects": []}
    places = [order.index(judge("branches", facts | {"resume": "none"})["status"])]
    for fields in (
        ("branch_id", "parent_id", "fork_point"),
        ("required_state_keys", "state", "acknowledgeable_keys"),
        ("effects_ledger", "effects"),
        ("authority",),
        ("configuration",),
    ):
        facts = facts | {"resume": "none"} | {field: good[field] for field in fields}
        places.append(order.index(judge("branches", facts)["status"]))
    assert places == sorted(places)
    assert places[-1] == order.index("ready_to_resume")


MOVES = [
    ("branch_id", "", "invalid_lineage", ["missing_identity"], "fork_again_from_parent"),
    ("parent_id", "", "invalid_lineage", ["missing_identity"], "fork_again_from_parent"),
    ("parent_id", "br-1", "invalid_lineage", ["same_identity"], "fork_again_from_parent"),
    (
        "fork_point.in_parent",
        False,
        "invalid_lineage",
        ["checkpoint_not_in_parent"],
        "fork_again_from_parent",
    ),
    (
        "fork_point.parent_unchanged",
        False,
        "invalid_lineage",
        ["parent_history_changed"],
        "fork_again_from_parent",
    ),
    ("state", {}, "restore_uncertain", ["missing:browser", "missing:memory"], "capture_or_probe_state"),
    (
        "state.memory.fingerprint",
        None,
        "restore_uncertain",
        ["no_fingerprint:memory"],
        "capture_or_probe_state",
    ),
    ("state.memory.stale", True, "restore_uncertain", ["stale:memory"], "capture_or_probe_state"),
    ("state.memory.restore", "drifted", "restore_uncertain", ["drifted:memory"], "capture_or_probe_state"),
    (
        "state.memory.restore",
        "unreachable",
        "restore_uncertain",
        ["unreachable:memory"],
        "capture_or_probe_state",
    ),
    (
        "state.memory.restore",
        "not_restored",
        "restore_uncertain",
        ["not_restored:memory"],
        "capture_or_probe_state",
    ),
    (
        *("state.memory.restore", "drift_acknowledged", "restore_uncertain"),
        *(["not_acknowledgeable:memory"], "capture_or_probe_state"),
    ),
    ("effects_ledger", "unknown", "effects_unreconciled", ["ledger_unknown"], "ask_destination"),
    ("effects.0.decision", None, "effects_unreconciled", ["irreversible:mail-1"], "decide_irreversible"),
    ("effects.0.stale", True, "effects_unreconciled", ["stale:mail-1"], "ask_destination"),
    (
        "authority.operator_authorised",
        False,
        "needs_approval",
        ["operator_not_authorised"],
        "hand_to_authorised_operator",
    ),
    ("authority.decision", "none", "needs_approval", ["no_decision"], "route_to_owner"),
    ("authority.decision", "expired", "needs_approval", ["expired"], "route_to_owner"),
    ("authority.decision", "superseded", "needs_approval", ["superseded"], "route_to_owner"),
    ("authority.decision", "rejected", "needs_approval", ["rejected"], "respect_the_decision"),
    ("authority.decision", "revoked", "needs_approval", ["revoked"], "respect_the_decision"),
    ("configuration.pinned", False, "configuration_unpinned", ["unpinned"], "pin_configuration"),
    ("resume", "redeemed", "resuming", [], "leave_alone"),
    ("resume", "lost", "resume_uncertain", ["no_start_receipt"], "ask_before_acting"),
    ("resume", "started", "awaiting_outcome", ["no_outcome"], "leave_alone"),
]


@pytest.mark.parametrize(("path", "value", "status", "reasons", "action"), MOVES)
def test_it_moves_as_the_table_says_when_one_fact_changes(path, value, status, reasons, action):
    assert judge("branches", ready())["status"] == "ready_to_resume"
    found = judge("branches", changed(ready(), path, value))
    assert (found["status"], found["reasons"], found["next_action"]) == (status, reasons, action)


def test_it_asks_the_destination_when_a_decision_is_not_all_that_is_missing():
    facts = changed(changed(ready(), "effects.0.decision", None), "effects_ledger", "unknown")
    found = judge("branches", facts)
    assert found["reasons"] == ["irreversible:mail-1", "ledger_unknown"]
    assert found["next_action"] == "ask_destination"


@pytest.mark.parametrize("decision", ["none", "expired", "superseded"])
def test_it_needs_no_decision_where_nothing_requires_one(decision):
    facts = ready() | {"effects": []}
    facts["authority"] = {"operator_authorised": True, "required": False, "decision": decision}
    assert judge("branches", facts)["status"] == "ready_to_resume"


def test_it_lets_nobody_acknowledge_drift_when_the_list_is_empty():
    facts = changed(ready(), "state.browser.restore", "drift_acknowledged")
    assert judge("branches", facts)["fidelity"] == "partial"
    assert judge("branches", facts | {"acknowledgeable_keys": []})["reasons"] == [
        "not_acknowledgeable:browser"
    ]


def test_it_calls_two_empty_ids_missing_and_not_the_same():
    assert judge("branches", ready() | {"branch_id": "", "parent_id": ""})["reasons"] == ["missing_identity"]


def test_it_ignores_a_bad_state_of_a_key_that_is_not_required():
    facts = changed(
        ready(), "state.other", {"fingerprint": None, "restore": "drift_acknowledged", "stale": True}
    )
    assert judge("branches", facts) == judge("branches", ready())
