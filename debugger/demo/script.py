"""A chat model that follows a script: it decides by reading the messages, always in the same way."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable

MARKER: Final = "CONTENT-MARKER-7f3a"
MODEL: Final = "scripted-1"
WRONG_SECTION: Final = "front-page"
RIGHT_SECTION: Final = "reports"
TITLE: Final = "Third quarter at a glance"
BYLINE: Final = f"The research desk {MARKER}"

PROMPTS: Final[Mapping[str, str]] = {
    "orchestrator": f"You are the orchestrator. Brief the team, then report to the editor. {MARKER}",
    "researcher": f"You are the researcher. Find the figures in the notes. {MARKER}",
    "verifier": f"You are the verifier. Have the figures checked: open a ticket. {MARKER}",
    "publisher": f"You are the publisher. Announce by mail, draft, publish. {MARKER}",
}

type Call = tuple[str, dict[str, str]]


class ScriptedModel(BaseChatModel):
    """Plays all four agents; which one speaks is said by the system message."""

    @property
    def _llm_type(self) -> str:
        return MODEL

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, AIMessage]:
        """Take the tools' names along, as a provider's model would their schemas."""
        names = [getattr(tool, "name", getattr(tool, "__name__", "tool")) for tool in tools]
        return self.bind(tool_names=names, **kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        del stop, run_manager
        seen = Seen(messages)
        text, calls = _PLAYED[seen.agent](seen)
        offered = kwargs.get("tool_names", ())
        answer = AIMessage(
            f"{text} {MARKER}",
            tool_calls=[
                {"name": name, "args": arguments, "id": f"call-{seen.agent}-{name}", "type": "tool_call"}
                for name, arguments in calls
                if name in offered
            ],
            usage_metadata=_usage(messages, text),
        )
        return ChatResult(generations=[ChatGeneration(message=answer)])


class Seen:
    """What the model reads out of the messages."""

    def __init__(self, messages: Sequence[BaseMessage]) -> None:
        self._messages = [each for each in messages if not isinstance(each, SystemMessage)]
        system = next((str(each.content) for each in messages if isinstance(each, SystemMessage)), "")
        signed = re.search(r"Sign as: (.+)", system)
        self.byline = signed.group(1) if signed else BYLINE
        """How the publisher signs: a value of the team's state that the system message repeats."""
        self.agent = next((name for name in PROMPTS if f"the {name}." in system), "orchestrator")

    @property
    def brief(self) -> str:
        """The orchestrator's first message: it says where to publish."""
        return next((str(each.content) for each in self._messages if each.name == "orchestrator"), "")

    @property
    def section(self) -> str:
        """The section the brief names; an edited brief is read like the first one."""
        if re.search(rf"\b{RIGHT_SECTION}\b", self.brief):
            return RIGHT_SECTION
        named = re.search(r"section \W?([a-z-]+)", self.brief)
        return named.group(1) if named else WRONG_SECTION

    def result(self, tool: str) -> dict[str, Any] | None:
        """What a tool answered, or None while it was not called."""
        found = [each for each in self._messages if isinstance(each, ToolMessage) and each.name == tool]
        return json.loads(str(found[-1].content)) if found else None

    def has_spoken(self, agent: str) -> bool:
        """Whether an agent said its last word."""
        return any(each.name == agent and not getattr(each, "tool_calls", None) for each in self._messages)


def _orchestrator(seen: Seen) -> tuple[str, list[Call]]:
    if seen.has_spoken("publisher"):
        return "Done: the quarter's figures are published.", []
    return (
        "Brief: research the third quarter's figures, have them verified, announce them by mail,"
        f' then publish the draft in the section "{WRONG_SECTION}".'
    ), []


def _researcher(seen: Seen) -> tuple[str, list[Call]]:
    if (found := seen.result("search_notes")) is None:
        return "I look into the notes.", [("search_notes", {"query": "third quarter"})]
    return f"The notes say: {found['text']}", []


def _verifier(seen: Seen) -> tuple[str, list[Call]]:
    if seen.result("create_ticket") is None:
        body = f"Please compare the figures with the ledger: {_figures(seen)} {MARKER}"
        return "I have them checked.", [("create_ticket", {"subject": f"Check: {TITLE}", "body": body})]
    return "A ticket is open and the figures agree with the notes.", []


def _publisher(seen: Seen) -> tuple[str, list[Call]]:
    if seen.result("send_mail") is None:
        mail = {
            "recipient": "readers@desk.example",
            "subject": TITLE,
            "body": f"The third quarter's figures come out today. {MARKER}",
        }
        return "I announce it.", [("send_mail", mail)]
    if (draft := seen.result("create_draft")) is None:
        content = {"title": TITLE, "section": seen.section, "body": f"{_figures(seen)}\n{seen.byline}"}
        return "I write the draft.", [("create_draft", content)]
    if seen.result("publish_draft") is None:
        return "I publish it.", [("publish_draft", {"draft": str(draft["draft"])})]
    # The script's mistake: whatever the desk said, it claims to be done.
    return "Published. Everything is done.", []


def _figures(seen: Seen) -> str:
    return str((seen.result("search_notes") or {}).get("text", ""))


_PLAYED: Final[Mapping[str, Callable[[Seen], tuple[str, list[Call]]]]] = {
    "orchestrator": _orchestrator,
    "researcher": _researcher,
    "verifier": _verifier,
    "publisher": _publisher,
}


def _usage(messages: Sequence[BaseMessage], text: str) -> Any:
    """Count words where a provider would count tokens."""
    read = sum(len(str(each.content).split()) for each in messages)
    said = len(text.split())
    return {"input_tokens": read, "output_tokens": said, "total_tokens": read + said}
