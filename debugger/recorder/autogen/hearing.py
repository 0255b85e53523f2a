"""Reads a message of a running team into what is recorded of it."""

import json
from typing import Any

from branches.evidence.autogen_loop import Said, ToolCall, ToolResult


def said_of(message: Any) -> Said:
    """Return one message or event of the stream."""
    from autogen_agentchat.messages import BaseChatMessage

    usage = message.models_usage
    sort = str(getattr(message, "type", type(message).__name__))
    content = getattr(message, "content", None)
    items = content if isinstance(content, list) else []
    return Said(
        id=str(message.id),
        sort=sort,
        source=str(message.source),
        at=message.created_at.isoformat(),
        text=_text(message),
        is_chat=isinstance(message, BaseChatMessage),
        tokens=None if usage is None else usage.prompt_tokens + usage.completion_tokens,
        written=None if usage is None else usage.completion_tokens,
        target=str(message.target) if sort == "HandoffMessage" else None,
        calls=tuple(ToolCall(c.id, c.name, c.arguments) for c in items if hasattr(c, "arguments")),
        results=tuple(
            ToolResult(r.call_id, r.name, bool(r.is_error)) for r in items if hasattr(r, "call_id")
        ),
    )


def _text(message: Any) -> str:
    content = message.dump().get("content")
    if isinstance(content, str):
        return content
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True, default=str)
