"""Whether the installed OpenAI Agents SDK is one that was tested: its version, and what is read of it."""

import inspect
import re
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

RUNTIME: Final = "openai-agents"
TESTED: Final = "0.24.0"
SCHEMA: Final = "1.21"
"""The version of the saved states that this SDK writes and that is taken back here."""
# Before 1.0 each minor version may change the spans, the hooks and the saved states.
_RANGE: Final = re.compile(r"0\.24\.[0-9]{1,4}")
_HOOKS: Final = {
    "on_llm_start": ["context", "agent", "system_prompt", "input_items"],
    "on_llm_end": ["context", "agent", "response"],
    "on_agent_start": ["context", "agent"],
    "on_agent_end": ["context", "agent", "output"],
    "on_handoff": ["context", "from_agent", "to_agent"],
    "on_tool_start": ["context", "agent", "tool"],
    "on_tool_end": ["context", "agent", "tool", "result"],
}
_PROCESSOR: Final = {
    "on_trace_start", "on_trace_end", "on_span_start", "on_span_end", "shutdown", "force_flush",
}  # fmt: skip
_STATE: Final = {
    "$schemaVersion", "current_turn", "current_agent", "original_input", "model_responses", "context",
    "max_turns", "session_items", "current_step", "conversation_id", "previous_response_id", "trace",
}  # fmt: skip


class RuntimeUnknown(RuntimeError):
    """The installed OpenAI Agents SDK is not one that was tested, or does not behave as it did."""

    def __init__(self, subject: str, rule: str) -> None:
        super().__init__(f"{subject}: {rule} (tested with openai-agents {TESTED}, takes 0.24.*)")
        self.subject = subject
        self.rule = rule


class TracingOff(RuntimeError):
    """The SDK tells our processor nothing, so a run would go unrecorded: no model was called."""

    def __init__(self, rule: str) -> None:
        super().__init__(f"tracing: {rule}")
        self.rule = rule


def runtime_version() -> dict[str, str]:
    """Return the runtime's name and version as receipts carry them."""
    try:
        return {"name": RUNTIME, "version": version(RUNTIME)}
    except PackageNotFoundError:
        return {"name": RUNTIME, "version": "0"}


def check_runtime() -> None:
    """Check the version, then what the SDK offers. Raises RuntimeUnknown."""
    try:
        installed = version(RUNTIME)
    except PackageNotFoundError:
        raise RuntimeUnknown(RUNTIME, "not_installed") from None
    if _RANGE.fullmatch(installed) is None:
        raise RuntimeUnknown(RUNTIME, "version_unknown")
    _self_test()


@cache
def _self_test() -> None:
    """Look at everything that is called or read here; a name that is gone is a changed form."""
    try:
        _test_tracing()
        _test_hooks()
        _test_states()
        _test_agents()
    except (ImportError, AttributeError, TypeError, KeyError):
        raise RuntimeUnknown(RUNTIME, "form_changed") from None


def _test_tracing() -> None:
    from agents.tracing import TracingProcessor, get_trace_provider

    _expect(TracingProcessor.__abstractmethods__ == _PROCESSOR, "TracingProcessor")
    _expect(isinstance(processors(get_trace_provider()), tuple), "TraceProvider")


def processors(provider: Any) -> tuple[Any, ...]:
    """Return the processors that a provider tells; the SDK offers no other way, see the self-test."""
    return tuple(provider._multi_processor._processors)  # noqa: SLF001


def _test_hooks() -> None:
    from agents import RunHooks

    for name, parameters in _HOOKS.items():
        found = list(inspect.signature(getattr(RunHooks, name)).parameters)
        _expect(found == ["self", *parameters], f"RunHooks.{name}")


def _test_states() -> None:
    from agents import Agent, RunConfig, RunContextWrapper, Runner, RunState
    from agents.result import RunResultStreaming
    from agents.run_state import CURRENT_SCHEMA_VERSION

    _expect(CURRENT_SCHEMA_VERSION == SCHEMA, "RunState")
    state = RunState(RunContextWrapper(context=None), "x", Agent(name="x"), 10).to_json()
    _expect(state.keys() >= _STATE and state["$schemaVersion"] == SCHEMA, "RunState")
    _expect("context_override" in inspect.signature(RunState.from_json).parameters, "RunState.from_json")
    _expect("mode" in inspect.signature(RunResultStreaming.cancel).parameters, "RunResultStreaming.cancel")
    _expect(callable(RunResultStreaming.to_state) and callable(Runner.run_streamed), "Runner")
    _expect("trace_id" in inspect.signature(RunConfig).parameters, "RunConfig")


def _test_agents() -> None:
    """See that a tool that is an agent, and a hand-over, still say which agent they lead to."""
    from agents import Agent, handoff

    agent: Agent[Any] = Agent(name="x")
    tool: Any = agent.as_tool("x", "x")
    _expect(tool._is_agent_tool is True and tool._agent_instance is agent, "Agent.as_tool")  # noqa: SLF001
    reference: Any = handoff(agent)._agent_ref  # noqa: SLF001
    _expect(reference is not None and reference() is agent, "handoff")
    _test_code(agent, tool)


def _test_code(agent: Any, tool: Any) -> None:
    """See that the program's code is still found behind a tool, a hand-over and an agent used as a tool."""
    from agents import function_tool, handoff

    from debugger.recorder.openai_agents.graph import callback_of
    from debugger.recorder.openai_agents.looks import is_readable
    from debugger.recorder.openai_agents.tools import body_of

    def code(context: Any) -> None:
        """Nothing."""

    _expect(body_of(function_tool(_test_agents)) is _test_agents, "function_tool")
    _expect(callback_of(handoff(agent, on_handoff=code)) is code, "handoff")
    _expect(callback_of(handoff(agent)) is None, "handoff")
    _expect(is_readable(tool), "Agent.as_tool")


def _expect(holds: bool, subject: str) -> None:
    if not holds:
        raise RuntimeUnknown(subject, "form_changed")
