"""The body of a `stopped` receipt from what an importer read, cut to what a receipt may hold.

A long loop is cut in this order, the oldest steps first: the names of the tools that a step called; then
the tokens of every step, unless a token budget is why the loop stopped; then whole steps. The last step keeps
its tools as long as it can, because the rules look at the last step. A loop that lost whole steps no longer
proves a limit, so that cause is left out rather than shown beside a number of steps that is not its own.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum, auto
from typing import Any, Final

from branches.evidence.canonical import canonical_bytes
from branches.evidence.ids import is_id
from branches.evidence.keys import HmacKey, is_digest
from branches.evidence.kinds.forms import NAME_PATTERN, Declared
from branches.evidence.names import cover_name
from branches.evidence.schema import MAX_BODY_BYTES

MOST_STEPS: Final = 512
MOST_TOOLS: Final = 64
MOST_CONDITIONS: Final = 16
# As long as any name or keyed digest may be: what a name will be covered with is longer than most names.
_WIDEST: Final = "x" * 96
_NAME: Final = re.compile(NAME_PATTERN)


class Cause(StrEnum):
    """Why a loop stopped, as the receipts say it."""

    NATURAL_FINISH = auto()
    DONE_TOOL = auto()
    STEP_LIMIT = auto()
    TOKEN_BUDGET = auto()
    OUTPUT_LIMIT = auto()
    USER_ABORT = auto()
    APPROVAL_REQUESTED = auto()
    TOOL_ERROR = auto()
    PROVIDER_ERROR = auto()
    TIMEOUT = auto()

    @property
    def is_claim(self) -> bool:
        """Whether the loop says by this that it is done."""
        return self in (Cause.NATURAL_FINISH, Cause.DONE_TOOL)


@dataclass(frozen=True, slots=True)
class Step:
    """The tools that a step called, in order, and the tokens it took."""

    tools: tuple[str, ...] = ()
    tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Stop:
    """What is known of a loop's end; `approval` is the body's own object."""

    cause: Cause | None
    steps: Sequence[Step] = ()
    conditions: Sequence[Mapping[str, Any]] = ()
    done_tool: str | None = None
    tool_failed: bool = False
    useful_progress: bool = False
    approval: Mapping[str, Any] | None = None
    policy_version: str | None = None


type Cut = tuple[str, str]
"""A field that was shortened, and the rule that made it necessary."""


@dataclass(frozen=True, slots=True)
class StoppedBody:
    """The body, and what had to be left out of it."""

    body: Mapping[str, Any]
    cut: tuple[Cut, ...] = ()


def named(key: HmacKey, category: Declared, text: str) -> str:
    """Return a name as a receipt may carry it: one of another form, or that poses as covered, is covered."""
    poses = is_digest(text) or (category == Declared.OWNER and is_id(text, "per"))
    return text if _NAME.fullmatch(text) and not poses else cover_name(key, category, text)


def stopped_body(stop: Stop, key: HmacKey) -> StoppedBody:
    """Return the body of a `stopped` receipt that holds as much of a loop as fits."""

    def tool(name: str) -> str:
        return named(key, Declared.TOOL, name)

    steps = [Step(tuple(map(tool, each.tools)), each.tokens) for each in stop.steps]
    body: dict[str, Any] = {
        "policy": {"version": stop.policy_version, "conditions": _conditions(key, stop.conditions)},
        "stop_cause": None if stop.cause is None else str(stop.cause),
        "steps": [],
        "tool_failed": stop.tool_failed,
        "useful_progress": stop.useful_progress,
        "approval": None if stop.approval is None else dict(stop.approval),
        "loop": "claimed" if stop.cause is not None and stop.cause.is_claim else "ended",
    }
    if stop.done_tool is not None:
        body["done_tool"] = tool(stop.done_tool)
    fitted, cut = _fitted(steps, MAX_BODY_BYTES - _size(body), body.get("done_tool"), stop.cause)
    body["steps"] = [{"tools": list(each.tools), "tokens": each.tokens} for each in fitted]
    if len(fitted) < len(steps) and stop.cause in {Cause.STEP_LIMIT, Cause.TOKEN_BUDGET}:
        body["stop_cause"] = None
    return StoppedBody(body, cut)


def _conditions(key: HmacKey, conditions: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [
        {**each, "tool": named(key, Declared.TOOL, each["tool"])} if "tool" in each else dict(each)
        for each in conditions
    ]


def _fitted(
    steps: list[Step], room: int, done_tool: str | None, cause: Cause | None
) -> tuple[list[Step], tuple[Cut, ...]]:
    """Return the steps that fit into `room` bytes, and what was cut."""
    light = [replace(each, tools=()) for each in steps]
    cut: list[Cut] = []
    if _cost(light) > room and cause != Cause.TOKEN_BUDGET:
        light = [Step() for _ in steps]
        cut.append(("steps.tokens", "max_bytes"))
    if len(light) > (most := _how_many(light, room)):
        light = light[len(light) - most :]
        cut.append(("steps", "max_items"))
    whole = steps[len(steps) - len(light) :]
    fitted = _with_tools(light, whole, room - _cost(light), done_tool)
    if any(each.tools != full.tools for each, full in zip(fitted, whole, strict=True)):
        cut.append(("steps.tools", "max_bytes"))
    return fitted, tuple(cut)


def _how_many(light: list[Step], room: int) -> int:
    """Return how many of the newest steps fit."""
    for number, step in enumerate(reversed(light)):
        room -= _cost([step])
        if room < 0 or number == MOST_STEPS:
            return number
    return len(light)


def _with_tools(light: list[Step], whole: list[Step], spare: int, done_tool: str | None) -> list[Step]:
    """Give the newest steps their tools back, as long as there are bytes to spare."""
    fitted = list(light)
    for place in range(len(light) - 1, -1, -1):
        own = replace(light[place], tools=whole[place].tools)
        extra = _cost([own]) - _cost([light[place]])
        if len(own.tools) > MOST_TOOLS or extra > spare:
            if place == len(light) - 1:
                fitted[place] = replace(own, tools=_some(own.tools, spare, done_tool))
            break
        fitted[place] = own
        spare -= extra
    return fitted


def _some(tools: Sequence[str], spare: int, done_tool: str | None) -> tuple[str, ...]:
    """Return each tool once, the one that ended the loop first, as many as there is room for."""
    distinct = sorted(dict.fromkeys(tools), key=lambda each: each != done_tool)
    return tuple(distinct[: min(MOST_TOOLS, spare // (len(_WIDEST) + 3))])


def _cost(steps: Sequence[Step]) -> int:
    """Return the bytes that steps take at most, each with the comma after it."""
    widened = [{"tools": [_WIDEST for _ in each.tools], "tokens": each.tokens} for each in steps]
    return sum(len(canonical_bytes(each)) + 1 for each in widened)


def _size(body: Mapping[str, Any]) -> int:
    """Return the bytes that a body without steps takes at most, whatever its names are covered with."""
    policy = body["policy"]
    conditions = [{**each, "tool": _WIDEST} if "tool" in each else each for each in policy["conditions"]]
    widened = {**body, "policy": {**policy, "conditions": conditions}}
    if "done_tool" in body:
        widened["done_tool"] = _WIDEST
    if body["approval"] is not None:
        widened["approval"] = {**body["approval"], "owner": _WIDEST}
    return len(canonical_bytes(widened))
