"""State values that people read and replace: plain JSON, in channels that take a whole value."""

import json
from collections.abc import Mapping
from typing import Any

from branches.evidence.domains import CHANNEL
from branches.evidence.keys import HmacKey
from branches.evidence.plain_json import is_plain
from debugger.recorder.messages import found_in


def channel_ref(key: HmacKey, channel: str) -> str:
    """Return the HMAC of a channel's name: what an edit of its value is addressed to."""
    return key.digest(CHANNEL, channel)


def channel_of(values: Any, target: str, key: HmacKey) -> str | None:
    """Return the channel of a state that has this HMAC, or None."""
    if not isinstance(values, Mapping):
        return None
    return next((str(name) for name in values if channel_ref(key, str(name)) == target), None)


def listed(graph: Any, values: Any, key: HmacKey) -> list[dict[str, Any]]:
    """Return every value by name: `{"channel", "target", "problem"}`, the problem a closed word or None."""
    if not isinstance(values, Mapping):
        return []
    return [
        {
            "channel": str(channel),
            "target": channel_ref(key, str(channel)),
            "problem": why_not(graph, values, str(channel)),
        }
        for channel in values
    ]


def why_not(graph: Any, values: Mapping[str, Any], channel: str) -> str | None:
    """Return why a value cannot be replaced, as a closed word, or None where it can."""
    if any(name == channel for name, _ in found_in(values)):
        return "value_is_messages"
    if not _takes_a_whole_value(graph, channel):
        return "channel_appends"
    return None if is_plain(values[channel]) else "value_not_json"


def text_of(value: Any) -> str:
    """Return a plain value as the JSON that a person reads and edits."""
    return json.dumps(value, ensure_ascii=False, indent=1)


def are_equal(one: Any, other: Any) -> bool:
    """Whether two plain values are the same; `1`, `1.0` and `true` are three values."""
    return is_plain(one) and is_plain(other) and _canonical(one) == _canonical(other)


def are_of_one_kind(old: Any, new: Any) -> bool:
    """Whether a value may stand where another stood: text for text, a number for a number, and so on."""
    return old is None or new is None or _kind(old) is _kind(new)


def write_of(graph: Any, channel: str, value: Any) -> Any:
    """Return what has to be written so that a channel holds exactly this value."""
    from langgraph.types import Overwrite

    return Overwrite(value) if getattr(graph.channels[channel], "operator", None) is not None else value


def _takes_a_whole_value(graph: Any, channel: str) -> bool:
    from langgraph.channels import BinaryOperatorAggregate, LastValue

    return type(graph.channels.get(channel)) in {BinaryOperatorAggregate, LastValue}


def _kind(value: Any) -> type:
    return float if type(value) is int else type(value)


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
