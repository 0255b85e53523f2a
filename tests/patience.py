"""How long a test waits at most: for what has to come about, and for what has to come to an end at all.

A busy machine holds a thread or a program up for seconds. So none of these measures how fast something is:
where nothing is wrong nobody waits so long, and where something is wrong nobody waits for ever.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

PATIENCE_S: Final = 60.0
"""What has to come about has come about by then."""
END_S: Final = 60.0
"""What has to end has ended by then, its own deadline made short."""
STALL_S: Final = 300.0
"""For so long holds up what holds somebody up: whoever waited for it to go on would be late."""


def comes(holds: Callable[[], object], seconds: float = PATIENCE_S) -> bool:
    """Return whether something comes about in time; it is looked at again and again."""
    until = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


@contextmanager
def ends(most_s: float = END_S) -> Iterator[None]:
    """Fail where something does not come to an end in time."""
    began = time.monotonic()
    yield
    assert time.monotonic() - began < most_s
