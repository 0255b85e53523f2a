"""Which tests share a worker, and which start first: each file, but all that look at one demo world together.

xdist's own `--dist loadgroup` renames tests to group them, which pytest 9.2 no longer lets it do.
"""

from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from typing import Final, Protocol

from xdist.scheduler import LoadScopeScheduling

from tests.worlds import SHARES_A_BROKER

BROWSER: Final = "browser"
WALK: Final = "tests/demo/test_walk.py"
# Seconds, as measured on two cores, of what is long for its number of tests. What begins last must be short.
LONG: Final = {
    BROWSER: 300,
    "tests/web/test_matrix.py": 110,
    WALK: 105,
    "tests/hostile/test_permit_races.py": 320,
    "tests/hostile/test_authority_lives.py": 60,
    "tests/adapters/test_verifier_contract.py": 70,
    "tests/adapters/test_browser.py": 60,
    "tests/demo/test_conforms.py": 55,
    "tests/adapters/test_probe_contract.py": 50,
    "tests/recorder/test_branching.py": 45,
    "tests/recorder/test_conformance.py": 45,
    "tests/api/test_conformance.py": 40,
    "tests/hostile/test_races.py": 40,
    "tests/adapters/test_probe_commands.py": 40,
    "tests/adapters/test_browser_ends.py": 35,
    "tests/api/test_trace_pieces.py": 35,
    "tests/commands/test_payloads.py": 25,
    "tests/live_audits/test_audits.py": 25,
    "tests/js/test_live.py": 20,
    "tests/recorder/openai_agents/test_promises.py": 20,
}
_A_TEST_TAKES: Final = 0.25
# Each of their tests is long, and stands alone.
_SPLIT: Final = ("tests/hostile/test_authority_lives.py", "tests/hostile/test_authority_faults.py")


class Item(Protocol):
    """A collected test."""

    nodeid: str


class WorldScheduling(LoadScopeScheduling):
    """Sends a group of tests to one worker, in the order they were collected in."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


def group_of(nodeid: str) -> str:
    """Return the group of a test.

    Two worlds on one Redis would take each other's jobs, so there they follow each other on one worker.
    """
    path = nodeid.partition("::")[0]
    if "/browser/" in path or (path == WALK and SHARES_A_BROKER):
        return BROWSER
    return nodeid if path in _SPLIT else path


def longest_first[T: Item](items: Sequence[T]) -> list[T]:
    """Return the tests with their groups in the order of how long they take; within a group nothing moves."""
    by_group = itemgetter(0)
    pairs = sorted(((group_of(item.nodeid), item) for item in items), key=by_group)
    groups = {group: [item for _, item in members] for group, members in groupby(pairs, by_group)}
    return [
        item
        for group in sorted(groups, key=lambda group: (-_takes(group, groups[group]), group))
        for item in groups[group]
    ]


def _takes(group: str, members: Sequence[Item]) -> float:
    return LONG.get(group.partition("::")[0], _A_TEST_TAKES * len(members))
