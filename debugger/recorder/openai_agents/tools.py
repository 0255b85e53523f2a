"""Puts a recorded call in the place of a tool: the intent is on the disk before the call."""

import copy
import json
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from debugger.recorder import wrapping
from debugger.recorder.effects import Wrapped, sending
from debugger.recorder.gates import Do
from debugger.recorder.operations import Place, own_arguments
from debugger.recorder.recorder import Recorder

here: ContextVar[Place | None] = ContextVar("branchgate_openai_agents_here", default=None)
"""Where in a run the code stands; the SDK copies the context into its tasks and threads."""

_OWN = "branchgate"


class ToolFailed(Exception):
    """The SDK turned a tool's failure into an answer for the model; the span says so."""


@dataclass(slots=True)
class AgentTool(Wrapped):
    """A wrapped tool that stands in a run of the OpenAI Agents SDK."""

    def place(self) -> Place | None:
        """Return the newest checkpoint and the turn."""
        return here.get()


@dataclass(frozen=True, slots=True)
class _Own:
    recorder: Recorder
    body: Any
    """The program's code behind the tool."""
    invoker: Any
    """What the SDK calls: another one in its place is not recorded."""


def wrap(recorder: Recorder, tool: Any, on_skip: Any = None, **options: Any) -> Any:
    """Return a FunctionTool that is recorded, from a function or from a FunctionTool.

    `options`: those of `agents.function_tool`, for a function. `on_skip`: what the agent gets when a branch
    must not do the call and no answer was recorded: a value, or a callable with the tool's own arguments.
    A FunctionTool's arguments are those that the model wrote; of a function they are the function's own, with
    its defaults. Raises TypeError for a tool that runs at the provider or is an agent.
    """
    from agents import FunctionTool

    if isinstance(tool, FunctionTool):
        made = _wrap_tool(recorder, tool, on_skip)
    elif callable(tool):
        made = _wrap_function(recorder, tool, on_skip, options)
    else:
        raise TypeError("tool: not_a_function")
    return made


def is_recorded(tool: Any, recorder: Recorder) -> bool:
    """Whether a tool was wrapped for this recorder, and is still what was wrapped."""
    own = _own(tool)
    return own is not None and own.recorder is recorder


def body_of(tool: Any) -> Any:
    """Return the program's code behind a FunctionTool: a function, or whatever stands in its place."""
    own = _own(tool)
    return _body(tool) if own is None else own.body


def _own(tool: Any) -> _Own | None:
    own = getattr(tool, _OWN, None)
    return own if isinstance(own, _Own) and own.invoker is _invoker(tool) else None


def _body(tool: Any) -> Any:
    return getattr(tool, "__wrapped__", tool.on_invoke_tool)


def _invoker(tool: Any) -> Any:
    """Return what a tool calls; the SDK puts what `function_tool` made into a fresh cover for each copy."""
    return getattr(tool.on_invoke_tool, "_invoke_tool_impl", tool.on_invoke_tool)


def _wrap_function(
    recorder: Recorder, function: Callable[..., Any], on_skip: Any, options: dict[str, Any]
) -> Any:
    from agents import function_tool

    name = str(options.get("name_override") or getattr(function, "__name__", type(function).__name__))
    wrapped = AgentTool(recorder, name, own_arguments(function), on_skip)
    recorder.tools[name] = wrapped
    tool: Any = function_tool(wrapping.wrap_callable(wrapped, function), **options)
    setattr(tool, _OWN, _Own(recorder, function, _invoker(tool)))
    return tool


def _wrap_tool(recorder: Recorder, tool: Any, on_skip: Any) -> Any:
    if getattr(tool, "_is_agent_tool", False):
        raise TypeError("tool: is_an_agent; wrap that agent's own tools")
    wrapped = AgentTool(recorder, tool.name, lambda **arguments: arguments, on_skip)
    recorder.tools[tool.name] = wrapped
    invoke = tool.on_invoke_tool

    async def recorded(context: Any, arguments: str) -> Any:
        return await _invoke(wrapped, lambda: invoke(context, arguments), arguments)

    made = copy.copy(tool)
    made.on_invoke_tool = recorded
    setattr(made, _OWN, _Own(recorder, _body(tool), _invoker(made)))
    return made


async def _invoke(wrapped: AgentTool, call: Callable[[], Any], arguments: str) -> Any:
    """Call a tool that the SDK made: its failures come back as answers, only the span tells them apart."""
    named = _named(arguments)
    begun = wrapped.begin(wrapped.recorder.run_here(), (), named)
    ruling = begun.ruling()
    if ruling.do is not Do.SEND:
        return begun.answer_unsent(ruling, (), named)
    try:
        with sending(begun, ruling.operation_key) as sent:
            sent.value = await call()
            if _has_failed():
                raise ToolFailed
    except ToolFailed:
        return sent.value
    return sent.value


def _named(arguments: str) -> dict[str, Any]:
    try:
        found = json.loads(arguments or "{}")
    except ValueError:
        found = arguments
    return found if isinstance(found, dict) else {"arguments": found}


def _has_failed() -> bool:
    from agents.tracing import get_current_span

    span = get_current_span()
    return span is not None and span.error is not None
