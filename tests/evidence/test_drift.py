"""What drifted is told by parts: which appeared, went or changed, and nothing where a side is unknown."""

from typing import Any

import pytest

from branches.evidence.drift import MOST_CHANGES, MOST_PARTS, changes, fitting, part_ref, parts_in
from branches.evidence.keys import HmacKey

KEY = HmacKey("0badc0de", b"k" * 32)


def parts(**named: str) -> dict[str, str]:
    return {part_ref(KEY, name): KEY.digest("state", text) for name, text in named.items()}


def test_it_tells_which_part_appeared_went_or_changed() -> None:
    before, after = parts(same="1", other="1", gone="1"), parts(same="1", other="2", new="1")
    found = {each["part"]: each["change"] for each in changes(before, after)}
    assert found == {
        part_ref(KEY, "other"): "changed",
        part_ref(KEY, "gone"): "removed",
        part_ref(KEY, "new"): "added",
    }


def test_it_tells_nothing_where_a_side_is_unknown() -> None:
    assert changes({}, parts(a="1")) == []
    assert changes(parts(a="1"), {}) == []


def test_it_is_bounded() -> None:
    many = parts(**{f"p{number}": "1" for number in range(100)})
    assert len(changes(many, parts(a="1"))) == MOST_CHANGES


def test_it_reads_parts_among_facts_by_their_form() -> None:
    facts: dict[str, Any] = {
        "tools": 3,
        "session": "signed_in",
        "known": KEY.digest("state", "x"),
        **parts(a="1"),
    }
    assert parts_in(facts) == parts(a="1")


@pytest.mark.parametrize(
    ("sizes", "taken", "kept"),
    [
        ({"a": 3, "b": 5}, {}, {"a", "b"}),
        ({"a": MOST_PARTS, "b": 1}, {}, {"b"}),
        ({"a": MOST_PARTS}, {}, {"a"}),
        ({"a": 20}, {"a": 13}, set()),
        ({"a": 0}, {}, set()),
    ],
)
def test_a_keys_parts_travel_together_or_not_at_all(
    sizes: dict[str, int], taken: dict[str, int], kept: set[str]
) -> None:
    given = {name: parts(**{f"p{number}": "1" for number in range(size)}) for name, size in sizes.items()}
    found = fitting(given, taken)
    assert set(found) == kept
    assert all(found[name] == given[name] for name in kept)
