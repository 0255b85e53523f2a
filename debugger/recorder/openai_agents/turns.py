"""One turn at a time: the SDK stops after each, so that its state can be saved and the gate be asked."""

import asyncio
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from agents import Agent, RunContextWrapper, Runner, RunState

from branches.evidence.run_states import Kind
from debugger.recorder.openai_agents.hooks import RecordingHooks
from debugger.recorder.openai_agents.tools import here
from debugger.recorder.openai_agents.watching import Watch
from debugger.recorder.operations import Place


def state_before(agent: Agent[Any], given: Any, context: Any, max_turns: int | None) -> RunState[Any]:
    """Return the state of a run before its first turn."""
    return RunState(RunContextWrapper(context=context), given, agent, max_turns)


def kind_of(result: Any, state: Any) -> Kind:
    """Return where a run stands after a turn; an output that an error handler made ends it too."""
    if result.interruptions:
        return Kind.WAITS
    goes_on = state.to_json(context_serializer=lambda _: {})["current_step"] is not None
    return Kind.TURN if goes_on and result.final_output is None else Kind.ENDED


def decided(state: RunState[Any], decide: Callable[[Any], bool | None]) -> bool:
    """Write a person's answers into a state; returns whether there was any. None counts for later calls."""
    answers = [(item, decide(item)) for item in state.get_interruptions()]
    for item, answer in answers:
        if answer is True:
            state.approve(item)
        elif answer is False:
            state.reject(item)
    return any(answer is not None for _, answer in answers)


def place(checkpoint: str | None, thread: str, execution: tuple[Any, ...]) -> Place | None:
    """Return where the tools of a turn are called from."""
    return None if checkpoint is None else Place(checkpoint, thread, execution, "")


async def take(
    agent: Agent[Any],
    given: Any,
    *,
    watch: Watch,
    place: Place | None,
    hooks: Any,
    error_handlers: Mapping[str, Any] | None,
    **options: Any,
) -> Any:
    """Take one turn from an input or a RunState; returns the SDK's result. Raises what the SDK raises."""
    results: list[Any] = []

    def stop_after() -> None:
        results[0].cancel(mode="after_turn")

    recording: Any = RecordingHooks(watch, stop_after, hooks)
    token = here.set(place)
    try:
        result = Runner.run_streamed(
            agent, given, hooks=recording, error_handlers=_noted(error_handlers, watch), **options
        )
        results.append(result)
        if isinstance(given, RunState) and given.get_interruptions():
            stop_after()  # what was approved is done, and no model is asked yet
        try:
            async for _ in result.stream_events():
                pass
        except BaseException:
            await _settle(result)
            raise
    finally:
        here.reset(token)
    return result


async def _settle(result: Any) -> None:
    """End what still runs of a turn: its tools must have said what came back before the run is closed."""
    result.cancel()
    task = result.run_loop_task
    if task is not None:
        await asyncio.gather(task, return_exceptions=True)


def _noted(handlers: Mapping[str, Any] | None, watch: Watch) -> Any:
    """Return the program's error handlers, each telling when its output stands for an error."""

    def noted(kind: str, handler: Callable[[Any], Any]) -> Callable[[Any], Any]:
        async def answering(given: Any) -> Any:
            answer = handler(given)
            answer = await answer if inspect.isawaitable(answer) else answer
            if answer is not None:
                watch.masked.add(kind)
            return answer

        return answering

    return None if handlers is None else {kind: noted(kind, each) for kind, each in handlers.items()}
