"""Puts a recorded call in a tool's place: a function, a coroutine function or a LangChain tool."""

import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from debugger.recorder.effects import Wrapped, sending
from debugger.recorder.gates import Do
from debugger.recorder.operations import own_arguments

if TYPE_CHECKING:
    from debugger.recorder import Recorder


def wrap(recorder: "Recorder", tool: Any, on_skip: Any) -> Any:
    """Return the tool with the same signature, recorded."""
    if not inspect.isroutine(tool) and hasattr(tool, "args_schema") and hasattr(tool, "invoke"):
        return _wrap_base_tool(recorder, tool, on_skip)
    name = getattr(tool, "__name__", type(tool).__name__)
    return wrap_callable(_register(recorder, name, tool, on_skip), tool)


def _register(recorder: "Recorder", name: str, call: Callable[..., Any], on_skip: Any) -> Wrapped:
    wrapped = Wrapped(recorder, name, own_arguments(call), on_skip)
    recorder.tools[name] = wrapped
    return wrapped


def _wrap_base_tool(recorder: "Recorder", tool: Any, on_skip: Any) -> Any:
    """Return a copy of a LangChain tool whose function is recorded; the model sees the same tool."""
    call = getattr(tool, "func", None) or getattr(tool, "coroutine", None)
    if call is None:
        return _wrap_subclass(recorder, tool, on_skip)
    wrapped = _register(recorder, tool.name, call, on_skip)
    changed = {
        name: wrap_callable(wrapped, function)
        for name in ("func", "coroutine")
        if (function := getattr(tool, name, None)) is not None
    }
    return tool.model_copy(update=changed)


def _wrap_subclass(recorder: "Recorder", tool: Any, on_skip: Any) -> Any:
    """Return a copy of a hand-written BaseTool whose own `_run` and `_arun` are recorded."""
    kind = type(tool)
    members: dict[str, Any] = {"__module__": kind.__module__}
    wrapped = _register(recorder, tool.name, functools.partial(kind._run, tool), on_skip)  # noqa: SLF001
    for name in ("_run", "_arun"):
        if name in vars(kind):
            members[name] = _wrap_method(wrapped, vars(kind)[name])
    copy = tool.model_copy()
    copy.__class__ = type(kind.__name__, (kind,), members)
    return copy


def _wrap_method(wrapped: Wrapped, method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def recorded(self: Any, *args: Any, **kwargs: Any) -> Any:
        return wrap_callable(wrapped, _bound(method, self))(*args, **kwargs)

    return recorded


def _bound(method: Callable[..., Any], owner: Any) -> Callable[..., Any]:
    bound: Callable[..., Any] = method.__get__(owner)
    return bound


def wrap_callable(wrapped: Wrapped, call: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function or coroutine function in whose place a recorded call stands."""
    if inspect.iscoroutinefunction(call):

        @functools.wraps(call)
        async def recorded_later(*args: Any, **kwargs: Any) -> Any:
            return await call_recorded_later(wrapped, call, args, kwargs)

        return recorded_later

    @functools.wraps(call)
    def recorded(*args: Any, **kwargs: Any) -> Any:
        return call_recorded(wrapped, call, args, kwargs)

    return recorded


def call_recorded(
    wrapped: Wrapped, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Call a tool, recorded. Raises Hold, OutsideRun, and whatever the tool raises."""
    begun = wrapped.begin(wrapped.recorder.run_here(), args, kwargs)
    with wrapped.lock(begun.operation_key):
        ruling = begun.ruling()
        if ruling.do is not Do.SEND:
            return begun.answer_unsent(ruling, args, kwargs)
        with sending(begun, ruling.operation_key) as sent:
            sent.value = call(*args, **kwargs)
        return sent.value


async def call_recorded_later(
    wrapped: Wrapped, call: Callable[..., Awaitable[Any]], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Do the same for a coroutine function; equal calls at once are not made to wait for each other."""
    begun = wrapped.begin(wrapped.recorder.run_here(), args, kwargs)
    ruling = begun.ruling()
    if ruling.do is not Do.SEND:
        return begun.answer_unsent(ruling, args, kwargs)
    with sending(begun, ruling.operation_key) as sent:
        sent.value = await call(*args, **kwargs)
    return sent.value
