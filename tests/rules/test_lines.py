"""Strict JSON Lines: what is no JSON object is an error of its own line and costs the others nothing."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rule_cases import KINDS, complete, judge

from branches.rules import classify_lines

GOOD = json.dumps(complete("stops")).encode()
VERDICT = judge("stops", complete("stops"))


def spoil(old, new):
    assert GOOD.count(old) == 1
    return GOOD.replace(old, new)


NO_OBJECT = {
    "broken": b"{",
    "two values": GOOD + b" " + GOOD,
    "array": b"[" + GOOD + b"]",
    "null": b"null",
    "number": b"12",
    "string": b'"input"',
    "NaN": spoil(b'"ms": 60000', b'"ms": NaN'),
    "Infinity": spoil(b'"ms": 60000', b'"ms": Infinity'),
    "minus Infinity": spoil(b'"ms": 60000', b'"ms": -Infinity'),
    "one key twice": spoil(b'"sdk": "ai"', b'"sdk": "ai", "sdk": "ai"'),
    "one key twice, deep": spoil(b'"ms": 60000', b'"ms": 60000, "\\u006ds": 60000'),
    "one key twice in what is ignored": b'{"input": ' + GOOD + b', "expect": {"a": 1, "a": 1}}',
    "NaN in what is ignored": b'{"input": ' + GOOD + b', "expect": NaN}',
    "deep array": b"[" * 200_000,
    "deep object": b'{"input":' * 200_000,
    "no UTF-8": spoil(b'"sdk": "ai"', b'"sdk": "\xff"'),
    "a surrogate in UTF-8": spoil(b'"sdk": "ai"', b'"sdk": "\xed\xa0\x80"'),
    "UTF-16": GOOD.decode().encode("utf-16"),
    "byte order mark": b"\xef\xbb\xbf" + GOOD,
    "raw control character": spoil(b'"sdk": "ai"', b'"sdk": "a\x01i"'),
    "trailing comma": GOOD[:-1] + b",}",
    "leading zero": spoil(b'"ms": 60000', b'"ms": 060000'),
    "only a no-break space": "\u00a0".encode(),
}


@pytest.mark.parametrize("line", NO_OBJECT.values(), ids=NO_OBJECT.keys())
def test_it_gives_a_line_that_is_no_json_object_an_error_without_field(line):
    before, error, after = classify_lines("stops", [GOOD, line, GOOD])
    assert error["error"]["field"] is None
    assert before == after == VERDICT


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        (b'"ms": 60000', b'"ms": 60000.0', "policy.conditions.4.ms"),
        (b'"ms": 60000', b'"ms": 6e4', "policy.conditions.4.ms"),
        (b'"ms": 60000', b'"ms": 1e999', "policy.conditions.4.ms"),
        (b'"ms": 60000', b'"ms": ' + b"9" * 5_000, "policy.conditions.4.ms"),
        (b'"ms": 60000', b'"ms": -' + b"9" * 5_000, "policy.conditions.4.ms"),
        (b'"sdk": "ai"', b'"sdk": "\\ud800"', "sdk"),
        (b'"sdk": "ai"', b'"sdk": "ai", "\\udfff": 1', "?"),
    ],
)
def test_it_names_the_field_of_a_value_that_json_allows_and_the_rules_do_not(old, new, field):
    error, after = classify_lines("stops", [spoil(old, new), GOOD])
    assert error["error"]["field"] == field
    assert after == VERDICT


@pytest.mark.parametrize("number", [b"0", b"-0", b"9" * 400])
def test_it_takes_any_integer_from_nought(number):
    assert list(classify_lines("stops", [spoil(b'"ms": 60000', b'"ms": ' + number)])) == [VERDICT]


def test_it_skips_blank_lines_and_accepts_carriage_returns():
    lines = [b"\n", b" \t\r\n", GOOD + b"\r\n", b"", "\n", GOOD.decode() + "\n"]
    assert list(classify_lines("stops", lines)) == [VERDICT, VERDICT]


def test_it_does_not_cut_a_line_at_a_line_separator():
    line = spoil(b'"sdk": "ai"', '"sdk": "a\u2028\u2029\x85i"'.encode())
    assert list(classify_lines("stops", [line + b"\n"])) == [VERDICT]


def test_it_reads_the_input_of_a_fixture_and_ignores_its_other_keys():
    fixture = {"name": 7, "input": complete("stops"), "expect": {"input": []}, "stop_cause": "perhaps"}
    assert judge("stops", fixture) == VERDICT


@pytest.mark.parametrize("value", [None, 5, [], "x", True])
def test_it_names_the_input_of_a_fixture_when_it_is_no_object(value):
    assert judge("stops", {"input": value})["error"]["field"] == "input"


def test_it_names_fields_relative_to_the_input_of_a_fixture():
    spoilt = complete("stops") | {"sdk": 1}
    assert judge("stops", {"name": "x", "input": spoilt})["error"]["field"] == "sdk"


def test_it_reads_no_line_before_it_is_asked_for():
    def lines():
        yield GOOD
        raise AssertionError("read too early")

    assert next(classify_lines("stops", lines())) == VERDICT


def test_it_refuses_an_unknown_kind_at_once():
    with pytest.raises(ValueError, match="siblings"):
        classify_lines("siblings", [])


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def _replace_somewhere(draw, value, new):
    """Walk down at random and put `new` in place of what is found."""
    while True:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        if not keys:
            return
        key = draw(st.sampled_from(keys))
        if not isinstance(value[key], (dict, list)) or draw(st.booleans()):
            value[key] = new
            return
        value = value[key]


@settings(max_examples=300, deadline=None)
@given(st.data(), st.sampled_from(KINDS))
def test_it_answers_every_json_value_with_one_verdict_or_one_error(draws, kind):
    spoilt = complete(kind)
    _replace_somewhere(draws.draw, spoilt, draws.draw(json_values))
    found = judge(kind, spoilt)
    assert ("error" in found) != ("next_action" in found)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=60), st.sampled_from(KINDS))
def test_it_answers_any_bytes_with_at_most_one_object(line, kind):
    found = list(classify_lines(kind, [line]))
    assert len(found) == (1 if line.strip(b" \t\r\n") else 0)
    assert all("error" in each for each in found)
