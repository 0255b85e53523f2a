"""The one place where a test may ask the recorder to die, as if the machine had."""

import os
import signal
from typing import Final

POINTS: Final = (
    "after_redeem",
    "after_copy",
    "after_edit",
    "after_restored",
    "after_starting",
    "after_started",
)


def here(point: str) -> None:
    """Kill this very program without any clean-up when BRANCHGATE_CRASH_AT names the point."""
    if os.environ.get("BRANCHGATE_CRASH_AT") == point and point in POINTS:
        os.kill(os.getpid(), signal.SIGKILL)
