"""The order in which tests are handed out: whole groups, the longest of them first, none lost."""

from dataclasses import dataclass

from tests.scheduling import group_of, longest_first


@dataclass(frozen=True)
class Named:
    nodeid: str


def test_long_groups_start_first_and_no_test_is_lost_or_moved_within_its_group() -> None:
    names = [
        *(f"tests/rules/test_short.py::test_{number}" for number in (2, 1)),
        "tests/web/test_matrix.py::test_b",
        "tests/rules/test_shorter.py::test_a",
        "tests/web/test_matrix.py::test_a",
        "tests/browser/test_keys.py::test_a",
    ]
    ordered = [item.nodeid for item in longest_first([Named(name) for name in names])]
    assert ordered == [names[5], names[2], names[4], names[0], names[1], names[3]]


def test_a_life_stands_alone_and_a_demo_world_does_not() -> None:
    assert group_of("tests/browser/test_keys.py::test_a") == group_of("tests/browser/test_path.py::test_b")
    first, second = (f"tests/hostile/test_authority_lives.py::test_a[{part}]" for part in range(2))
    assert group_of(first) != group_of(second)
