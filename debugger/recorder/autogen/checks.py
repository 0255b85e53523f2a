"""Whether the installed AutoGen is one that was tested: its version, and what the recorder reads of it."""

import asyncio
from collections.abc import Coroutine
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

from branches.evidence.autogen_words import reason_of

RUNTIME: Final = "autogen"
PACKAGES: Final = ("autogen-agentchat", "autogen-core")
TESTED: Final = ("0.7.5",)
_TEAM: Final = ("_participants", "_termination_condition", "_max_turns", "_is_running", "_runtime")


class RuntimeUnknown(RuntimeError):
    """The installed AutoGen is not one that was tested, or does not behave as it did."""

    def __init__(self, subject: str, rule: str) -> None:
        super().__init__(f"{subject}: {rule} (tested with {', '.join(TESTED)})")
        self.subject = subject
        self.rule = rule


def runtime_version() -> dict[str, str]:
    """Return the runtime's name and version as receipts carry them."""
    try:
        return {"name": RUNTIME, "version": version(PACKAGES[0])}
    except PackageNotFoundError:
        return {"name": RUNTIME, "version": "0"}


def check_runtime() -> None:
    """Check the versions, then what the library says and holds. Raises RuntimeUnknown."""
    for package in PACKAGES:
        try:
            installed = version(package)
        except PackageNotFoundError:
            raise RuntimeUnknown(package, "not_installed") from None
        if installed not in TESTED:
            raise RuntimeUnknown(package, "version_unknown")
    _self_test()


@cache
def _self_test() -> None:
    """Let the library's own conditions write their words, and see that each is taken for what it is."""
    from autogen_agentchat import conditions as sdk
    from autogen_agentchat.messages import HandoffMessage, StopMessage, TextMessage, ToolCallExecutionEvent
    from autogen_agentchat.state import TeamState
    from autogen_core.models import FunctionExecutionResult, RequestUsage

    text = TextMessage(content="x", source="a", models_usage=RequestUsage(1, 1))
    done = FunctionExecutionResult(content="x", name="t", call_id="1", is_error=False)
    words: list[tuple[Any, Any, str]] = [
        (sdk.MaxMessageTermination(1), text, "step_limit"),
        (sdk.TokenUsageTermination(max_total_token=1), text, "token_budget"),
        (sdk.TimeoutTermination(0), text, "timeout"),
        (sdk.TextMentionTermination("x"), text, "natural_finish"),
        (sdk.TextMessageTermination(), text, "natural_finish"),
        (sdk.SourceMatchTermination(["a"]), text, "natural_finish"),
        (sdk.StopMessageTermination(), StopMessage(content="x", source="a"), "natural_finish"),
        (
            sdk.FunctionCallTermination("t"),
            ToolCallExecutionEvent(content=[done], source="a"),
            "done_tool",
        ),
        (
            sdk.HandoffTermination("user"),
            HandoffMessage(content="x", source="a", target="user"),
            "approval_requested",
        ),
    ]
    for condition, message, cause in words:
        said = _now(condition([message]))
        if said is None or reason_of(said.content).cause != cause:
            raise RuntimeUnknown(type(condition).__name__, "words_changed")
    if TeamState().model_dump().keys() != {"type", "version", "agent_states"}:
        raise RuntimeUnknown("TeamState", "form_changed")


def check_team(team: Any) -> None:
    """Check that a team is a group chat in the form that is read here. Raises RuntimeUnknown."""
    from autogen_agentchat.teams import BaseGroupChat

    if not isinstance(team, BaseGroupChat):
        raise RuntimeUnknown("team", "not_a_group_chat")
    if any(not hasattr(team, name) for name in _TEAM):
        raise RuntimeUnknown("team", "form_changed")


def _now(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Return what a coroutine gives that waits for nothing; the self-test may run inside a loop."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    except asyncio.CancelledError:  # pragma: no cover - nothing here is cancelled
        return None
    coroutine.close()
    raise RuntimeUnknown("conditions", "words_changed")
