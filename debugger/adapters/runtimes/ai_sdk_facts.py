"""What is taken from the evidence of one loop of the Vercel AI SDK."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Condition:
    """A stop condition: its parts as receipts say them, if they can, and whether it fired at the end."""

    bodies: tuple[Mapping[str, Any], ...]
    fired: bool
    was_asked: bool
    """Whether its evaluations were recorded at all."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a tool; `error` is the class of what it threw, None where it threw nothing."""

    tool: str
    ref: str
    is_valid: bool
    returned: bool
    error: str | None
    pending: bool
    """It waits for a person."""
    denied: bool


@dataclass(frozen=True, slots=True)
class LoopStep:
    calls: tuple[Call, ...]
    tokens: int | None
    finish: str | None
    at: str | None


@dataclass(frozen=True, slots=True)
class OutsideCall:
    """A call that no step shows: one that was approved before the loop, or whose step was never finished."""

    call: Call
    after_step: int


@dataclass(frozen=True, slots=True)
class End:
    """How the call of the SDK ended: its kind, the last finish reason, and the class of what was thrown."""

    kind: str
    finish: str | None
    steps: int | None
    thrown: str | None
    is_of_sdk: bool
    aborted: bool


@dataclass(frozen=True, slots=True)
class Route:
    """Who decides and until when, and with which token the loop goes on; each may be unknown."""

    owner: str | None
    deadline: str | None
    resume_token: str | None


@dataclass(frozen=True, slots=True)
class Loop:
    """Everything that is taken from one file."""

    version: str
    agent: str | None
    executes: Mapping[str, bool]
    """Tool → whether the SDK itself runs it."""
    conditions: tuple[Condition, ...]
    default_steps: int | None
    steps: tuple[LoopStep, ...]
    outside: tuple[OutsideCall, ...]
    end: End
    route: Route | None
    done_tool: str
    policy_version: str | None
    started_at: str | None
    ended_at: str | None
    workflow: str | None = None
    """The workflow that the program says its loops are of."""
