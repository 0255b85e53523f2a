"""Circles of waits: found whole, once, and only where there is one."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as some

from branches.rules.waits import Wait, deadlocks

NAMES = some.sampled_from(["a", "b", "c", "d", "e"])


def waits(*pairs: str) -> list[Wait]:
    return [Wait(pair[0], pair[1]) for pair in pairs]


@pytest.mark.parametrize(
    ("pairs", "found"),
    [
        ((), ()),
        (("ab", "bc"), ()),
        (("ab", "ba"), (("a", "b"),)),
        (("ab", "bc", "ca", "dc"), (("a", "b", "c"),)),
        (("aa",), (("a",),)),
        (("ab", "ba", "cd", "dc"), (("a", "b"), ("c", "d"))),
        (("ab", "ba", "bc", "cb"), (("a", "b", "c"),)),
        (("ab", "ac", "bd", "cd"), ()),
    ],
)
def test_a_circle_of_waits_is_a_deadlock_and_a_chain_is_none(
    pairs: tuple[str, ...], found: tuple[tuple[str, ...], ...]
) -> None:
    assert deadlocks(waits(*pairs)) == found


@given(some.lists(some.tuples(NAMES, NAMES)))
def test_it_finds_just_those_who_wait_for_themselves_in_the_end(
    pairs: list[tuple[str, str]],
) -> None:
    known = {(who, on) for who, on in pairs}
    while more := {(a, d) for a, b in known for c, d in known if b == c} - known:
        known |= more
    expected = {who for who, on in known if who == on}
    found = deadlocks(Wait(who, on) for who, on in pairs)
    assert {name for group in found for name in group} == expected
    for group in found:
        assert all((who, on) in known for who in group for on in group)
    assert deadlocks(reversed([Wait(who, on) for who, on in pairs])) == found


def test_a_long_chain_is_walked_without_a_limit() -> None:
    names = [f"agent-{number}" for number in range(5_000)]
    chain = [Wait(who, on) for who, on in pairwise(names)]
    assert deadlocks(chain) == ()
    assert deadlocks([*chain, Wait(names[-1], names[0])]) == (tuple(sorted(names)),)
