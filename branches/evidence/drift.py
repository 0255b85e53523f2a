"""What drifted: the parts of a state at a checkpoint beside the parts now, by the digests of their names."""

from collections.abc import Mapping
from typing import Any, Final

from branches.evidence.domains import PART
from branches.evidence.keys import HmacKey, is_hmac

MOST_PARTS: Final = 24
"""As many parts travel with a checkpoint, over all its keys: a receipt's body is bounded."""
MOST_CHANGES: Final = 24
MOST_FACTS: Final = 32


def part_ref(key: HmacKey, name: str) -> str:
    """Return the HMAC under which a part of this name is recorded."""
    return key.digest(PART, name)


def parts_in(facts: Mapping[str, Any]) -> dict[str, str]:
    """Return the parts among a checkpoint's facts: a digest under a digest; every other fact has a name."""
    return {
        name: value
        for name, value in facts.items()
        if is_hmac(name) and isinstance(value, str) and is_hmac(value)
    }


def changes(before: Mapping[str, str], after: Mapping[str, str]) -> list[dict[str, str]]:
    """Return `[{"part", "change"}]` (`added`, `removed`, `changed`); nothing where a side is unknown."""
    if not before or not after:
        return []
    found = []
    for part in sorted(before.keys() | after.keys()):
        if part not in before:
            found.append({"part": part, "change": "added"})
        elif part not in after:
            found.append({"part": part, "change": "removed"})
        elif before[part] != after[part]:
            found.append({"part": part, "change": "changed"})
    return found[:MOST_CHANGES]


def fitting(
    parts_by_key: Mapping[str, Mapping[str, str]], taken: Mapping[str, int]
) -> dict[str, dict[str, str]]:
    """Return the parts that travel with a checkpoint: whole keys, the smallest first, while there is room.

    `taken` says how many other facts a key has already. A key's parts go together or not at all: half of
    them would look like parts that were added later.
    """
    room, found = MOST_PARTS, {}
    for name, parts in sorted(parts_by_key.items(), key=lambda each: (len(each[1]), each[0])):
        if parts and len(parts) <= room and len(parts) + taken.get(name, 0) <= MOST_FACTS:
            found[name] = dict(parts)
            room -= len(parts)
    return found
