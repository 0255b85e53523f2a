"""What a span says is missing: others that were sampled away, and parts of its own that were dropped."""

from enum import StrEnum
from typing import Final

MAX_TRACE_STATE: Final = 16 * 1024

_LOCAL_PARENT: Final = 0x100
_REMOTE: Final = 0x300
_TRACE_FLAGS: Final = 0xFF
_SAMPLED: Final = 0x01
KEPT_FLAGS: Final = _REMOTE | _TRACE_FLAGS


class Gap(StrEnum):
    """What is not there."""

    SAMPLED = "sampled"  # other spans, by a sampler that keeps some
    ATTRIBUTES = "attributes"
    EVENTS = "events"
    LINKS = "links"
    SPANS = "spans"  # other spans, that came and are no longer kept


def keeps_some(trace_state: str) -> bool:
    """Whether a tracestate names a sampling probability below one: a threshold, or p-value, other than zero.

    One that cannot be read is not zero. Without one nothing is said; randomness (``rv``, ``r``) is none.
    """
    if len(trace_state) > MAX_TRACE_STATE:
        return False
    for entry in trace_state.split(","):
        vendor, _, said = entry.strip().partition("=")
        if vendor != "ot":
            continue
        for member in said.split(";"):
            name, _, value = member.strip().partition(":")
            if name in {"th", "p"} and (not value or value.strip("0")):
                return True
    return False


def denies_sampling(flags: int) -> bool:
    """Whether trace flags are there and the one for *sampled* is not; all zero are mostly not filled in."""
    return bool(flags & _TRACE_FLAGS) and not flags & _SAMPLED


def differs(flags: int, parents: int) -> bool:
    """Whether of a span and its parent in the same program one alone has the flag for *sampled*.

    One program's exporter fills trace flags in for all its spans or for none; another's may do otherwise.
    """
    return flags & _REMOTE == _LOCAL_PARENT and bool((flags ^ parents) & _SAMPLED)
