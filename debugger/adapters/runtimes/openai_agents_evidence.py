"""What a program that called the OpenAI Agents SDK wrote beside the spans: its hooks, and how the call ended.

Spans alone do not tell a loop that finished from a stream that was cancelled, nor a call that waits for a
person from one whose result was empty. `hooks` are the run hooks in order, one of them being
`["tool_start", AGENT, TOOL, CALL]`; `facts` say how the call of the runner ended (`exception`, `cancel_mode`,
`final`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from debugger.adapters.runtimes.source_json import Fields, Unfit, check_bounds
from debugger.adapters.runtimes.stop_bodies import Cause

KNOWN: Final = frozenset({"hooks", "facts", "exception", "mro", "cancel_mode", "final"})

_BY_EXCEPTION: Final[Mapping[str, Cause]] = {
    "MaxTurnsExceeded": Cause.STEP_LIMIT,
    "TimeoutError": Cause.TIMEOUT,
    "CancelledError": Cause.USER_ABORT,
    "KeyboardInterrupt": Cause.USER_ABORT,
    "ToolTimeoutError": Cause.TOOL_ERROR,
    "MCPToolCancellationError": Cause.TOOL_ERROR,
}


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was seen at the boundary of one call of the runner."""

    thrown: Cause | None = None
    cancelled: bool = False
    finished: bool = False
    """A last output was made: the hook for it fired, or the program holds one."""
    started: tuple[tuple[str, str, str], ...] = ()
    """(agent, tool, id of the call) of each call that reached its tool."""
    returned: tuple[tuple[str, str], ...] = ()


def read_evidence(file: Fields) -> Evidence | None:
    """Return what stands beside the spans of a file; None where nothing does. Raises Unfit."""
    if "hooks" not in file and "facts" not in file:
        return None
    for name in ("hooks", "facts"):
        check_bounds(file.value(name), name, KNOWN)
    hooks = list(_hooks(file))
    facts = file.maybe_fields("facts") or Fields({}, "facts")
    tools = [(*hook, "", "", "")[:4] for hook in hooks]
    has_output = facts.value("final") is not None
    return Evidence(
        thrown=_thrown(facts),
        cancelled=facts.maybe_text("cancel_mode") is not None,
        finished=has_output or (bool(hooks) and hooks[-1][0] == "agent_end"),
        started=tuple((agent, tool, call) for name, agent, tool, call in tools if name == "tool_start"),
        returned=tuple((agent, tool) for name, agent, tool, _ in tools if name == "tool_end"),
    )


def _hooks(file: Fields) -> Iterator[tuple[str, ...]]:
    for path, hook in file.items("hooks"):
        if not isinstance(hook, list) or not hook or not all(isinstance(each, str) for each in hook):
            raise Unfit(path, "list:text")
        yield tuple(hook)


def _thrown(facts: Fields) -> Cause | None:
    """Return the cause by the class of what the runner raised, or of one that it is a sort of."""
    name = facts.maybe_text("exception")
    if name is None:
        return None
    classes = (name, *facts.texts("mro"))
    return next((_BY_EXCEPTION[each] for each in classes if each in _BY_EXCEPTION), Cause.PROVIDER_ERROR)
