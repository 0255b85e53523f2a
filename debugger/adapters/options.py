"""Reads a target's options; what is wrong is said by the option's name and a rule, never by its value."""

import os
from collections.abc import Mapping
from pathlib import Path

from branches.ports import JsonValue, Target


class TargetUnfit(ValueError):
    """An option is missing or of the wrong form; `option` names it."""

    def __init__(self, option: str, rule: str) -> None:
        super().__init__(f"{option}: {rule}")
        self.option = option
        self.rule = rule


def text(target: Target, option: str) -> str:
    """Return a required option as text. Raises TargetUnfit."""
    value = target.options.get(option)
    if not isinstance(value, str) or not value or not _is_whole(value):
        raise TargetUnfit(option, "text")
    return value


def text_or(target: Target, option: str, default: str) -> str:
    """Return an option as text, or the default where it is not given. Raises TargetUnfit."""
    return text(target, option) if option in target.options else default


def local_path(target: Target, option: str) -> Path:
    """Return a required option as a path that a file system takes. Raises TargetUnfit.

    A name of no encoding is written as the system's own functions have it: byte 0xff as U+DCFF.
    """
    value = target.options.get(option)
    try:
        is_path = isinstance(value, str) and bool(value) and b"\0" not in os.fsencode(value)
    except UnicodeEncodeError:
        is_path = False
    if not is_path:
        raise TargetUnfit(option, "path")
    return Path(str(value))


def texts(value: JsonValue, option: str) -> list[str]:
    """Return a value as a list of texts. Raises TargetUnfit."""
    if not isinstance(value, list) or not all(isinstance(each, str) and _is_whole(each) for each in value):
        raise TargetUnfit(option, "list:text")
    return [str(each) for each in value]


def table(target: Target, option: str) -> Mapping[str, JsonValue]:
    """Return an option as an object, empty where it is not given. Raises TargetUnfit."""
    value = target.options.get(option, {})
    if not isinstance(value, dict):
        raise TargetUnfit(option, "object")
    return value


def text_table(target: Target, option: str) -> dict[str, str]:
    """Return an option as an object of texts, empty where it is not given. Raises TargetUnfit."""
    found = table(target, option)
    if not all(isinstance(each, str) and _is_whole(each) for each in found.values()):
        raise TargetUnfit(option, "object:text")
    return {name: str(each) for name, each in found.items()}


def statuses(target: Target, option: str, default: tuple[int, ...]) -> frozenset[int]:
    """Return an option as HTTP statuses. Raises TargetUnfit."""
    value = target.options.get(option, list(default))
    if not isinstance(value, list):
        raise TargetUnfit(option, "list:status")
    found = frozenset(each for each in value if isinstance(each, int) and not isinstance(each, bool))
    if len(found) != len(value):
        raise TargetUnfit(option, "list:status")
    return found


def _is_whole(value: str) -> bool:
    """Whether a text can be written at all: JSON can hold half of a character."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
