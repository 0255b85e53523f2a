"""Records runs of the OpenAI Agents SDK and resumes branches of them; the SDK is imported only when used."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from debugger.recorder.openai_agents.checks import RuntimeUnknown, TracingOff, check_runtime
from debugger.recorder.openai_agents.opening import attach, open_recorder, record
from debugger.recorder.openai_agents.routes import Approval
from debugger.recorder.openai_agents.tools import wrap

if TYPE_CHECKING:
    from debugger.recorder.recorder import Recorder
    from debugger.recorder.serving import Serving

__all__ = [
    "Approval",
    "RuntimeUnknown",
    "TracingOff",
    "attach",
    "check_runtime",
    "open_recorder",
    "record",
    "resume",
    "serving",
    "wrap",
]


def resume(recorder: "Recorder", agent: Any, envelope: Mapping[str, Any], **means: Any) -> str:
    """Take one permit as far as it may go; see `branching.resume`. Raises RuntimeUnknown."""
    check_runtime()
    from debugger.recorder.openai_agents import branching

    return branching.resume(recorder, agent, envelope, **means)


def serving(recorder: "Recorder", build: "Callable[[Recorder], Any]", **means: Any) -> "Serving":
    """Return what waits for permits and resumes branches; see `serves.serving`. Raises RuntimeUnknown."""
    check_runtime()
    from debugger.recorder.openai_agents import serves

    return serves.serving(recorder, build, **means)
