"""The run hooks: each turn's beginning and answer, and then the program's own hooks."""

from collections.abc import Callable
from typing import Any

from agents import RunHooks
from agents.tracing import get_current_span

from debugger.recorder.openai_agents.checks import TracingOff
from debugger.recorder.openai_agents.watching import Watch


class RecordingHooks(RunHooks[Any]):
    """Tells a watch what happens; `turn_began` is called before each call of a model."""

    def __init__(self, watch: Watch, turn_began: Callable[[], None], own: RunHooks[Any] | None) -> None:
        self._watch = watch
        self._turn_began = turn_began
        self._own: RunHooks[Any] = RunHooks() if own is None else own

    async def on_llm_start(self, context: Any, agent: Any, system_prompt: Any, input_items: Any) -> None:
        """Raise TracingOff before a model is called whose run nobody hears of, and what went unrecorded."""
        if self._watch.problem is not None:
            raise self._watch.problem
        if not self._watch.heard:
            raise TracingOff("not_heard")
        self._turn_began()
        await self._own.on_llm_start(context, agent, system_prompt, input_items)

    async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
        """Count the turn."""
        self._watch.answered(response)
        await self._own.on_llm_end(context, agent, response)

    async def on_agent_start(self, context: Any, agent: Any) -> None:
        """Nothing of ours: the agent's span says it."""
        await self._own.on_agent_start(context, agent)

    async def on_agent_end(self, context: Any, agent: Any, output: Any) -> None:
        """Nothing of ours."""
        await self._own.on_agent_end(context, agent, output)

    # The SDK passes these by name: the first parameter must be called `context`.
    async def on_handoff(self, context: Any, from_agent: Any, to_agent: Any) -> None:
        """Nothing of ours: the hand-over's span says more."""
        await self._own.on_handoff(context, from_agent, to_agent)

    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
        """Nothing of ours: the tool's wrapper says more."""
        await self._own.on_tool_start(context, agent, tool)

    async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: object) -> None:
        """Note that the call came back."""
        span = get_current_span()
        if span is not None:
            self._watch.returned(span.span_id)
        await self._own.on_tool_end(context, agent, tool, result)
