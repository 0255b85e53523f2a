"""What the three asking commands have in common: targets of the caller's own, one object out, four exits."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import IntEnum
from hashlib import sha256
from typing import Any, Final

from branches.evidence.keys import HmacKey
from branches.ports import Answer, Check, JsonValue, Moment, Question, Target
from branches.registry import PluginMissing, PluginUnfit, Port, find, names

# Whoever has a shell here may connect wherever this machine may; what a cloud guards stays refused.
_EVERYWHERE: Final[list[JsonValue]] = ["0.0.0.0/0", "::/0"]
# On the command line equal states must give equal fingerprints on every machine, so the key is a constant:
# these digests compare, they do not hide what can be guessed.
KEY: Final = HmacKey("00000000", sha256(b"branchgate/command-line").digest())
_UNFIT: Final = "target_unfit"
_NO_URL: Final = "url_form"


class Exit(IntEnum):
    """What a script sees."""

    YES = 0
    NO = 1
    UNKNOWN = 2
    BAD_INPUT = 3


class BadInput(ValueError):
    """An argument cannot be used; says which and by which rule, never its value."""


@dataclass(frozen=True, slots=True)
class Said:
    """One object to print, and the exit that goes with it."""

    out: dict[str, Any]
    exit: Exit


def target_of(text: str) -> Target:
    """Read a target given as JSON; private addresses are allowed. Raises BadInput."""
    options = object_of(text, "target")
    return Target("command-line", {"allow": _EVERYWHERE, **options}, KEY)


def object_of(text: str, field: str) -> dict[str, JsonValue]:
    """Read a JSON object. Raises BadInput."""
    try:
        found = json.loads(text, object_pairs_hook=_no_twins)
    except (ValueError, RecursionError):
        raise BadInput(f"{field}: json") from None
    if not isinstance(found, dict):
        raise BadInput(f"{field}: object")
    return found


def probe(name: str, target: Target, expected: str | None) -> Said:
    """Measure, and compare where a fingerprint is expected. Raises BadInput."""
    plugin = _plugin("probes", name)
    found = plugin.measure(target, Moment(None, None, datetime.now(UTC)))
    _refuse_unfit(found.problem, found.unfit)
    out: dict[str, Any] = {
        "fingerprint": found.fingerprint,
        "facts": dict(sorted(found.facts.items())),
        "parts": dict(sorted(found.parts.items())),
        "limits": plugin.limits,
    }
    if found.fingerprint is None:
        # Reached and not there is an answer; not reached is none.
        word, end = ("unreachable", Exit.UNKNOWN) if not found.reachable else ("not_restored", Exit.NO)
        return Said({**out, "result": word, "problem": found.problem}, end)
    if expected is None:
        return Said({**out, "result": "measured"}, Exit.YES)
    if found.fingerprint == expected:
        return Said({**out, "result": "matched"}, Exit.YES)
    return Said({**out, "result": "drifted"}, Exit.NO)


def ask(kind: str, target: Target, operation_key: str, payload: str | None, tool: str) -> Said:
    """Ask a destination about one operation. Raises BadInput."""
    if not operation_key:
        raise BadInput("key: required")
    plugin = _plugin("destinations", kind)
    found = plugin.ask(target, Question(operation_key, tool, payload))
    _refuse_unfit(found.problem, found.unfit)
    out = {
        "answer": str(found.answer),
        "fingerprint": found.fingerprint,
        "version": found.version,
        "ref": found.ref,
        "problem": found.problem,
        "limits": getattr(plugin, "limits", None),
    }
    ends = {Answer.PRESENT: Exit.YES, Answer.UNKNOWN: Exit.UNKNOWN}
    return Said(out, ends.get(found.answer, Exit.NO))


def verify_outcome(
    kind: str, target: Target, terms: Mapping[str, JsonValue], baseline: str | None, keys: frozenset[str]
) -> Said:
    """Ask for an expected outcome; without a baseline whatever is there counts as fresh. Raises BadInput."""
    plugin = _plugin("verifiers", kind)
    asked = Target(target.name, {**target.options, "expected": {_EXPECTED: dict(terms)}}, target.key)
    found = plugin.check(asked, _EXPECTED, baseline, keys)
    _refuse_unfit(found.problem, found.unfit)
    is_there = found.check is Check.PASSED and found.fresh
    out = {
        "result": "verified" if is_there else str(found.check),
        "fresh": found.fresh,
        "fingerprint": found.artifact,
        "version": found.version,
        "difference": list(found.difference),
        "problem": found.problem,
        "limits": getattr(plugin, "limits", None),
    }
    if is_there:
        return Said(out, Exit.YES)
    return Said(out, Exit.UNKNOWN if found.check is Check.UNREACHABLE else Exit.NO)


_EXPECTED: Final = "command-line"


def _plugin(port: Port, name: str) -> Any:
    try:
        return find(port, name)
    except PluginMissing:
        raise BadInput(f"name: one of {', '.join(names(port))}") from None
    except PluginUnfit:
        raise BadInput("name: the plug-in does not fulfil its port") from None


def _refuse_unfit(problem: str | None, option: str | None) -> None:
    """Say which option is wrong and which rule it breaks, where the plug-in names it."""
    if problem == _UNFIT:
        raise BadInput(f"target.{option}" if option else f"target: {_UNFIT}")
    if problem == _NO_URL:
        raise BadInput(f"target: {_NO_URL}")


def _no_twins(members: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(members)
    if len(found) != len(members):
        raise ValueError("named twice")
    return found
