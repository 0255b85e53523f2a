"""Strict reading of JSON facts: a getter returns a typed value or raises an error that names the field."""

import re
from collections.abc import Iterator
from enum import StrEnum

from branches.rules.instants import Instant

_ABSENT = object()
_SURROGATE = re.compile("[\ud800-\udfff]")
# A field nobody named may be content: only what looks like a name is shown, the rest is a question mark.
_SHOWABLE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./:@-]{0,95}")


class FactError(ValueError):
    """A fact that cannot be judged.

    `field` is a dotted path such as `effects.0.decision`, or None when there is no JSON object at all;
    `message` is the rule that was broken. Neither ever holds the value.
    """

    def __init__(self, field: str | None, message: str) -> None:
        super().__init__(f"{field}: {message}" if field else message)
        self.field = field
        self.message = message

    def as_json(self) -> dict[str, object]:
        """`{"error": {"field": ..., "message": ...}}`, as the command line prints it."""
        return {"error": {"field": self.field, "message": self.message}}


def read_text(value: object, path: str) -> str:
    """A string that may be empty and is well-formed Unicode."""
    if not isinstance(value, str):
        raise FactError(path, "must be a string")
    if not value.isascii() and _SURROGATE.search(value):
        raise FactError(path, "must not hold a lone surrogate")
    return value


def read_name(value: object, path: str) -> str:
    """An identifier: a string that is not empty."""
    text = read_text(value, path)
    if not text:
        raise FactError(path, "must not be empty")
    return text


def read_instant(value: object, path: str) -> Instant:
    """An RFC 3339 timestamp with offset."""
    try:
        return Instant.parse(read_text(value, path))
    except FactError:
        raise
    except ValueError:
        raise FactError(path, "must be an RFC 3339 timestamp with offset") from None


class Fields:
    """The fields of one JSON object at a dotted path (the outermost has the empty path).

    A getter without default raises FactError when the field is absent; null is refused unless the name of the
    getter says otherwise.
    """

    __slots__ = ("_found", "_path")

    def __init__(self, value: object, path: str = "") -> None:
        if not isinstance(value, dict):
            raise FactError(path or None, "must be an object")
        self._found = value
        self._path = path

    def __contains__(self, name: str) -> bool:
        return name in self._found

    def path(self, name: str) -> str:
        return f"{self._path}.{name}" if self._path else name

    def only(self, *names: str) -> None:
        """Refuse every field that is not among the names."""
        for name in self._found:
            if name not in names:
                raise FactError(self.path(name if _SHOWABLE.fullmatch(name) else "?"), "is not a known field")

    def _value(self, name: str, default: object = _ABSENT) -> object:
        value = self._found.get(name, default)
        if value is _ABSENT:
            raise FactError(self.path(name), "is required")
        return value

    def text(self, name: str) -> str:
        """A string, possibly empty."""
        return read_text(self._value(name), self.path(name))

    def name(self, name: str, default: object = _ABSENT) -> str:
        """An identifier."""
        return read_name(self._value(name, default), self.path(name))

    def optional_name(self, name: str) -> str | None:
        """An identifier or absent; null is an error."""
        return self.name(name) if name in self else None

    def nullable_name(self, name: str) -> str | None:
        """An identifier; null and "" both mean that there is none."""
        value = self._value(name)
        return None if value is None else read_text(value, self.path(name)) or None

    def flag(self, name: str, default: object = _ABSENT) -> bool:
        value = self._value(name, default)
        if not isinstance(value, bool):
            raise FactError(self.path(name), "must be true or false")
        return value

    def count(self, name: str, default: object = _ABSENT, least: int = 0) -> int:
        """A whole number; true, 20.0 and 2e1 are none."""
        value = self._value(name, default)
        if type(value) is not int:
            raise FactError(self.path(name), "must be an integer")
        if value < least:
            raise FactError(self.path(name), f"must be {least} or more")
        return value

    def word[W: StrEnum](self, name: str, words: type[W], default: object = _ABSENT) -> W:
        """A member of the enum by its value."""
        value = self._value(name, default)
        if not isinstance(value, str) or value not in words.__members__.values():
            raise FactError(self.path(name), f"must be one of {', '.join(words)}")
        return words(value)

    def nullable_word[W: StrEnum](self, name: str, words: type[W]) -> W | None:
        return None if self._value(name) is None else self.word(name, words)

    def instant(self, name: str) -> Instant:
        return read_instant(self._value(name), self.path(name))

    def optional_instant(self, name: str) -> Instant | None:
        return self.instant(name) if name in self else None

    def nullable_instant(self, name: str) -> Instant | None:
        return None if self._value(name) is None else self.instant(name)

    def fields(self, name: str) -> "Fields":
        """A nested object."""
        return Fields(self._value(name), self.path(name))

    def nullable_fields(self, name: str) -> "Fields | None":
        return None if self._value(name) is None else self.fields(name)

    def items(self, name: str) -> Iterator[tuple[str, object]]:
        """(path, value) of each item of an array."""
        value = self._value(name)
        if not isinstance(value, list):
            raise FactError(self.path(name), "must be an array")
        return ((f"{self.path(name)}.{index}", item) for index, item in enumerate(value))

    def objects(self, name: str) -> "Iterator[Fields]":
        """Each item of an array of objects."""
        return (Fields(value, path) for path, value in self.items(name))

    def names(self, name: str) -> tuple[str, ...]:
        """An array of identifiers."""
        return tuple(read_name(value, path) for path, value in self.items(name))

    def own_names(self) -> tuple[str, ...]:
        """The field names of an object whose keys are identifiers."""
        return tuple(read_name(key, self._path) for key in self._found)

    def objects_by_name(self) -> "Iterator[tuple[str, Fields]]":
        """(key, object) of each entry of an object whose keys are identifiers."""
        return ((key, self.fields(key)) for key in self.own_names())


def check_unique(values: tuple[object, ...], path: str, field: str = "") -> None:
    """Refuse the second of two equal values, named by its index and, within objects, its field."""
    seen: set[object] = set()
    for index, value in enumerate(values):
        if value in seen:
            raise FactError(f"{path}.{index}.{field}" if field else f"{path}.{index}", "must be unique")
        seen.add(value)
