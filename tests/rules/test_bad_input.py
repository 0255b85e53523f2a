"""Every field of every classifier, spoilt in every way: an error that names it, and never its value."""

import json

import pytest
from rule_cases import KINDS, at_path, changed, complete, error_field, judge, without

OPTIONAL = {
    "branches": {"acknowledgeable_keys", "state.memory.stale", "state.browser.stale", "effects.0.stale"},
    "handoffs": {
        *("evidence", "limits", "limits.acceptance_s", "limits.progress_s", "limits.verification_s"),
        *("events.0.trace_id", "events.0.reason", "events.0.trusted"),
        *("events.2.dependency", "events.2.deadline"),
    },
    "topology": {*(f"contract.edges.{index}.max" for index in range(3)), "run.progress_s"},
    "stops": {"done_tool"},
}
NULLABLE = {
    "branches": {"state.memory.fingerprint", "state.browser.fingerprint", "effects.0.decision", "outcome"},
    "handoffs": {"events.2.dependency"},
    "topology": {"run.deadline", "run.dependency", "run.last_progress_at"},
    "stops": {
        *("stop_cause", "approval", "approval.owner", "approval.deadline", "approval.resume_token"),
        "outcome",
    },
}
# Objects whose keys are names of the user's own: an entry more or less is another fact, not a broken form.
OPEN = {"branches": {"state"}, "handoffs": set(), "topology": {"contract.phases"}, "stops": set()}
EMPTY_ALLOWED = {
    "branches": {"branch_id", "parent_id", "state.memory.fingerprint", "state.browser.fingerprint"},
    "handoffs": {"events.2.dependency"},
    "topology": {"run.dependency"},
    "stops": {"approval.owner", "approval.deadline", "approval.resume_token"},
}
WRONG = {
    str: (7, True, ["CONTENT-MARKER-7f3a"], {"CONTENT-MARKER-7f3a": 1}, "\ud800"),
    bool: ("CONTENT-MARKER-7f3a", "true", 1, 0, []),
    int: ("CONTENT-MARKER-7f3a", "20", True, 20.0, 1.5, -1, [], {}),
    list: ("CONTENT-MARKER-7f3a", {}, 3, False),
    dict: ("CONTENT-MARKER-7f3a", [], 3, False),
}


def paths(value, prefix=""):
    entries = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for name, inner in entries:
        path = f"{prefix}{name}"
        yield path
        yield from paths(inner, f"{path}.")


def is_item(path):
    return path.rpartition(".")[2].isdigit()


FIELDS = [(kind, path) for kind in KINDS for path in paths(complete(kind))]


@pytest.mark.parametrize(("kind", "path"), FIELDS)
def test_it_refuses_a_wrong_type_and_names_the_field(kind, path):
    for wrong in WRONG[type(at_path(complete(kind), path))]:
        spoilt = changed(complete(kind), path, wrong)
        field = error_field(kind, spoilt)
        assert field == path or field.startswith(f"{path}."), wrong
        assert "CONTENT-MARKER" not in judge(kind, spoilt)["error"]["message"]


@pytest.mark.parametrize(("kind", "path"), FIELDS)
def test_it_takes_null_only_where_the_table_says_so(kind, path):
    nothing = changed(complete(kind), path, None)
    if path in NULLABLE[kind]:
        assert "error" not in judge(kind, nothing)
    else:
        assert error_field(kind, nothing) == path


NAMED = [
    (kind, path) for kind, path in FIELDS if not is_item(path) and path.rpartition(".")[0] not in OPEN[kind]
]


@pytest.mark.parametrize(("kind", "path"), NAMED)
def test_it_misses_a_required_field_and_names_it(kind, path):
    lacking = without(complete(kind), path)
    if path in OPTIONAL[kind]:
        assert judge(kind, lacking).keys() == judge(kind, complete(kind)).keys()
    else:
        assert error_field(kind, lacking) == path


OBJECTS = [
    (kind, path)
    for kind in KINDS
    for path in ("", *paths(complete(kind)))
    if path not in OPEN[kind] and (not path or isinstance(at_path(complete(kind), path), dict))
]


@pytest.mark.parametrize(("kind", "path"), OBJECTS)
def test_it_refuses_an_unknown_field_at_every_depth(kind, path):
    for extra in ("zeal", "Input", "x-extra"):
        name = f"{path}.{extra}" if path else extra
        assert error_field(kind, changed(complete(kind), name, None)) == name


@pytest.mark.parametrize(("kind", "path"), OBJECTS)
def test_it_does_not_repeat_an_unknown_name_that_could_be_content(kind, path):
    spoilt = complete(kind)
    target = at_path(spoilt, path) if path else spoilt
    target["Dear Ms Lovelace, your card 4111"] = 1
    assert error_field(kind, spoilt) == (f"{path}.?" if path else "?")
    assert "Lovelace" not in json.dumps(judge(kind, spoilt))


STRINGS = [(kind, path) for kind, path in FIELDS if isinstance(at_path(complete(kind), path), str)]


@pytest.mark.parametrize(("kind", "path"), STRINGS)
def test_it_takes_an_empty_string_only_where_nothing_is_allowed(kind, path):
    empty = changed(complete(kind), path, "")
    if path in EMPTY_ALLOWED[kind]:
        assert "error" not in judge(kind, empty)
    else:
        assert error_field(kind, empty) == path


@pytest.mark.parametrize(
    ("kind", "path"), [(k, p) for k, p in STRINGS if p in EMPTY_ALLOWED[k] & NULLABLE[k]]
)
def test_it_reads_an_empty_string_as_null_where_null_is_allowed(kind, path):
    assert judge(kind, changed(complete(kind), path, "")) == judge(kind, changed(complete(kind), path, None))


TIMES = [(kind, path) for kind, path in STRINGS if "2026-" in at_path(complete(kind), path)]


@pytest.mark.parametrize(("kind", "path"), TIMES)
@pytest.mark.parametrize(
    "time", ["2026-11-30T08:00:00", "2026-11-30 08:00:00Z", "2026-11-30", "yesterday", "1793000000"]
)
def test_it_refuses_a_time_that_is_not_rfc_3339_with_offset(kind, path, time):
    assert error_field(kind, changed(complete(kind), path, time)) == path


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        *(("handoffs", "events.0.at"), ("handoffs", "events.2.at")),
        *(("topology", "events.0.at"), ("topology", "run.last_progress_at")),
    ],
)
def test_it_refuses_what_happened_later_than_now(kind, path):
    now = complete(kind)["now"] if kind == "handoffs" else complete(kind)["run"]["now"]
    assert "error" not in judge(kind, changed(complete(kind), path, now))
    later = now.replace("Z", ".000000000000000000001Z")
    assert error_field(kind, changed(complete(kind), path, later)) == path


WORDS = [
    *(("branches", path) for path in ("effects_ledger", "effects.0.status", "effects.0.decision", "resume")),
    *(("branches", path) for path in ("state.memory.restore", "authority.decision", "outcome.loop")),
    *(("branches", "outcome.check"), ("handoffs", "evidence"), ("handoffs", "events.1.event")),
    *(("topology", "run.evidence"), ("topology", "events.0.status"), ("stops", "policy.conditions.0.type")),
    *(("stops", "stop_cause"), ("stops", "outcome.issuer")),
]


@pytest.mark.parametrize(("kind", "path"), WORDS)
def test_it_refuses_an_unknown_word(kind, path):
    right = at_path(complete(kind), path)
    for word in ("perhaps", right.upper(), f" {right}", f"{right}\n"):
        assert error_field(kind, changed(complete(kind), path, word)) == path


PARTICULAR = [
    ("branches", "required_state_keys", [], "required_state_keys"),
    ("branches", "required_state_keys", ["memory", "browser", "memory"], "required_state_keys.2"),
    ("branches", "state", {"": {"fingerprint": None, "restore": "matched"}}, "state"),
    ("branches", "state.unasked", {"fingerprint": None, "restore": "perhaps"}, "state.unasked.restore"),
    ("branches", "effects.0.status", "reconciled", "effects.0.decision"),
    ("branches", "effects.0.status", "pending", "effects.0.decision"),
    ("handoffs", "events", [], "events"),
    ("handoffs", "limits.acceptance_s", 12.0, "limits.acceptance_s"),
    ("topology", "contract.agents", ["lead", "scout", "judge", "scout"], "contract.agents.3"),
    ("topology", "contract.agents.1", "sc out", "contract.agents.1"),
    ("topology", "contract.agents.1", "scout*", "contract.agents.1"),
    ("topology", "contract.agents.1", "a>b", "contract.agents.1"),
    ("topology", "contract.agents.1", "a:b", "contract.agents.1"),
    ("topology", "contract.agents.1", "a|b", "contract.agents.1"),
    ("topology", "contract.agents.1", "a\u2003b", "contract.agents.1"),
    ("topology", "contract.edges.1.kind", "evi:dence", "contract.edges.1.kind"),
    ("topology", "contract.edges.1.kind", "evi\tdence", "contract.edges.1.kind"),
    ("topology", "contract.edges.1.from", "stranger", "contract.edges.1.from"),
    ("topology", "contract.edges.1.to", "stranger", "contract.edges.1.to"),
    ("topology", "contract.edges.1.max", 0, "contract.edges.1.max"),
    ("topology", "contract.phases.other", [[]], "contract.phases.other.0"),
    ("topology", "contract.phases.other", ["judge>scout:return"], "contract.phases.other.0"),
    ("topology", "contract.phases.other", ["*>lead:return"], "contract.phases.other.0"),
    ("topology", "contract.phases.other", [["judge>lead:return", "x"]], "contract.phases.other.0.1"),
    ("topology", "contract.phases.other", [[["judge>lead:return"]]], "contract.phases.other.0.0"),
    ("topology", "contract.phases", {"": [], "research": []}, "contract.phases"),
    ("topology", "run.phase", "unknown", "run.phase"),
    ("topology", "run.deadline", "", "run.deadline"),
    ("stops", "policy.conditions.2.n", 3, "policy.conditions.2.n"),
    ("stops", "policy.conditions.1", {"type": "tool_call", "n": 1}, "policy.conditions.1.n"),
    ("stops", "policy.conditions.0", {"type": "step_count"}, "policy.conditions.0.n"),
    ("stops", "policy.conditions.0", {"n": 1}, "policy.conditions.0.type"),
]


@pytest.mark.parametrize(("kind", "path", "value", "field"), PARTICULAR)
def test_it_refuses_what_the_table_forbids_in_particular(kind, path, value, field):
    assert error_field(kind, changed(complete(kind), path, value)) == field


def test_it_refuses_a_second_effect_with_the_same_key():
    effect = {"operation_key": "mail-1", "status": "reverted", "decision": None}
    spoilt = complete("branches")
    spoilt["effects"].append(effect)
    assert error_field("branches", spoilt) == "effects.1.operation_key"


def test_it_refuses_a_second_edge_with_the_same_key_whatever_its_maximum():
    spoilt = complete("topology")
    spoilt["contract"]["edges"].append(spoilt["contract"]["edges"][0] | {"max": 9})
    assert error_field("topology", spoilt) == "contract.edges.3"


def test_it_refuses_one_event_id_with_two_contents():
    spoilt = complete("topology")
    spoilt["events"].append(spoilt["events"][0] | {"status": "error"})
    assert error_field("topology", spoilt) == "events.1.event_id"


@pytest.mark.parametrize("field", ["receiver", "expected_artifact"])
def test_it_asks_a_delegation_for_receiver_and_artifact(field):
    lacking = without(complete("handoffs"), f"events.0.{field}")
    assert error_field("handoffs", lacking) == f"events.0.{field}"
