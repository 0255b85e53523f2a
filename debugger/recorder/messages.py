"""Describes messages without their words: HMACs of id and content, class, size, tokens, reply."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from branches.evidence.domains import CONTENT, MESSAGE
from branches.evidence.keys import HmacKey

_HANDOFF_TOOLS: Final = ("transfer_to_", "handoff_to_", "transfer_back_to_")
_CLASSES: Final[Mapping[str, str]] = {
    "human": "input",
    "user": "input",
    "system": "system",
    "developer": "system",
    "tool": "tool_result",
    "function": "tool_result",
}


def is_message(value: Any) -> bool:
    """Whether a value is one of LangChain's messages."""
    return hasattr(value, "content") and hasattr(value, "type") and hasattr(value, "id")


def text_of(message: Any) -> str:
    """Return a message's content as text; blocks as their JSON."""
    content = message.content
    if isinstance(content, str):
        return content
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str)


def message_ref(key: HmacKey, message: Any) -> str:
    """Return the HMAC of a message's id."""
    return key.digest(MESSAGE, str(message.id))


def content_ref(key: HmacKey, text: str) -> str:
    """Return the HMAC of a text."""
    return key.digest(CONTENT, text)


def found_in(values: Any) -> Iterator[tuple[str, list[Any]]]:
    """Yield (channel, its messages in order) of a state."""
    members = values.items() if isinstance(values, Mapping) else [("__root__", values)]
    for channel, value in members:
        listed = value if isinstance(value, (list, tuple)) else [value]
        messages = [each for each in listed if is_message(each) and each.id is not None]
        if messages:
            yield str(channel), messages


def class_of(message: Any) -> str:
    """Return the class of a message by its type and by the tools it calls."""
    known = _CLASSES.get(message.type)
    if known is not None:
        return known
    calls = getattr(message, "tool_calls", None) or ()
    if any(str(call.get("name", "")).startswith(_HANDOFF_TOOLS) for call in calls):
        return "handoff"
    return "tool_call" if calls else "answer"


def tokens_of(message: Any, which: str) -> int | None:
    """Return how many tokens the provider counted (`output_tokens`, `total_tokens`), or None."""
    usage = getattr(message, "usage_metadata", None)
    count = usage.get(which) if isinstance(usage, Mapping) else None
    return count if isinstance(count, int) and count >= 0 else None


@dataclass(slots=True)
class MessageLog:
    """Which messages of a thread were seen, so that each is reported once, and again when it changed."""

    key: HmacKey
    agents: frozenset[str]
    seen: dict[str, str] = field(default_factory=dict)
    senders: dict[str, str | None] = field(default_factory=dict)

    def learn(self, values: Any) -> None:
        """Take the messages of a state as seen already: they are another run's."""
        for _, messages in found_in(values):
            for message in messages:
                self.seen[str(message.id)] = content_ref(self.key, text_of(message))
                self.senders[str(message.id)] = self._sender(message, None)

    def news(
        self, values: Any, wrote: Mapping[str, str], checkpoint: str, following: list[str]
    ) -> Iterator[tuple[dict[str, Any], Any]]:
        """Yield (body, message) of each new or changed message.

        `wrote`: message id -> node whose result held it; `following`: the nodes that run next.
        """
        for _, messages in found_in(values):
            for position, message in enumerate(messages):
                text = text_of(message)
                content = content_ref(self.key, text)
                if self.seen.get(str(message.id)) == content:
                    continue
                self.seen[str(message.id)] = content
                sender = self._sender(message, wrote.get(str(message.id)))
                self.senders[str(message.id)] = sender
                replied = self._replied(messages, position)
                body = {
                    "message": message_ref(self.key, message),
                    "checkpoint": checkpoint,
                    "sender": sender,
                    "recipient": self._recipient(message, replied, following),
                    "class": class_of(message),
                    "content": content,
                    "bytes": len(text.encode()),
                    "tokens": tokens_of(message, "output_tokens"),
                    "replies_to": None if replied is None else message_ref(self.key, replied),
                }
                yield body, message

    def _sender(self, message: Any, node: str | None) -> str | None:
        name = getattr(message, "name", None)
        if class_of(message) == "tool_result":
            return None
        return next((each for each in (name, node) if each in self.agents), None)

    def _replied(self, messages: list[Any], position: int) -> Any:
        message = messages[position]
        if (call := getattr(message, "tool_call_id", None)) is not None:
            for earlier in reversed(messages[:position]):
                if any(each.get("id") == call for each in getattr(earlier, "tool_calls", None) or ()):
                    return earlier
        if class_of(message) in {"input", "system"} or position == 0:
            return None
        return messages[position - 1]

    def _recipient(self, message: Any, replied: Any, following: list[str]) -> str | None:
        if class_of(message) == "tool_result" and replied is not None:
            return self.senders.get(str(replied.id))
        agents = [name for name in following if name in self.agents]
        return agents[0] if len(agents) == 1 else None
