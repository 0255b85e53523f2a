"""Which tests share a worker: each file, but all that look at one demo world together.

xdist's own `--dist loadgroup` renames tests to group them, which pytest 9.2 no longer lets it do.
"""

from xdist.scheduler import LoadScopeScheduling

from tests.worlds import SHARES_A_BROKER


class WorldScheduling(LoadScopeScheduling):
    """Sends a group of tests to one worker, in the order they were collected in; the largest go first."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


def group_of(nodeid: str) -> str:
    """Return the group of a test.

    Two worlds on one Redis would take each other's jobs, so there they follow each other on one worker.
    """
    path = nodeid.partition("::")[0]
    if "/browser/" in path:
        return "browser"
    if path.endswith("/demo/test_walk.py") and SHARES_A_BROKER:
        return "browser"
    return path
