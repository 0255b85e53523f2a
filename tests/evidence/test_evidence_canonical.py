"""Canonical bytes, strict reading, digests."""

import hashlib
import json
import subprocess
import sys
from enum import IntEnum, StrEnum

import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from branches.evidence import canonical
from branches.evidence.canonical import MAX_INTEGER, ProfileError, canonical_bytes, digest, parse_strict

TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
KEYS = st.from_regex(canonical.KEY_PATTERN, fullmatch=True)
LEAVES = st.none() | st.booleans() | st.integers(-MAX_INTEGER, MAX_INTEGER) | TEXTS
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=30,
)


@settings(max_examples=250)
@given(VALUES)
def test_all_three_writers_agree_with_the_reference(value):
    reference = rfc8785.dumps(value)
    assert canonical_bytes(value) == reference
    assert canonical._write_with_json(value) == reference
    assert canonical._write_with_orjson(value) == reference


@settings(max_examples=100)
@given(VALUES)
def test_reading_the_canonical_form_gives_the_value_back(value):
    raw = canonical_bytes(value)
    assert parse_strict(raw) == value
    assert parse_strict(raw.decode()) == value
    assert canonical.is_canonical(value, raw)
    spaced = json.dumps(value, indent=1).encode()
    assert canonical_bytes(parse_strict(spaced)) == raw


@settings(max_examples=100)
@given(VALUES)
def test_the_quick_look_lets_nothing_through_that_the_slow_one_refuses(value):
    if canonical._is_within(value):
        canonical._check(value, "", 1)


def test_enum_words_and_tuples_are_written_as_what_they_stand_for():
    class Word(StrEnum):
        OPEN = "open"

    assert canonical_bytes({"a": Word.OPEN, "b": (1, 2)}) == b'{"a":"open","b":[1,2]}'


def nested(levels):
    value = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "field", "rule"),
    [
        ({"a": 1.5}, "a", "float"),
        ({"a": [0, 2.0]}, "a.1", "float"),
        ({"a": float("nan")}, "a", "float"),
        ({"a": MAX_INTEGER + 1}, "a", "integer_range"),
        ({"a": -MAX_INTEGER - 1}, "a", "integer_range"),
        ({"a": {"b": "\ud800"}}, "a.b", "surrogate"),
        ({"a": {"b c": 1}}, "a", "key"),
        ({"a": {"é": 1}}, "a", "key"),
        ({"a": {1: 1}}, "a", "key"),
        ({"a": {"": 1}}, "a", "key"),
        ({"a": {"b\n": 1}}, "a", "key"),
        ({"a": b"bytes"}, "a", "type"),
        ({"a": {1, 2}}, "a", "type"),
        ({"Some-Name": {"b": 1.5}}, "*.b", "float"),
        (nested(13), ".".join("0" * 12), "depth"),
        ("\ud800", "", "surrogate"),
        (1.5, "", "float"),
    ],
)
def test_it_refuses_what_is_outside_the_profile(value, field, rule):
    with pytest.raises(ProfileError) as refusal:
        canonical_bytes(value)
    assert (refusal.value.field, refusal.value.rule) == (field, rule)


def test_the_unchecked_writer_raises_the_same_error():
    for value in ({"a": b"x"}, {"a": "\ud800"}, {"a": 2**70}):
        with pytest.raises(ProfileError):
            canonical.write_bytes(value)


def test_an_integer_that_is_an_enum_word_keeps_the_range():
    class Count(IntEnum):
        FEW = 3
        TOO_MANY = 2**60

    assert canonical_bytes([Count.FEW]) == b"[3]"
    with pytest.raises(ProfileError, match="integer_range"):
        canonical_bytes([Count.TOO_MANY])


def test_twelve_levels_are_allowed():
    assert parse_strict(canonical_bytes(nested(12))) == nested(12)


@pytest.mark.parametrize(
    ("raw", "rule"),
    [
        (b'{"a":1,"a":1}', "duplicate_key"),
        (b'{"b":{"a":1,"a":2}}', "duplicate_key"),
        (b'{"a":1,"\\u0061":2}', "duplicate_key"),
        (b'{"a":NaN}', "float"),
        (b'{"a":-Infinity}', "float"),
        (b'{"a":1.0}', "float"),
        (b'{"a":1e3}', "float"),
        (b'{"a":9007199254740992}', "integer_range"),
        (b'{"a":' + b"9" * 5000 + b"}", "integer_range"),
        (b'{"a":"\\ud800"}', "surrogate"),
        (b'{"a":["\\udc00\\ud800"]}', "surrogate"),
        (b'{"\\ud800":1}', "surrogate"),
        (b'{"a":"\xff"}', "utf8"),
        (b"\xef\xbb\xbf{}", "json"),
        (b"[" * 13 + b"]" * 13, "depth"),
        (b"[" * 30000 + b"]" * 30000, "depth"),
        (b'{"a":1} x', "json"),
        (b'{"a":1}{"a":1}', "json"),
        (b"", "json"),
        (b"{'a':1}", "json"),
        (b'{"a":"\n"}', "json"),
        (b'{"a":01}', "json"),
        (b'"' + b"a" * 70000 + b'"', "max_bytes"),
        ('"' + "é" * 40000 + '"', "max_bytes"),
        ('"\ud800"', "utf8"),
    ],
)
def test_it_reads_strictly(raw, rule):
    with pytest.raises(ProfileError) as refusal:
        parse_strict(raw)
    assert refusal.value.rule == rule


def test_a_refusal_holds_nothing_of_what_was_refused():
    for raw in (b'{"CONTENT-MARKER-7f3a":1,"CONTENT-MARKER-7f3a":1}', b'{"a": CONTENT-MARKER-7f3a}'):
        with pytest.raises(ProfileError) as refusal:
            parse_strict(raw)
        assert "MARKER" not in repr(refusal.value) + str(refusal.value)


def test_a_pair_of_surrogates_is_one_character():
    assert parse_strict(b'"\\ud83d\\ude00"') == "\U0001f600"


def test_a_line_separator_inside_a_text_is_part_of_it():
    assert parse_strict('{"a":"x\u2028y"}'.encode()) == {"a": "x\u2028y"}


def test_a_digest_is_separated_by_its_domain():
    expected = "sha256:" + hashlib.sha256(b'branchgate/facts/v1\0{"a":1}').hexdigest()
    assert digest(canonical.FACTS, {"a": 1}) == digest(canonical.FACTS, b'{"a":1}') == expected
    assert digest(canonical.SUBJECT, {"a": 1}) != expected


def test_it_works_without_the_packages_of_the_server():
    script = (
        "import sys\n"
        "for name in ('orjson', 'jsonschema_rs', 'django', 'celery', 'msgpack', 'ormsgpack'):\n"
        "    sys.modules[name] = None\n"
        "from branches.evidence import boxes, canonical, chain, governance, ids, keys, msgpack_hash\n"
        "from branches.evidence import names, schema, signing\n"
        "assert canonical._write is canonical._write_with_json\n"
        "print(canonical.canonical_bytes({'b': 'é', 'a': [1, None, True]}).decode())\n"
    )
    ran = subprocess.run(
        [sys.executable, "-X", "utf8", "-c", script],
        capture_output=True,
        text=True,
        check=True,
        encoding="utf-8",
    )
    assert ran.stdout.strip() == '{"a":[1,null,true],"b":"é"}'
