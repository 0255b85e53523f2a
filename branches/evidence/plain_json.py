"""Plain JSON that a store gives back exactly as it was put in: one rule for both sides of an edit."""

import json
from typing import Any, Final

_DEEPEST: Final = 64
# What msgpack holds: one bit more upwards, where nothing is negative.
_LEAST, _MOST = -(2**63), 2**64 - 1


def parsed(text: str) -> Any:
    """Return the value a text is the plain JSON of.

    Raises ValueError also for NaN, a number that is infinite or beyond 64 bits, a member named twice, half
    of a surrogate pair, and what is nested too deep. The message never holds the text.
    """
    try:
        value = json.loads(text, parse_constant=_no_constant, object_pairs_hook=_no_twins)
    except (ValueError, RecursionError):
        raise ValueError("json: form") from None
    if not is_plain(value):
        raise ValueError("json: plain")
    return value


def is_plain(value: Any, depth: int = 0) -> bool:
    """Whether a value is exactly what a store and its JSON would give back: no tuple, no subclass, no NaN."""
    if depth > _DEEPEST:
        return False
    if type(value) is list:
        return all(is_plain(each, depth + 1) for each in value)
    if type(value) is dict:
        return all(_is_text(name) and is_plain(each, depth + 1) for name, each in value.items())
    if type(value) is float:
        return value - value == 0  # neither infinite nor NaN
    if type(value) is int:
        return _LEAST <= value <= _MOST
    return value is None or type(value) is bool or _is_text(value)


def _is_text(value: Any) -> bool:
    """Whether a value is text that has a form in UTF-8."""
    if type(value) is not str:
        return False
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _no_constant(_: str) -> Any:
    raise ValueError("json: constant")


def _no_twins(members: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(members)
    if len(found) != len(members):
        raise ValueError("json: a member is named twice")
    return found
