"""The runtimes whose recorders can be tried, by name; a runtime is imported only when it is."""

from collections.abc import Callable
from importlib import import_module
from typing import Final

from debugger.recorder.conformance.subject import Subject

SUBJECTS: Final = {
    "langgraph": "debugger.recorder.conformance.langgraph:LangGraphSubject",
    "openai-agents": "debugger.recorder.conformance.openai_agents:OpenAIAgentsSubject",
}


def subject_of(runtime: str) -> Callable[[], Subject]:
    """Return what makes the team of a runtime. Raises KeyError for one that has none."""
    module, _, name = SUBJECTS[runtime].partition(":")
    found: Callable[[], Subject] = getattr(import_module(module), name)
    return found
