"""Reads which tool calls a saved RunState of the OpenAI Agents SDK waits with, and which were decided."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from debugger.adapters.plain_files import read_plain

MOST_BYTES: Final = 32 * 1024 * 1024
NEWEST: Final = 21
_VERSION: Final = re.compile(r"1\.(0|[1-9][0-9]?)")
_WAITS: Final = "next_step_interruption"
_STEPS: Final = frozenset({_WAITS, "next_step_run_again", "next_step_handoff", "next_step_final_output"})
EVERY_CALL: Final = "*"


class StateUnreadable(Exception):
    """The file does not say; the message is a closed word."""


@dataclass(frozen=True, slots=True)
class Decisions:
    """Calls that wait and calls that were decided, as texts that must leave as HMAC only."""

    pending: list[str] = field(repr=False)
    decided: list[tuple[str, str]] = field(repr=False)
    """What was decided with the word: `approved`, `rejected`, or one of them for every call to come."""


@dataclass(frozen=True, slots=True)
class _Record:
    """One decision: whose and for which tool (as written), for which call."""

    owner: str
    tool: str
    call: str
    word: str


def read_run_state(path: Path) -> Decisions:
    """Return the decisions in a file. Raises StateUnreadable."""
    state = _parsed(path)
    version = _VERSION.fullmatch(_text(state, "$schemaVersion"))
    if version is None or int(version[1]) > NEWEST:
        raise StateUnreadable("version_unknown")
    records = set(_records(_object(state, "context")))
    calls = {(each.call, each.word) for each in records if each.call != EVERY_CALL}
    if len({call for call, _ in calls}) != len(calls):
        raise StateUnreadable("state_inconsistent")
    pending = [_written(item) for item in _interruptions(state) if not _is_decided(item, records)]
    decided = [(_written([each.owner, each.tool, each.call]), each.word) for each in records]
    return Decisions(pending, decided)


def _parsed(path: Path) -> dict[str, Any]:
    try:
        raw = read_plain(path, MOST_BYTES)
    except FileNotFoundError:
        raise StateUnreadable("file_absent") from None
    except OSError:
        raise StateUnreadable("file_unreadable") from None
    if len(raw) > MOST_BYTES:
        raise StateUnreadable("too_large")
    try:
        state = json.loads(raw, object_pairs_hook=_unique)
    except (ValueError, RecursionError):
        raise StateUnreadable("state_form") from None
    if not isinstance(state, dict):
        raise StateUnreadable("state_form")
    return state


def _interruptions(state: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the calls that a waiting run names; a run that does not wait has none."""
    if (step := state.get("current_step", ...)) is None:
        return
    if not isinstance(step, dict) or step.get("type") not in _STEPS:
        raise StateUnreadable("state_form")
    if step["type"] == _WAITS:
        for item in _list(_object(step, "data").get("interruptions")):
            if not isinstance(item, dict):
                raise StateUnreadable("state_form")
            yield item


def _records(context: Mapping[str, Any]) -> Iterator[_Record]:
    """Yield every decision, from the three places where the versions of the SDK keep them."""
    for tool, decision in _object(context, "approvals").items():
        yield from _decided("", tool, decision)
    for entry in _list(context.get("function_tool_approvals", [])):
        owner = _written(_object(entry, "agent"))
        yield from _decided(owner, _text(entry, "tool_key"), _object(entry, "decision"))
    for entry in _list(context.get("hosted_mcp_approvals", [])):
        identity = _object(entry, "identity")
        if isinstance(request := identity.get("request_id"), str):
            decision = _object(entry, "decision")
            identity = {**identity, "request_id": ""}
            yield from _decided("", _written(identity), _for_request(decision, request))
        else:
            yield from _decided("", _written(identity), _object(entry, "decision"))


def _for_request(decision: Mapping[str, Any], request: str) -> dict[str, Any]:
    """Return a decision over one request as one that names it."""
    return {word: [request] if decision.get(word) else [] for word in ("approved", "rejected")}


def _decided(owner: str, tool: str, decision: Any) -> Iterator[_Record]:
    for word in ("approved", "rejected"):
        calls = decision.get(word, []) if isinstance(decision, dict) else None
        if calls is True:
            yield _Record(owner, tool, EVERY_CALL, f"{word}_always")
            continue
        for call in _list([] if calls is False else calls):
            if not isinstance(call, str):
                raise StateUnreadable("state_form")
            yield _Record(owner, tool, call, word)


def _is_decided(item: Mapping[str, Any], records: set[_Record]) -> bool:
    """Whether a decision covers a call: by the call's id, or for every call of this tool."""
    call = _call_of(_object(item, "raw_item"))
    name, space = item.get("tool_name"), item.get("tool_namespace")
    tools = {name, f"{space}.{name}", f"deferred_top_level:{name}"}
    owner = _written(_object(item, "agent"))
    return any(
        each.call == call or (each.call == EVERY_CALL and each.tool in tools and each.owner in {"", owner})
        for each in records
    )


def _call_of(raw: Mapping[str, Any]) -> str:
    """Return a call's id, where the SDK itself looks for it."""
    hosted = raw.get("provider_data")
    if isinstance(hosted, dict) and hosted.get("type") == "mcp_approval_request":
        return _text(hosted, "id")
    if raw.get("type") == "mcp_approval_request":
        return _text(raw, "id")
    return _text(raw, "call_id" if "call_id" in raw or "type" in raw else "id")


def _object(value: Any, name: str) -> dict[str, Any]:
    found = value.get(name) if isinstance(value, dict) else None
    if not isinstance(found, dict):
        raise StateUnreadable("state_form")
    return found


def _text(value: Any, name: str) -> str:
    found = value.get(name) if isinstance(value, dict) else None
    if not isinstance(found, str) or not found:
        raise StateUnreadable("state_form")
    return found


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise StateUnreadable("state_form")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("duplicate_key")
    return found


def _written(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
