"""Reads JSON that a runtime wrote: strictly and within bounds; what is wrong is said without its value."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import isfinite
from typing import Any, Final, NoReturn

from branches.evidence.canonical import MAX_INTEGER
from branches.evidence.kinds.forms import TIMESTAMP_PATTERN

MOST_BYTES: Final = 32 * 1024 * 1024
MOST_TEXT: Final = 4 * 1024 * 1024
"""Characters of one string; what is longer is no fact, and hashing it would only cost."""
MOST_DEPTH: Final = 64
WHOLE: Final = "(whole)"

_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_TIMESTAMP: Final = re.compile(TIMESTAMP_PATTERN)


class Unfit(ValueError):
    """Something that cannot be taken: the dotted field and a rule word, never what stood there."""

    def __init__(self, field: str, rule: str) -> None:
        super().__init__(f"{field or WHOLE}: {rule}")
        self.field = field or WHOLE
        self.rule = rule


@dataclass(frozen=True, slots=True, order=True)
class Moment:
    """A time as it was written, and the instant it names; sorts by the instant."""

    instant: datetime
    text: str = field(compare=False)


def parsed(content: bytes) -> Any:
    """Return a document's value. Raises Unfit: too_large, encoding, duplicate_key, number, nesting, json."""
    if len(content) > MOST_BYTES:
        raise Unfit("", "too_large")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Unfit("", "encoding") from None
    return parsed_text(text)


def parsed_text(text: str) -> Any:
    """Return the value of one JSON text. Raises Unfit, as `parsed` does."""
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_no_number, parse_float=_finite)
    except Unfit:
        raise
    except RecursionError:
        raise Unfit("", "nesting") from None
    except ValueError:
        raise Unfit("", "json") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise Unfit("", "duplicate_key")
    return found


def _no_number(_word: str) -> NoReturn:
    raise Unfit("", "number")


def _finite(digits: str) -> float:
    number = float(digits)
    if not isfinite(number):
        raise Unfit("", "number")
    return number


def check_bounds(value: Any, path: str, known: frozenset[str]) -> None:
    """Refuse what is nested too deeply, too long a text, or one that is no Unicode. Raises Unfit.

    Only keys in `known` are shown in the field: any other may be content.
    """
    level = [(path, value)]
    for _ in range(MOST_DEPTH):
        below: list[tuple[str, Any]] = []
        for place, each in level:
            if isinstance(each, str):
                _check_text(each, place)
            elif isinstance(each, list):
                below += [(_below(place, str(index)), member) for index, member in enumerate(each)]
            elif isinstance(each, dict):
                for key, member in each.items():
                    shown = key if key in known else "*"
                    _check_text(key, _below(place, shown))
                    below.append((_below(place, shown), member))
        if not below:
            return
        level = below
    raise Unfit(path, "nesting")


def _below(path: str, step: str) -> str:
    return f"{path}.{step}" if path else step


def _check_text(text: str, path: str) -> None:
    if len(text) > MOST_TEXT:
        raise Unfit(path, "max_length")
    if not text.isascii() and _SURROGATE.search(text):
        raise Unfit(path, "unicode")


def written(value: Any) -> str:
    """Return a value in one form, whatever the order of its keys."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def moment(text: str, path: str) -> Moment:
    """Return an RFC 3339 time with offset. Raises Unfit."""
    if _TIMESTAMP.fullmatch(text) is None:
        raise Unfit(path, "timestamp")
    try:
        return Moment(datetime.fromisoformat(text).astimezone(UTC), text)
    except (ValueError, OverflowError):
        raise Unfit(path, "timestamp") from None


class Fields:
    """The fields of an object at a dotted path; a getter returns a typed value or raises Unfit.

    `maybe_…` take null and absence for None; the others require the field.
    """

    __slots__ = ("_found", "path")

    def __init__(self, value: Any, path: str = "") -> None:
        if not isinstance(value, dict):
            raise Unfit(path, "object")
        self._found: Mapping[str, Any] = value
        self.path = path

    @property
    def whole(self) -> Mapping[str, Any]:
        """Return the object itself."""
        return self._found

    def __contains__(self, name: str) -> bool:
        return name in self._found

    def at(self, name: str) -> str:
        """Return the path of a field."""
        return _below(self.path, name)

    def value(self, name: str) -> Any:
        """Return a field's value, None where it is not there."""
        return self._found.get(name)

    def required(self, name: str) -> Any:
        """Return a field's value, which may be null."""
        if name not in self._found:
            raise Unfit(self.at(name), "required")
        return self._found[name]

    def maybe_text(self, name: str) -> str | None:
        value = self.value(name)
        if value is None:
            return None
        if not isinstance(value, str):
            raise Unfit(self.at(name), "text")
        return value

    def text(self, name: str) -> str:
        """Return a text that is not empty."""
        self.required(name)
        text = self.maybe_text(name)
        if not text:
            raise Unfit(self.at(name), "text" if text is None else "empty")
        return text

    def maybe_flag(self, name: str) -> bool | None:
        value = self.value(name)
        if value is not None and not isinstance(value, bool):
            raise Unfit(self.at(name), "flag")
        return value

    def flag(self, name: str) -> bool:
        self.required(name)
        flag = self.maybe_flag(name)
        if flag is None:
            raise Unfit(self.at(name), "flag")
        return flag

    def maybe_count(self, name: str, least: int = 0) -> int | None:
        value = self.value(name)
        if value is None:
            return None
        if type(value) is not int:
            raise Unfit(self.at(name), "integer")
        if not least <= value <= MAX_INTEGER:
            raise Unfit(self.at(name), "range")
        return value

    def count(self, name: str, least: int = 0) -> int:
        self.required(name)
        count = self.maybe_count(name, least)
        if count is None:
            raise Unfit(self.at(name), "integer")
        return count

    def maybe_moment(self, name: str) -> Moment | None:
        text = self.maybe_text(name)
        return None if text is None else moment(text, self.at(name))

    def maybe_fields(self, name: str) -> "Fields | None":
        return None if self.value(name) is None else Fields(self.value(name), self.at(name))

    def fields(self, name: str) -> "Fields":
        return Fields(self.required(name), self.at(name))

    def items(self, name: str) -> Iterator[tuple[str, Any]]:
        """Yield (path, value) of each item of a list; none where the field is null or absent."""
        value = self.value(name)
        if value is not None and not isinstance(value, list):
            raise Unfit(self.at(name), "list")
        return ((f"{self.at(name)}.{index}", item) for index, item in enumerate(value or ()))

    def objects(self, name: str) -> "Iterator[Fields]":
        """Yield each item of a list of objects."""
        return (Fields(item, path) for path, item in self.items(name))

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of texts that are not empty."""
        found = []
        for path, item in self.items(name):
            if not isinstance(item, str) or not item:
                raise Unfit(path, "text")
            found.append(item)
        return tuple(found)
