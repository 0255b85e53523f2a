"""What is wrong with a workflow's declaration, by field and rule; a name of its own shows as `*`."""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from branches.evidence.canonical import ProfileError, canonical_bytes
from branches.evidence.kinds.forms import NAME_PATTERN, VERSION_PATTERN
from branches.queries.acknowledgement import is_never_acknowledgeable
from branches.queries.contract_form import contract_problems
from branches.queries.declarations import RECOVERY_LIMITS
from branches.queries.form_problem import Problem

_NAME = re.compile(NAME_PATTERN)
_VERSION = re.compile(VERSION_PATTERN)
_REQUIRED: Final = (
    "workflow", "version", "runtime", "agents", "state_keys", "tools", "destinations", "outcome", "limits",
)  # fmt: skip
_OPTIONAL: Final = (
    "models", "roles", "kinds", "phases", "progress", "contract", "phase", "facts", "dependencies",
    "reasons", "owners", "validators", "capabilities", "writers",
)  # fmt: skip
_NAME_LISTS: Final = (
    "agents", "models", "roles", "kinds", "phases", "dependencies", "reasons", "owners", "progress",
    "validators", "capabilities",
)  # fmt: skip
_MOST_BYTES: Final = 64 * 1024
_LONGEST_S: Final = 366 * 24 * 3600
_ACCEPTED: Final = frozenset({"present", "absent"})
_EFFECT_CLASSES: Final = frozenset({"read", "reversible", "irreversible", "unknown"})


def problem_of(declared: Mapping[str, Any]) -> Problem | None:
    """Return the first problem found, or None."""
    try:
        if len(canonical_bytes(declared)) > _MOST_BYTES:
            return Problem("", "max_bytes")
    except ProfileError as error:
        return Problem("", error.rule)  # its path may hold the names that the rules below would refuse
    return next(_problems(declared), None)


def _problems(declared: Mapping[str, Any]) -> Iterator[Problem]:
    missing = [name for name in _REQUIRED if name not in declared]
    if missing:
        yield Problem(missing[0], "required")
        return
    if set(declared) - set(_REQUIRED) - set(_OPTIONAL):
        yield Problem("", f"closed:{','.join((*_REQUIRED, *_OPTIONAL))}")
    if not _is_name(declared["workflow"]):
        yield Problem("workflow", "pattern:name")
    if not _is_name(declared["runtime"]):
        yield Problem("runtime", "pattern:name")
    if declared.get("phase") is not None and not _is_name(declared["phase"]):
        yield Problem("phase", "pattern:name")
    if not isinstance(declared["version"], str) or not _VERSION.fullmatch(declared["version"]):
        yield Problem("version", "pattern:version")
    for field in _NAME_LISTS:
        yield from _name_list(field, declared.get(field, []))
    if not declared["agents"]:
        yield Problem("agents", "not_empty")
    yield from _state_keys(declared["state_keys"])
    yield from _destinations(declared["destinations"])
    yield from _tools(declared["tools"], declared["destinations"])
    yield from _outcome(declared["outcome"])
    yield from _limits(declared["limits"])
    yield from _facts(declared.get("facts", {}))
    yield from _writers(declared.get("writers", {}), declared["agents"])
    if declared.get("contract") is not None:
        yield from contract_problems(declared["contract"], "contract")


def _is_name(value: object) -> bool:
    return isinstance(value, str) and _NAME.fullmatch(value) is not None


def _name_list(field: str, value: object) -> Iterator[Problem]:
    if not isinstance(value, list) or not all(map(_is_name, value)):
        yield Problem(field, "list:name")
    elif len(set(value)) != len(value):
        yield Problem(field, "unique")


def _objects(field: str, value: object, closed: Mapping[str, type | tuple[type, ...]]) -> Iterator[Problem]:
    """Check a map of names to closed objects whose members have these types."""
    if not isinstance(value, dict):
        yield Problem(field, "object")
        return
    for name, member in value.items():
        if not _is_name(name):
            yield Problem(field, "pattern:name")
        elif not isinstance(member, dict) or set(member) - set(closed):
            yield Problem(f"{field}.*", "closed")


def _members(field: str, member: Mapping[str, Any], required: tuple[str, ...]) -> Iterator[Problem]:
    for name in required:
        if name not in member:
            yield Problem(f"{field}.{name}", "required")


def _state_keys(value: object) -> Iterator[Problem]:
    yield from _objects("state_keys", value, {"probe": str, "target": str, "acknowledgeable": bool})
    if not isinstance(value, dict) or not value:
        yield Problem("state_keys", "not_empty")
        return
    for key in value.values():
        if not isinstance(key, dict):
            continue
        yield from _members("state_keys.*", key, ("probe", "target"))
        for field in ("probe", "target"):
            if not _is_name(key.get(field)):
                yield Problem(f"state_keys.*.{field}", "pattern:name")
        if not isinstance(key.get("acknowledgeable", False), bool):
            yield Problem("state_keys.*.acknowledgeable", "type:boolean")
        elif key.get("acknowledgeable", False) and is_never_acknowledgeable(key["probe"]):
            yield Problem("state_keys.*.acknowledgeable", "never_acknowledgeable")


def _destinations(value: object) -> Iterator[Problem]:
    yield from _objects("destinations", value, {"query": str, "target": str, "fixture": bool, "accept": dict})
    if not isinstance(value, dict):
        return
    for rule in value.values():
        if not isinstance(rule, dict):
            continue
        for field in ("query", "target"):
            if not _is_name(rule.get(field)):
                yield Problem(f"destinations.*.{field}", "pattern:name")
        if not isinstance(rule.get("fixture", False), bool):
            yield Problem("destinations.*.fixture", "type:boolean")
        if "accept" in rule:
            yield from _acceptance("destinations.*.accept", rule["accept"])


def _acceptance(field: str, value: object) -> Iterator[Problem]:
    """What cannot be undone is never accepted by a policy: only these two answers can be."""
    if not isinstance(value, dict) or set(value) != {"answers", "until"}:
        yield Problem(field, "closed:answers,until")
        return
    answers = value["answers"]
    if not isinstance(answers, list) or not answers or not set(map(str, answers)) <= _ACCEPTED:
        yield Problem(f"{field}.answers", "enum")
    if not isinstance(value["until"], str) or not _is_moment(value["until"]):
        yield Problem(f"{field}.until", "timestamp")


def _is_moment(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


def _tools(value: object, destinations: object) -> Iterator[Problem]:
    yield from _objects("tools", value, {"destination": str, "effect_class": str, "key_fields": list})
    if not isinstance(value, dict):
        return
    known = destinations if isinstance(destinations, dict) else {}
    for tool in value.values():
        if not isinstance(tool, dict):
            continue
        field = "tools.*"
        effect_class = tool.get("effect_class")
        if not isinstance(effect_class, str) or effect_class not in _EFFECT_CLASSES:
            yield Problem(f"{field}.effect_class", "enum")
        if "destination" not in tool:
            yield Problem(f"{field}.destination", "required")
        elif tool["destination"] is not None and not (
            isinstance(tool["destination"], str) and tool["destination"] in known
        ):
            yield Problem(f"{field}.destination", "declared")
        elif tool["destination"] is None and effect_class != "read":
            yield Problem(f"{field}.destination", "required_unless_read")
        yield from _name_list(f"{field}.key_fields", tool.get("key_fields", []))


def _outcome(value: object) -> Iterator[Problem]:
    if not isinstance(value, dict) or set(value) != {"expected", "verifier", "target"}:
        yield Problem("outcome", "closed:expected,verifier,target")
    elif not all(map(_is_name, value.values())):
        yield Problem("outcome", "pattern:name")


def _limits(value: object) -> Iterator[Problem]:
    if not isinstance(value, dict) or set(value) - {"max_age_s", "start_s", "steps", "handoffs"}:
        yield Problem("limits", "closed:max_age_s,start_s,steps,handoffs")
        return
    for name in ("max_age_s", "start_s"):
        number = value.get(name)
        if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= _LONGEST_S:
            yield Problem(f"limits.{name}", f"integer:1..{_LONGEST_S}")
    steps = value.get("steps", 1)
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
        yield Problem("limits.steps", "integer>=1")
    if "handoffs" in value:
        yield from _handoffs("limits.handoffs", value["handoffs"])


_HANDOFF_LIMITS: Final = ("acceptance_s", "progress_s", "verification_s")
_RECOVERY_LIMITS: Final = tuple(name for name, _ in RECOVERY_LIMITS.values())
_MOST_ATTEMPTS: Final = 20


def _handoffs(field: str, value: object) -> Iterator[Problem]:
    known = (*_HANDOFF_LIMITS, *_RECOVERY_LIMITS, "redeliver")
    if not isinstance(value, dict) or set(value) - set(known):
        yield Problem(field, f"closed:{','.join(known)}")
        return
    for name in _RECOVERY_LIMITS:
        if not _is_count(value.get(name, 1), 1, _LONGEST_S):
            yield Problem(f"{field}.{name}", f"integer:1..{_LONGEST_S}")
    for name in _HANDOFF_LIMITS:
        if not _is_count(value.get(name, 0), 0, _LONGEST_S):
            yield Problem(f"{field}.{name}", f"integer:0..{_LONGEST_S}")
    again = value.get("redeliver", {"attempts": 1, "limit_s": 1})
    if not isinstance(again, dict) or set(again) != {"attempts", "limit_s"}:
        yield Problem(f"{field}.redeliver", "closed:attempts,limit_s")
        return
    for name, most in (("attempts", _MOST_ATTEMPTS), ("limit_s", _LONGEST_S)):
        if not _is_count(again[name], 1, most):
            yield Problem(f"{field}.redeliver.{name}", f"integer:1..{most}")


def _is_count(value: object, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _facts(value: object) -> Iterator[Problem]:
    if not isinstance(value, dict) or not all(map(_is_name, value)):
        yield Problem("facts", "object")
        return
    for words in value.values():
        yield from _name_list("facts.*", words)


_MOST_WRITERS: Final = 32


def _writers(value: object, agents: object) -> Iterator[Problem]:
    """Whom a workflow entitles beside a run's own recorder, by the names of API tokens."""
    yield from _objects("writers", value, {"agents": list, "outcomes": bool})
    if not isinstance(value, dict):
        return
    if len(value) > _MOST_WRITERS:
        yield Problem("writers", f"at_most:{_MOST_WRITERS}")
    known = agents if isinstance(agents, list) else []
    for each in value.values():
        if not isinstance(each, dict):
            continue
        own, outcomes = each.get("agents", []), each.get("outcomes", False)
        yield from _name_list("writers.*.agents", own)
        if isinstance(own, list) and any(name not in known for name in own):
            yield Problem("writers.*.agents", "declared")
        if not isinstance(outcomes, bool):
            yield Problem("writers.*.outcomes", "type:boolean")
        if not own and outcomes is False:
            yield Problem("writers.*", "not_empty")
