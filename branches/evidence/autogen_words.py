"""Why an AutoGen team stopped, by the exact beginning of its stop reason; the text itself goes no further.

A stop reason is free text with words of users inside. Only what the library itself writes is looked for, and
only at the beginning: a mention of `Timeout of` within somebody's text is no timeout.
"""

import re
from dataclasses import dataclass
from enum import StrEnum, auto
from typing import Final

_LONGEST: Final = 9  # digits of a number that is believed


class Unit(StrEnum):
    """What a limit counts."""

    MESSAGES = auto()
    TURNS = auto()


@dataclass(frozen=True, slots=True)
class Reason:
    """The class of a stop reason: the cause of a stop receipt, and the numbers that the library wrote.

    `limit` is a number of messages or turns, the tokens counted so far, or milliseconds.
    """

    cause: str | None
    limit: int | None = None
    counted: int | None = None
    unit: Unit | None = None
    stands_still: bool = False
    """The team said that it was stopped: nobody of it will go on, and nothing was finished."""

    @property
    def is_claim(self) -> bool:
        """Whether the team says by this that it is done."""
        return self.cause in {"natural_finish", "done_tool"}


UNKNOWN: Final = Reason(None)
_MESSAGES: Final = re.compile(r"Maximum number of messages (\d+) reached, current message count: (\d+)")
_TURNS: Final = re.compile(r"Maximum number of turns (\d+) reached\.")
_TOKENS: Final = re.compile(r"Token usage limit reached, total token count: (\d+)")
_TIMEOUT: Final = re.compile(r"Timeout of (\d+(?:\.\d+)?) seconds reached")
_DONE_TOOL: Final = re.compile(r"Function '([^']+)' was executed\.")
# Beginning, what must come somewhere after it, and the cause.
_TABLE: Final = (
    ("Maximum number of ", "", "step_limit"),
    ("Max rounds reached.", "", "step_limit"),
    ("Token usage limit", "", "token_budget"),
    ("Timeout of ", "", "timeout"),
    ("Text '", "' mentioned", "natural_finish"),
    ("Text message received from '", "", "natural_finish"),
    ("Stop message received", "", "natural_finish"),
    ("Digraph execution is complete", "", "natural_finish"),
    ("Function '", "' was executed.", "done_tool"),
    ("Handoff to ", " detected.", "approval_requested"),
    ("External termination requested", "", "user_abort"),
    ("'", "' answered", "natural_finish"),
)
_STANDS_STILL: Final = ("The group chat is stopped.", "The group chat has already terminated.")


def reason_of(text: str | None) -> Reason:
    """Return the class of a stop reason; one of a program's own making has no cause.

    A team that stands still is told as silence: `timeout` without useful progress is *stuck*, the only word
    of the rules for a team that will not go on and has finished nothing.
    """
    if text is None:
        return UNKNOWN
    if text in _STANDS_STILL:
        return Reason("timeout", stands_still=True)
    if (found := _MESSAGES.match(text)) is not None:
        return Reason("step_limit", _number(found[1]), _number(found[2]), Unit.MESSAGES)
    if (found := _TURNS.match(text)) is not None:
        return Reason("step_limit", _number(found[1]), None, Unit.TURNS)
    if (found := _TOKENS.match(text)) is not None:
        return Reason("token_budget", _number(found[1]))
    if (found := _TIMEOUT.match(text)) is not None:
        return Reason("timeout", _milliseconds(found[1]))
    for beginning, after, cause in _TABLE:
        if text.startswith(beginning) and after in text[len(beginning) :]:
            return Reason(cause)
    return UNKNOWN


def done_tool_of(text: str | None) -> str | None:
    """Return the tool that a stop reason names, to be looked up among those that were called."""
    found = _DONE_TOOL.match(text or "")
    return None if found is None else found[1]


def _number(digits: str) -> int | None:
    return int(digits) if len(digits) <= _LONGEST else None


def _milliseconds(digits: str) -> int | None:
    return int(float(digits) * 1000) if len(digits) <= _LONGEST else None
