"""Fingerprints of LangGraph values: equal over processes and hash seeds, different where the value is."""

import copy
import datetime
import inspect
import os
import subprocess
import sys
import uuid
from contextlib import suppress
from pathlib import Path

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from branches.evidence.msgpack_hash import canonical_hash_exact, canonical_hash_semantic
from branches.evidence.msgpack_read import MAX_DEPTH, MsgpackMalformed, read_msgpack

pytest.importorskip("langgraph.checkpoint.serde.jsonplus")
from langchain_core.messages import AIMessage, HumanMessage
from langgraph_values import Ticket, messages, serialised, values


def exact(value):
    return canonical_hash_exact(serialised(value))


def semantic(value):
    return canonical_hash_semantic(serialised(value))


def in_another_process(seed):
    script = Path(__file__).with_name("langgraph_values.py")
    environment = os.environ | {"PYTHONHASHSEED": str(seed)}
    ran = subprocess.run(
        [sys.executable, str(script)], env=environment, capture_output=True, text=True, check=True
    )
    return {name: bytes.fromhex(raw) for name, raw in (line.split() for line in ran.stdout.splitlines())}


@pytest.fixture(scope="module")
def two_processes():
    return in_another_process(1), in_another_process(2)


def test_hashes_are_equal_over_processes_and_hash_seeds(two_processes):
    first, second = two_processes
    assert first.keys() == second.keys() == values().keys()
    for name in first:
        assert canonical_hash_exact(first[name]) == canonical_hash_exact(second[name]), name
        assert canonical_hash_semantic(first[name]) == canonical_hash_semantic(second[name]), name


def test_the_bytes_themselves_are_not_equal(two_processes):
    first, second = two_processes
    different = {name for name in first if first[name] != second[name]}
    assert {"set", "frozenset", "nested", "keys", "pydantic", "dataclass"} <= different


def test_different_values_have_different_hashes():
    every = list(values().values())
    assert len({exact(value) for value in every}) == len(every)
    assert len({semantic(value) for value in every}) == len(every)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([1, 2], [2, 1]),
        ({1, 2}, {1, 2, 3}),
        ({1, 2}, [1, 2]),
        ({1, 2}, frozenset({1, 2})),
        ([1], [True]),
        ([0], [False]),
        ([1], [1.0]),
        ([1], ["1"]),
        (["a"], [b"a"]),
        ([None], [""]),
        ([[], []], [[[]]]),
        ([{}], [[]]),
        (["ab", "c"], ["a", "bc"]),
        ({"a": "b"}, {"b": "a"}),
        ({1: "a"}, {"1": "a"}),
        (Ticket(title="x"), Ticket(title="y")),
        (Ticket(title="x"), {"title": "x", "labels": set(), "by_name": {}}),
        (datetime.date(2026, 11, 30), datetime.date(2026, 12, 1)),
        ([HumanMessage("yes", id="1")], [HumanMessage("no", id="1")]),
        ([HumanMessage("yes", id="1")], [AIMessage("yes", id="1")]),
        ([HumanMessage("yes", id="1", name="ada")], [HumanMessage("yes", id="1", name="grace")]),
        (["at 2026-11-30T09:00:00Z"], ["at 2026-11-30T09:00:01Z"]),
    ],
)
def test_what_differs_in_meaning_differs_in_both(one, other):
    assert exact(one) != exact(other)
    assert semantic(one) != semantic(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (messages("a", "2026-11-30T09:00:00+00:00"), messages("b", "2026-11-30T10:00:00+00:00")),
        ([uuid.UUID(int=1)], [uuid.UUID(int=2)]),
        ([str(uuid.UUID(int=1))], [str(uuid.UUID(int=2))]),
        ([f"run-{uuid.UUID(int=1)}-0"], [f"run-{uuid.UUID(int=2)}-0"]),
        (["2026-11-30T09:00:00Z"], ["2026-12-30T09:00:00.123+01:00"]),
        (
            [datetime.datetime(2026, 11, 30, tzinfo=datetime.UTC)],
            [datetime.datetime(2026, 12, 1, tzinfo=datetime.UTC)],
        ),
        ({"run_id": "a", "x": 1}, {"run_id": "b", "x": 1}),
        ({"run_id": "a", "x": 1}, {"x": 1}),
        ({"created_at": 1732000000, "x": 1}, {"created_at": 1732000001, "x": 1}),
        ([{"type": "human", "content": "x", "id": "1"}], [{"type": "human", "content": "x", "id": "2"}]),
        ([{"type": "text", "text": "x", "id": "1"}], [{"type": "text", "text": "x", "id": "2"}]),
        ([{"name": "t", "args": {}, "id": "call_1"}], [{"name": "t", "args": {}, "id": "call_2"}]),
    ],
)
def test_ids_and_times_are_left_out_of_the_semantic_hash_only(one, other):
    assert exact(one) != exact(other)
    assert semantic(one) == semantic(other)


def test_an_id_outside_a_message_is_content():
    assert semantic({"id": "ticket-1", "title": "x"}) != semantic({"id": "ticket-2", "title": "x"})


def test_the_arguments_of_a_tool_call_are_content():
    one, other = messages("a", "x"), messages("a", "x")
    other[1].tool_calls[0]["args"]["room"] = 8
    assert semantic(one) != semantic(other)


def test_exact_and_semantic_never_coincide():
    assert exact([1]) != semantic([1])
    assert len(exact([1])) == len(semantic([1])) == 32


def test_it_imports_nothing_that_the_value_names(tmp_path):
    marker = tmp_path / "imported"
    (tmp_path / "evil_module.py").write_text(f"open({str(marker)!r}, 'w')")
    payload = msgpack.packb(("evil_module", "Evil", {"a": 1}))
    raw = msgpack.packb([msgpack.ExtType(code, payload) for code in range(6)])
    sys.path.insert(0, str(tmp_path))
    try:
        assert canonical_hash_exact(raw) != canonical_hash_semantic(raw)
    finally:
        sys.path.remove(str(tmp_path))
    assert "evil_module" not in sys.modules
    assert not marker.exists()


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=("Cs",)), max_size=40)
    | st.binary(max_size=40)
)
KEYS = st.text(st.characters(exclude_categories=("Cs",)), max_size=5) | st.integers(-5, 300)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=20) | st.dictionaries(KEYS, inner, max_size=20),
    max_leaves=40,
)


def reversed_keys(value):
    if isinstance(value, dict):
        return {key: reversed_keys(member) for key, member in reversed(value.items())}
    return [reversed_keys(member) for member in value] if isinstance(value, list) else value


@settings(max_examples=100)
@given(VALUES)
def test_any_value_hashes_the_same_in_any_order_of_keys(value):
    raw = msgpack.packb(value)
    other = msgpack.packb(reversed_keys(value))
    assert canonical_hash_exact(raw) == canonical_hash_exact(other)
    assert canonical_hash_semantic(raw) == canonical_hash_semantic(other)


@settings(max_examples=100)
@given(VALUES, VALUES)
def test_two_values_hash_alike_only_when_they_are_equal(one, other):
    alike = canonical_hash_exact(msgpack.packb(one)) == canonical_hash_exact(msgpack.packb(other))
    assert alike == (msgpack.packb(plain(one)) == msgpack.packb(plain(other)))


def plain(value):
    """The value with sorted keys, so that bytes can be compared; msgpack keeps 1, 1.0 and true apart."""
    if isinstance(value, dict):
        return {key: plain(value[key]) for key in sorted(value, key=lambda key: (str(type(key)), key))}
    return [plain(member) for member in value] if isinstance(value, list) else value


@settings(max_examples=200)
@given(st.binary(max_size=200))
def test_any_bytes_give_a_hash_or_the_one_error(raw):
    with suppress(MsgpackMalformed):
        assert len(canonical_hash_exact(raw)) == 32


@pytest.mark.parametrize(
    ("raw", "rule"),
    [
        (b"", "cut_short"),
        (b"\x92\x01", "cut_short"),
        (b"\xdd\xff\xff\xff\xff", "cut_short"),
        (b"\xdb\xff\xff\xff\xffabc", "cut_short"),
        (b"\x01\x02", "trailing_bytes"),
        (b"\xc1", "unknown_byte"),
        (b"\xa1\xff", "utf8"),
        (b"\x82\x01\x02\x01\x03", "key_twice"),
        (b"\x91" * (MAX_DEPTH + 2) + b"\x01", "too_deep"),
        (b"\xc7\x02\x00\x01\x02", "trailing_bytes"),
    ],
)
def test_it_refuses_what_is_no_value(raw, rule):
    with pytest.raises(MsgpackMalformed) as problem:
        canonical_hash_exact(raw)
    assert problem.value.rule == rule


def test_extensions_within_extensions_count_as_levels():
    raw = b"\x01"
    for _ in range(MAX_DEPTH + 1):
        raw = msgpack.packb(msgpack.ExtType(0, raw))
    with pytest.raises(MsgpackMalformed, match="too_deep"):
        read_msgpack(raw)


def test_a_value_deeper_than_the_stack_is_refused_as_too_deep():
    raw = b"\x91" * (MAX_DEPTH - 1) + b"\x01"
    assert len(canonical_hash_exact(raw)) == 32
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack()) + 60)
    try:
        with pytest.raises(MsgpackMalformed, match="too_deep"):
            canonical_hash_exact(raw)
    finally:
        sys.setrecursionlimit(limit)


def test_an_extension_that_names_no_class_is_hashed_by_its_parts():
    plain = [
        msgpack.packb(msgpack.ExtType(0, msgpack.packb(payload))) for payload in (7, [1], [1, 2, 3], "x")
    ]
    assert len({canonical_hash_exact(raw) for raw in plain}) == 4
    snapshot = [
        msgpack.packb(msgpack.ExtType(7, msgpack.packb(order))) for order in ({1: 2, 3: 4}, {3: 4, 1: 2})
    ]
    assert canonical_hash_exact(snapshot[0]) == canonical_hash_exact(snapshot[1])


def test_an_unknown_extension_is_hashed_by_its_bytes():
    one = msgpack.packb(msgpack.ExtType(42, b"\x82\x01\x02\x03\x04"))
    other = msgpack.packb(msgpack.ExtType(42, b"\x82\x03\x04\x01\x02"))
    assert canonical_hash_exact(one) != canonical_hash_exact(other)


def test_limits_hold(monkeypatch):
    monkeypatch.setattr("branches.evidence.msgpack_read.MAX_BYTES", 3)
    with pytest.raises(MsgpackMalformed, match="too_large"):
        canonical_hash_exact(b"\x94\x01\x02\x03\x04")
    monkeypatch.undo()
    monkeypatch.setattr("branches.evidence.msgpack_read.MAX_NODES", 3)
    with pytest.raises(MsgpackMalformed, match="too_many_nodes"):
        canonical_hash_exact(b"\x94\x01\x02\x03\x04")


def test_the_same_number_in_another_width_is_the_same_number():
    assert canonical_hash_exact(b"\x07") == canonical_hash_exact(b"\xcf" + bytes(7) + b"\x07")
    assert canonical_hash_exact(b"\xca\x3f\x80\x00\x00") == canonical_hash_exact(msgpack.packb(1.0))


def test_hashing_leaves_the_value_alone():
    before = messages("a", "x")
    after = copy.deepcopy(before)
    semantic(after)
    assert after == before
