"""What a receipt may carry: every kind, every place, and nothing of what is refused in the refusal."""

import copy
import itertools
import re

import pytest
from receipt_samples import (
    CANARIES,
    HMAC,
    MARKER,
    NAME,
    SHA256,
    at,
    places,
    replaced,
    sample,
    samples,
    with_key,
)

from branches.evidence import ids, schema
from branches.evidence.keys import HmacKey
from branches.evidence.schema import (
    OUTSIDE_KINDS,
    PRODUCT_KINDS,
    SCHEMAS,
    WORKSPACE_KINDS,
    Declared,
    ReceiptError,
    check_declared,
    check_sent,
    cover_names,
    declared_names,
)

ALL = {category: frozenset({NAME}) for category in Declared}
OUTSIDE = [
    "run_started",
    "message",
    "checkpoint",
    "effect_intended",
    "effect_answered",
    "effect_reused",
    "effect_held",
    "effect_skipped",
    "handoff",
    "interaction",
    "progress",
    "stopped",
    "outcome",
    "recording_closed",
    "recording_gap",
    "started",
    "restored",
]
PRODUCT = [
    "forked",
    "configuration_pinned",
    "configuration_changed",
    "state_measured",
    "drift_acknowledged",
    "effect_asked",
    "effect_reconciled",
    "ledger_attested",
    "approval_requested",
    "decided",
    "request_ended",
    "permit_issued",
    "permit_redeemed",
    "sealed",
    "edit_disclosed",
    "baseline_taken",
    "outcome_checked",
    "concluded",
    "conflict",
    "refused",
    "edited",
    "lease_lost",
    # What the probe saw when the checkpoint was captured, as state_measured says what it sees now.
    "state_captured",
    # What arrived at a destination, and what of it no receipt accounts for.
    "arrivals_audited",
    # Whom an approval waits for, as somebody said after the loop had stopped.
    "approval_routed",
    # How a handoff is to be recovered, within which bounds.
    "recovery_decided",
]


def refusal(sent, declared=None):
    """The refusal of check_sent, else of check_declared, else null."""
    try:
        check_sent(sent)
        check_declared(sent, {} if declared is None else declared)
    except ReceiptError as error:
        return error
    return None


def assert_silent(error, canary):
    shown = f"{error} {error!r} {error.field} {error.rule} {error.args} {error.__cause__} {error.__context__}"
    assert "MARKER" not in shown
    assert canary not in shown


def test_there_is_a_schema_for_every_kind_of_the_contract():
    assert frozenset(OUTSIDE) == OUTSIDE_KINDS
    assert frozenset(PRODUCT) == PRODUCT_KINDS
    assert set(SCHEMAS) == OUTSIDE_KINDS | PRODUCT_KINDS | WORKSPACE_KINDS
    assert len(SCHEMAS) == len(OUTSIDE_KINDS) + len(PRODUCT_KINDS) + len(WORKSPACE_KINDS)


def subschemas(value):
    if isinstance(value, dict):
        yield value
        for name, member in value.items():
            # Conditions only narrow what the closed schema beside them allows.
            if name not in ("if", "then"):
                yield from subschemas(member)
    elif isinstance(value, list):
        for member in value:
            yield from subschemas(member)


@pytest.mark.parametrize("kind", SCHEMAS)
def test_every_object_is_closed_and_every_text_is_bounded(kind):
    for each in subschemas(SCHEMAS[kind]):
        kinds = each.get("type", [])
        if not isinstance(kinds, (str, list)):
            continue  # a property that is called "type"
        kinds = [kinds] if isinstance(kinds, str) else kinds
        if "object" in kinds and "oneOf" not in each:
            assert each["additionalProperties"] is False or "propertyNames" in each
        if "string" in kinds:
            assert "enum" in each or "const" in each or {"pattern", "maxLength"} <= each.keys()
        if "array" in kinds:
            assert "maxItems" in each
        if "pattern" in each:
            assert each["pattern"].startswith("^(?:")
            assert each["pattern"].endswith(")$")


@pytest.mark.parametrize("kind", SCHEMAS)
def test_every_declared_category_is_known(kind):
    for each in subschemas(SCHEMAS[kind]):
        if isinstance(each.get("x-declared"), str):
            assert each["x-declared"] in set(Declared)


def test_a_valid_receipt_of_every_kind_passes():
    for kind, sent in samples():
        check_sent(sent)
        check_declared(sent, ALL)
        assert sent["kind"] == kind


def test_the_same_receipts_are_refused_where_nothing_is_declared():
    for _, sent in samples():
        if declared_names(sent):
            with pytest.raises(ReceiptError, match="declared"):
                check_declared(sent, {})


@pytest.mark.parametrize("kind", SCHEMAS)
def test_no_canary_passes_in_any_place(kind):
    for sent, canary in itertools.product([sample(kind, 0), sample(kind, 1), sample(kind, 3)], CANARIES):
        for path in places(sent):
            if path:
                error = refusal(replaced(sent, path, canary))
                assert error is not None, path
                assert_silent(error, canary)


@pytest.mark.parametrize("kind", SCHEMAS)
def test_no_canary_passes_as_a_key(kind):
    for sent, canary in itertools.product([sample(kind, 0), sample(kind, 1)], CANARIES):
        for path in places(sent):
            value = at(sent, path)
            if isinstance(value, dict):
                members = [1, canary, *itertools.islice(value.values(), 1), {"x": {}}]
                for member in members:
                    error = refusal(with_key(sent, path, canary, member), ALL)
                    assert error is not None, path
                    assert_silent(error, canary)


@pytest.mark.parametrize("kind", SCHEMAS)
def test_every_member_is_needed_or_said_to_be_optional(kind):
    sent = sample(kind)
    optional = {
        "handoff": {"receiver", "expected_artifact", "dependency", "deadline", "reason", "trace"},
        "stopped": {"done_tool", "loop_ref"},
    }.get(kind, set())
    for path in places(sent):
        value = at(sent, path)
        if not isinstance(value, dict) or (
            path and isinstance(at(sent, path[:-1]), dict) and path[-1] == NAME
        ):
            continue
        for name in value:
            changed = copy.deepcopy(sent)
            del at(changed, path)[name]
            error = refusal(changed, ALL)
            if name == NAME or (path == ("body",) and name in optional and value.get("event") != "delegated"):
                continue
            if error is None:
                assert name in optional, (path, name)
            elif "oneOf" not in str(error):
                assert error.rule in ("required", "form"), (path, name)


@pytest.mark.parametrize(
    ("path", "value", "field", "rule"),
    [
        (("v",), 2, "v", "enum"),
        (("v",), True, "v", "type"),
        (("event_id",), ids.mint("run"), "event_id", "pattern:id"),
        (("event_id",), ids.mint("evt") + "\n", "event_id", "pattern:id"),
        (("run",), ids.mint("ws"), "run", "pattern:id"),
        (("kind",), "unheard_of", "kind", "enum"),
        (("kind",), 7, "kind", "type"),
        (("kind",), ["message"], "kind", "type"),
        (("at",), "2026-11-30T09:00:00", "at", "pattern:timestamp"),
        (("at",), "2026-02-30T09:00:00Z", "at", "pattern:timestamp"),
        (("at",), "2026-11-30T24:00:00Z", "at", "pattern:timestamp"),
        (("at",), "2026-11-30T09:00:00Z\n", "at", "pattern:timestamp"),
        (("writer_seq",), 0, "writer_seq", "range"),
        (("writer_seq",), 2**53, "writer_seq", "range"),
        (("writer_seq",), 2.0, "writer_seq", "float"),
        (("writer_seq",), None, "writer_seq", "type"),
        (("actor", "name"), "two words", "actor.name", "pattern:name"),
        (("actor",), {"type": "agent", "name": NAME, "id": ids.mint("per")}, "actor", "closed"),
        (("actor",), {"type": "stranger", "id": ids.mint("per")}, "actor", "form"),
        (("actor",), {"type": "person", "id": ids.mint("run")}, "actor.id", "pattern:id"),
        (("actor",), {"type": "person"}, "actor.id", "required"),
        (("body", "class"), "gossip", "body.class", "enum"),
        (("body", "content"), SHA256, "body.content", "pattern:hmac"),
        (("body", "tokens"), -1, "body.tokens", "range"),
        (("body", "bytes"), "7", "body.bytes", "type"),
        (("body",), [], "body", "type"),
    ],
)
def test_a_refusal_names_the_field_and_the_rule(path, value, field, rule):
    error = refusal(replaced(sample("message"), path, value), ALL)
    assert (error.field, error.rule) == (field, rule)


def test_it_refuses_what_is_no_receipt():
    for value, field, rule in (([], "", "type"), ("x", "", "type"), ({}, "kind", "required")):
        with pytest.raises(ReceiptError) as error:
            check_sent(value)
        assert (error.value.field, error.value.rule) == (field, rule)


def test_an_unknown_key_is_reported_at_its_parent():
    for path, field in (((), ""), (("body",), "body"), (("actor",), "actor")):
        error = refusal(with_key(sample("message"), path, "prompt", 1), ALL)
        assert (error.field, error.rule) == (field, "closed")


def test_a_key_of_a_map_is_not_shown():
    state = {"secret_plan": {"fingerprint": "x", "facts": {}}}
    error = refusal(replaced(sample("checkpoint"), ("body", "state"), state), ALL)
    assert (error.field, error.rule) == ("body.state.*.fingerprint", "pattern:digest")
    state = {"secret_plan": {"fingerprint": HMAC, "facts": {}}}
    error = refusal(replaced(sample("checkpoint"), ("body", "state"), state), ALL)
    assert (error.field, error.rule) == ("body.state", "declared")
    state = {NAME: {"fingerprint": HMAC, "facts": {"secret_plan": 2.0}}}
    error = refusal(replaced(sample("checkpoint"), ("body", "state"), state), ALL)
    assert (error.field, error.rule) == ("body.state.*.facts.*", "float")


def test_only_the_kinds_from_outside_can_be_ingested():
    for kind in SCHEMAS:
        sent = sample(kind)
        if kind in OUTSIDE_KINDS:
            check_sent(sent, kinds=OUTSIDE_KINDS)
        else:
            with pytest.raises(ReceiptError, match="kind: enum"):
                check_sent(sent, kinds=OUTSIDE_KINDS)


def test_a_body_has_a_bounded_size():
    step = {"tools": [NAME] * 60, "tokens": 1}
    small = replaced(sample("stopped"), ("body", "steps"), [step] * 8)
    check_sent(small)
    error = refusal(replaced(sample("stopped"), ("body", "steps"), [step] * 12), ALL)
    assert (error.field, error.rule) == ("body", "max_bytes")


def test_a_delegation_names_receiver_and_artifact():
    sent = sample("handoff")
    assert sent["body"]["event"] == "delegated"
    for name in ("receiver", "expected_artifact"):
        nameless = copy.deepcopy(sent)
        del nameless["body"][name]
        assert refusal(nameless, ALL).rule == "required"
        assert refusal(replaced(sent, ("body", name), None), ALL).rule == "type"
    accepted = replaced(sent, ("body",), {"operation": HMAC, "handoff": HMAC, "event": "accepted"})
    check_sent(accepted)


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("checkpoint", ("body", "consistent")),
        ("stopped", ("body", "tool_failed")),
        ("stopped", ("body", "useful_progress")),
        ("effect_answered", ("body", "answer")),
        ("effect_intended", ("body", "effect_class")),
        ("effect_skipped", ("body", "decision")),
        ("outcome", ("body", "check")),
        ("outcome_checked", ("body", "fresh")),
        ("restored", ("body", "state", NAME, "result")),
        ("recording_closed", ("body", "count")),
        ("recording_gap", ("body", "gap")),
        ("run_started", ("body", "recording")),
    ],
)
def test_null_is_refused_where_not_knowing_would_read_as_good(kind, path):
    error = refusal(replaced(sample(kind), path, None), ALL)
    assert error.rule in ("type", "enum")


def test_names_are_found_with_their_field_and_category():
    assert declared_names(sample("interaction")) == [
        ("actor.name", "agent", NAME),
        ("body.from", "agent", NAME),
        ("body.to", "agent", NAME),
        ("body.kind", "kind", NAME),
    ]
    found = declared_names(sample("checkpoint"))
    assert ("body.state", "state_key", NAME) in found
    assert ("body.state.*.facts", "fact", NAME) in found
    assert ("body.state.*.facts.*", "fact_word", NAME) in found
    assert ("body.policy.conditions.0.tool", "tool", NAME) in declared_names(sample("stopped", 1))
    assert ("body.issuer.name", "validator", NAME) in declared_names(sample("outcome", 1))
    assert declared_names({"kind": "unheard_of"}) == []


def test_an_undeclared_name_is_refused_with_its_field_only():
    sent = replaced(sample("message"), ("body", "recipient"), "CONTENT-MARKER-7f3a")
    error = refusal(sent, ALL)
    assert (error.field, error.rule) == ("body.recipient", "declared")
    assert_silent(error, "CONTENT-MARKER-7f3a")


def test_a_name_declared_in_one_category_is_unknown_in_another():
    with pytest.raises(ReceiptError) as error:
        check_declared(sample("interaction"), ALL | {Declared.KIND: frozenset()})
    assert (error.value.field, error.value.rule) == ("body.kind", "declared")


def test_a_keyed_digest_stands_for_an_undeclared_name_and_a_plain_one_does_not():
    check_declared(replaced(sample("message"), ("body", "recipient"), HMAC), ALL)
    assert refusal(replaced(sample("message"), ("body", "recipient"), SHA256), ALL).rule == "declared"


def test_covering_replaces_every_undeclared_name():
    key = HmacKey("0a1b2c3d", b"k" * 32)
    for _, sent in samples():
        before = copy.deepcopy(sent)
        covered = cover_names(sent, {}, key)
        check_sent(covered)
        check_declared(covered, {})
        assert NAME not in re.findall(r"\w+", str(covered))
        assert sent == before
        assert cover_names(sent, ALL, key) == sent


def test_covering_leaves_a_receipt_of_an_unknown_kind_alone():
    key = HmacKey("0a1b2c3d", b"k" * 32)
    assert cover_names({"kind": "unheard_of", "body": NAME}, {}, key) == {"kind": "unheard_of", "body": NAME}


def test_looking_for_names_survives_any_form():
    for value in (None, 7, "x", [], {}):
        for path in (("body",), ("actor",), ("body", "state"), ("body", "state", NAME)):
            assert isinstance(declared_names(replaced(sample("checkpoint"), path, value)), list)
        for path in (("body", "policy", "conditions"), ("body", "steps"), ("body", "steps", 0)):
            assert isinstance(declared_names(replaced(sample("stopped"), path, value)), list)


def test_a_person_is_named_by_id_without_declaration():
    person = ids.mint("per")
    approval = {"owner": person, "deadline": None, "resume_token": None}
    check_declared(replaced(sample("stopped"), ("body", "approval"), approval), ALL)


def test_covering_separates_categories():
    key = HmacKey("0a1b2c3d", b"k" * 32)
    body = cover_names(sample("interaction"), {}, key)["body"]
    assert body["from"] == body["to"] != body["kind"]


def test_the_schemas_are_served_by_kind():
    assert schema.json_schema("message")["title"] == "message"
    with pytest.raises(KeyError):
        schema.json_schema("unheard_of")


def test_the_marker_is_among_the_canaries():
    assert MARKER in CANARIES
    assert len(CANARIES) == 16
