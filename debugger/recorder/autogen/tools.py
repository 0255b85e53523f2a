"""Puts a recorded call in the place of an AutoGen tool: the intent is on the disk before the call."""

import asyncio
import copy
import functools
from collections.abc import Callable, Mapping
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from typing import Any

from debugger.recorder.effects import Begun, Wrapped, sending
from debugger.recorder.gates import Do, Hold
from debugger.recorder.operations import identify
from debugger.recorder.record import RunRecord
from debugger.recorder.recorder import Recorder


@dataclass(frozen=True, slots=True)
class Here:
    """Where in a run the code stands: the newest checkpoint, and how a hold is told to the run."""

    checkpoint: str | None
    held: Callable[[Hold], None]


here: ContextVar[Here | None] = ContextVar("branchgate_autogen_here", default=None)


def wrap(recorder: Recorder, tool: Any, on_skip: Any = None) -> Any:
    """Return a tool (a function, a coroutine function or an AutoGen tool) that is recorded.

    The model sees the same tool. `on_skip`: what the agent gets when a branch must not do the call and no
    answer was recorded: a value, or a callable with the tool's arguments by name. Raises TypeError for a
    tool that streams: what it calls has effects, so wrap that.
    """
    from autogen_core.tools import BaseTool, FunctionTool, StreamTool

    inner = (
        tool if isinstance(tool, BaseTool) else FunctionTool(tool, description=(tool.__doc__ or "").strip())
    )
    if isinstance(inner, StreamTool):
        raise TypeError("tool: streams; wrap what it calls")
    wrapped = Wrapped(recorder, inner.name, lambda **arguments: arguments, on_skip)
    recorder.tools[inner.name] = wrapped
    recorded: Any = copy.copy(inner)
    kind = type(inner)
    recorded.__class__ = type(kind.__name__, (kind,), {"__module__": kind.__module__, "run_json": _run_json})
    recorded.branchgate = _Own(wrapped, inner)
    return recorded


def is_recorded(tool: Any, recorder: Recorder) -> bool:
    """Whether a tool was wrapped for this recorder, and is still what was wrapped."""
    own = getattr(tool, "branchgate", None)
    is_ours = type(tool).__dict__.get("run_json") is _run_json and "run_json" not in vars(tool)
    return isinstance(own, _Own) and is_ours and own.wrapped.recorder is recorder


def original_of(tool: Any) -> Any:
    """Return the tool that was wrapped, or the tool itself."""
    own = getattr(tool, "branchgate", None)
    return own.inner if isinstance(own, _Own) else tool


@dataclass(frozen=True, slots=True)
class _Own:
    wrapped: Wrapped
    inner: Any


async def _run_json(
    self: Any, args: Mapping[str, Any], cancellation_token: Any, call_id: str | None = None
) -> Any:
    own: _Own = self.branchgate
    # Arguments that do not fit never reach the tool: the library says so to the agent, and nothing was sent.
    arguments = own.inner.args_type().model_validate(args).model_dump(mode="json")
    begun = _begin(own.wrapped, own.wrapped.recorder.run_here(), arguments)
    try:
        ruling = begun.ruling()
        if ruling.do is not Do.SEND:
            return begun.answer_unsent(ruling, (), arguments)
    except Hold as hold:
        _tell(hold)
        raise
    with sending(begun, ruling.operation_key) as sent:
        sent.value = await _inner(own.inner).run_json(args, cancellation_token, call_id=call_id)
    return sent.value


def _begin(wrapped: Wrapped, run: RunRecord, arguments: dict[str, Any]) -> Begun:
    """Identify a call. A team has no checkpoint while it runs: equal calls are counted over the run."""
    try:
        run.refuse_when_halted()
    except Hold as hold:
        _tell(hold)
        raise
    rule = run.declaration.tool(wrapped.tool)
    call = identify(wrapped.tool, rule, arguments, key=run.key, root=run.root, path="")
    operation_key = call.operation_key(run.key, run.root, run.ordinal(call.base, None))
    place = here.get()
    return Begun(wrapped, run, call, operation_key, None if place is None else place.checkpoint)


def _tell(hold: Hold) -> None:
    """Tell the run: a hold that only passes through the library leaves the team pending for ever."""
    if (place := here.get()) is not None:
        place.held(hold)


def _inner(tool: Any) -> Any:
    """Return the tool so that a plain function, which runs in a thread, still knows its operation."""
    function = getattr(tool, "_func", None)
    if function is None or asyncio.iscoroutinefunction(function):
        return tool
    threaded = copy.copy(tool)
    threaded._func = functools.partial(copy_context().run, function)  # noqa: SLF001 - the library's own place for it
    return threaded
