"""Strict JSON Lines in, one verdict or one error a line out; a bad line never costs its neighbours theirs."""

import json
import math
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum, auto

from branches.rules.facts import FactError, Fields
from branches.rules.gates import judge_branch, parse_branch
from branches.rules.handoffs import judge_handoff, parse_handoff
from branches.rules.stops import judge_stop, parse_stop
from branches.rules.topology import judge_topology, parse_topology

# More digits than int() takes by default; below it every integer is exact.
MAX_DIGITS = 4_000
_BLANK = " \t\r\n"


class Kind(StrEnum):
    """The four classifiers, by the word the command line takes."""

    BRANCHES = auto()
    HANDOFFS = auto()
    TOPOLOGY = auto()
    STOPS = auto()


_CLASSIFIERS: dict[Kind, Callable[[object], dict[str, object]]] = {
    Kind.BRANCHES: lambda value: judge_branch(parse_branch(value)).as_json(),
    Kind.HANDOFFS: lambda value: judge_handoff(parse_handoff(value)).as_json(),
    Kind.TOPOLOGY: lambda value: judge_topology(parse_topology(value)).as_json(),
    Kind.STOPS: lambda value: judge_stop(parse_stop(value)).as_json(),
}


def classify_lines(kind: str, lines: Iterable[bytes | str]) -> Iterator[dict[str, object]]:
    """Judge each line that is not blank, in order and one at a time.

    Yields the verdict's JSON form, or `{"error": {"field": path or None, "message": rule}}`. A line is the
    input itself or an object that holds it under `input`. The lines must be cut at line feeds alone.
    ValueError for an unknown kind.
    """
    classify = _CLASSIFIERS[Kind(kind)]
    return (_classify(classify, line) for line in lines if not _is_blank(line))


def _is_blank(line: bytes | str) -> bool:
    return not (line.strip(_BLANK) if isinstance(line, str) else line.strip(_BLANK.encode()))


def _classify(classify: Callable[[object], dict[str, object]], line: bytes | str) -> dict[str, object]:
    try:
        return classify(_unwrap(parse_line(line)))
    except FactError as error:
        return error.as_json()


def _unwrap(found: dict[str, object]) -> object:
    """The input itself: no classifier has a field named `input`, so an object with one is a fixture."""
    if "input" not in found:
        return found
    Fields(found).fields("input")
    return found["input"]


def parse_line(line: bytes | str) -> dict[str, object]:
    """One JSON object from one line of UTF-8; FactError without a field when the line is none.

    Stricter than `json.loads`: NaN, Infinity and repeated keys are refused.
    """
    try:
        text = line.decode("utf-8") if isinstance(line, bytes) else line
        found = json.loads(text, object_pairs_hook=_object, parse_constant=_no_constant, parse_int=_integer)
    except UnicodeDecodeError:
        raise FactError(None, "the line is not UTF-8") from None
    except RecursionError:
        raise FactError(None, "the line is nested too deeply") from None
    except json.JSONDecodeError:
        raise FactError(None, "the line is not JSON") from None
    if not isinstance(found, dict):
        raise FactError(None, "the line is not a JSON object")
    return found


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise FactError(None, "an object of the line has one key twice")
    return found


def _no_constant(_name: str) -> object:
    raise FactError(None, "the line holds a number that JSON does not have")


def _integer(digits: str) -> int | float:
    """An integer too long to read becomes infinite: no field accepts that, so the error names the field."""
    return int(digits) if len(digits) <= MAX_DIGITS else math.inf
