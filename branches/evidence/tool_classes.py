"""What annotations say each tool of a registry does, as one number that travels as a fact.

Two bits a tool, in the order of the digests under which the tools' parts are recorded: so no tool is named.
"""

from collections.abc import Iterable, Mapping
from typing import Final

FACT: Final = "tool_classes"
WORDS: Final = ("unknown", "read", "reversible", "irreversible")
MOST_TOOLS: Final = 20
"""As many fit into a whole number that JSON keeps."""


def packed(classes: Mapping[str, str]) -> int | None:
    """Return the classes by part as one number; None where there are no tools, or too many."""
    if not 0 < len(classes) <= MOST_TOOLS:
        return None
    return sum(WORDS.index(classes[part]) << 2 * place for place, part in enumerate(sorted(classes)))


def unpacked(number: object, parts: Iterable[str]) -> dict[str, str]:
    """Return the class of each part; nothing where the number cannot be of these parts."""
    named = sorted(parts)
    if type(number) is not int or not named or not 0 <= number < 1 << 2 * len(named):
        return {}
    return {part: WORDS[number >> 2 * place & 3] for place, part in enumerate(named)}
