"""How a destination's names and texts carry an operation key, and how it is read out of them again.

In a name a colon of the key is written as a hyphen: refs, Message-IDs and some file systems hold no colon.
In a text the key stands as it is, behind `operation-key: `.
"""

import hashlib
import re
from dataclasses import dataclass
from typing import Final

from branches.evidence.ids import id_pattern
from branches.evidence.keys import HMAC_PATTERN, KEY_ID_PATTERN
from branches.ports import Target
from debugger.adapters.options import TargetUnfit, text

PLACE: Final = "{operation_key}"
LABEL: Final = "{operation_label}"
_REPEAT: Final = rf"(?:\+{id_pattern('br')})?"
_KEY: Final = re.compile(HMAC_PATTERN + _REPEAT)
_NAMED: Final = re.compile(f"hmac-sha256-({KEY_ID_PATTERN})-([0-9a-f]{{64}})({_REPEAT})")
_MARKED: Final = re.compile(rf"\boperation-key: ({HMAC_PATTERN}{_REPEAT})(?![0-9A-Za-z+_-])")


def named(operation_key: str) -> str:
    """Return the key as names carry it."""
    return operation_key.replace(":", "-")


def label_of(operation_key: str) -> str:
    """Return 43 characters that stand for the key where a name is short: they cannot be read back."""
    return f"op-{hashlib.sha256(operation_key.encode()).hexdigest()[:40]}"


def key_of(found: object) -> str | None:
    """Return what is a key, or carries exactly one behind its mark; None for everything else."""
    if not isinstance(found, str):
        return None
    if _KEY.fullmatch(found):
        return found
    marked = set(_MARKED.findall(found))
    return marked.pop() if len(marked) == 1 else None


def key_in_name(name: str) -> str | None:
    """Return the key that a name is, or None."""
    match = _NAMED.fullmatch(name)
    return None if match is None else f"hmac-sha256:{match[1]}:{match[2]}{match[3]}"


@dataclass(frozen=True, slots=True)
class Template:
    """A name with at most one place for the operation key."""

    before: str
    after: str
    has_key: bool

    @classmethod
    def of(cls, target: Target, option: str, *, needs_key: bool = False) -> "Template":
        """Read an option. Raises TargetUnfit."""
        written = text(target, option)
        if written.count(PLACE) > 1 or (needs_key and PLACE not in written):
            raise TargetUnfit(option, "operation_key")
        before, place, after = written.partition(PLACE)
        return cls(before, after, bool(place))

    def filled(self, operation_key: str) -> str:
        """Return the name of one operation."""
        return f"{self.before}{named(operation_key)}{self.after}" if self.has_key else self.before

    def has_form(self, name: str) -> bool:
        """Whether a name begins and ends as the template does."""
        is_long = len(name) >= len(self.before) + len(self.after)
        return is_long and name.startswith(self.before) and name.endswith(self.after)

    def key_in(self, name: str) -> str | None:
        """Return the operation key that a name of this form carries, or None."""
        if not self.has_key or not self.has_form(name):
            return None
        return key_in_name(name[len(self.before) : len(name) - len(self.after)])
