"""The messages of a run, read from its state: each item once, with its text only as a digest."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from branches.evidence.domains import CONTENT, MESSAGE
from branches.evidence.keys import HmacKey

_CLASSES: Final[Mapping[str, str]] = {
    "message_output_item": "answer",
    "tool_call_item": "tool_call",
    "tool_call_output_item": "tool_result",
    "handoff_call_item": "handoff",
    "handoff_output_item": "handoff",
}
_INPUT: Final = "in-"
_NOTHING: Final[Mapping[str, Any]] = {"call": None, "by_model": False}
_BY_MODEL: Final = frozenset({"message_output_item", "tool_call_item", "handoff_call_item"})


class MessageLog:
    """Which messages of a run were reported; an item's own id is the run's and its place in it."""

    def __init__(self, key: HmacKey, run: str, known: tuple[str, ...] = ()) -> None:
        self._key = key
        self._run = run
        self.ids = list(known)

    def news(self, state: Mapping[str, Any], checkpoint: str) -> Iterator[dict[str, Any]]:
        """Yield the bodies of what is new in a state: the input first, then the items in their order."""
        inputs, items = _entries(state, self.ids)
        entries = [*inputs, *items]
        tokens = _newest_tokens(state)
        for place in range(len(self.ids), len(entries)):
            entry = entries[place]
            self.ids.append(f"{self._run}/{_INPUT if place < len(inputs) else ''}{place}")
            is_written = tokens is not None and entry["by_model"]
            yield self._body(entry, place, entries, checkpoint, tokens if is_written else None)
            if is_written:
                tokens = None  # an answer of several items counts once

    def _body(
        self,
        entry: Mapping[str, Any],
        place: int,
        entries: list[Mapping[str, Any]],
        checkpoint: str,
        tokens: int | None,
    ) -> dict[str, Any]:
        replied = _replied(entries, place)
        return {
            "message": self._key.digest(MESSAGE, self.ids[place]),
            "checkpoint": checkpoint,
            "sender": entry["sender"],
            "recipient": entry["recipient"],
            "class": entry["class"],
            "content": self._key.digest(CONTENT, entry["text"]),
            "bytes": len(entry["text"].encode("utf-8", "surrogatepass")),
            "tokens": tokens,
            "replies_to": None if replied is None else self._key.digest(MESSAGE, self.ids[replied]),
        }


def texts(state: Mapping[str, Any], ids: Sequence[str]) -> dict[str, str]:
    """Return the text of each message of a saved state, by our own id of it."""
    inputs, items = _entries(state, ids)
    return {own: entry["text"] for own, entry in zip(ids, [*inputs, *items], strict=False) if "text" in entry}


def _entries(
    state: Mapping[str, Any], ids: Sequence[str]
) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    """Return input and items. Nested histories rewrite the input on the way: what came first counts."""
    inputs = list(_inputs(state))
    if ids:
        told = sum(_INPUT in each for each in ids)
        inputs = (inputs + [_NOTHING] * told)[:told]
    return inputs, list(_items(state))


def _inputs(state: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    given = state["original_input"]
    for each in [given] if isinstance(given, str) else given:
        yield {
            "class": "system" if _role(each) in {"system", "developer"} else "input",
            "sender": None,
            "recipient": None,
            "call": None,
            "text": each if isinstance(each, str) else _text(each),
            "by_model": False,
        }


def _role(item: Any) -> str | None:
    return item.get("role") if isinstance(item, Mapping) else None


def _items(state: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for item in state["session_items"]:
        sort, raw = item["type"], item["raw_item"]
        if sort not in _CLASSES:
            continue
        agent = _name(item.get("agent"))
        is_result = sort == "tool_call_output_item"
        yield {
            "class": _CLASSES[sort],
            "sender": _name(item.get("source_agent")) or (None if is_result else agent),
            "recipient": _name(item.get("target_agent")) or (agent if is_result else None),
            "call": raw.get("call_id"),
            "text": _text(raw),
            "by_model": sort in _BY_MODEL,
        }


def _name(reference: Any) -> str | None:
    return reference.get("name") if isinstance(reference, Mapping) else None


def _text(raw: Mapping[str, Any]) -> str:
    """Return an item's own text, else the whole item; the ids that a provider gives are not content."""
    content = raw.get("content")
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        texts = [part.get("text") for part in content if isinstance(part, Mapping)]
        if texts and all(isinstance(text, str) for text in texts):
            return "".join(map(str, texts))
    kept = {name: value for name, value in raw.items() if name not in {"id", "call_id", "status"}}
    return json.dumps(kept, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def _newest_tokens(state: Mapping[str, Any]) -> int | None:
    """Return how many tokens the newest answer took to write, where the provider counted them."""
    responses = state["model_responses"]
    count = responses[-1]["usage"].get("output_tokens") if responses else None
    return count if isinstance(count, int) and count > 0 else None


def _replied(entries: list[Mapping[str, Any]], place: int) -> int | None:
    entry = entries[place]
    if entry["call"] is not None and not entry["by_model"]:
        return next(
            (
                earlier
                for earlier in range(place - 1, -1, -1)
                if entries[earlier]["call"] == entry["call"] and entries[earlier]["by_model"]
            ),
            None,
        )
    return None if place == 0 or entry["class"] in {"input", "system"} else place - 1
