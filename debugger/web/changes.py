"""What a page says of a change of class CP that somebody has just proposed."""

from typing import Protocol


class Proposed(Protocol):
    """A change of class CP."""

    needed: int


def waits(change: Proposed | None) -> str | None:
    """Return what a change still waits for, in words, or None where it is done."""
    if change is None or hasattr(change, "applied"):
        return None
    if hasattr(change, "end"):
        return "Adopted on your word: it is done when the policy’s delay is over."
    return f"Proposed: {change.needed} of the others have to agree."
