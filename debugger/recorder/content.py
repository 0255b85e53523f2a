"""Shows one message or one state value to a person who asked: sealed to the asking page, kept nowhere."""

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from branches.evidence.boxes import BoxError, seal
from branches.evidence.domains import THREAD
from branches.evidence.plain_json import is_plain
from debugger.recorder.client import GateRefused, GateUnreachable
from debugger.recorder.messages import class_of, found_in, is_message, message_ref, text_of
from debugger.recorder.state import MEMORY_PROBE
from debugger.recorder.stores import Store, StoreUnsupported, config_of
from debugger.recorder.values import channel_of, listed
from debugger.recorder.values import text_of as value_text

if TYPE_CHECKING:
    from debugger.recorder import Recorder

MOST_BYTES: Final = 1024 * 1024


def answer(recorder: "Recorder", graph: Any, request: Mapping[str, Any]) -> str:
    """Answer one request for content; returns `sealed` or the problem's word, never what was found."""
    return say(recorder, request, _find(recorder, graph, request))


def show_edit(recorder: "Recorder", request: Mapping[str, Any]) -> str:
    """Open an edit that was sealed to this recorder, and show its text to the page that asked."""
    try:
        found = json.loads(recorder.identity.box.open(b64decode(request["sealed"] or "")))["text"]
    except (BoxError, ValueError, KeyError, TypeError):
        return say(recorder, request, None)
    return say(recorder, request, found if isinstance(found, str) else None)


def say(recorder: "Recorder", request: Mapping[str, Any], found: str | None) -> str:
    """Answer a request with what was found, sealed to the page that asked; returns as `answer` does."""
    if found is None:
        said: dict[str, str] = {"problem": "not_found"}
    elif len(content := found.encode()) > MOST_BYTES:
        said = {"problem": "too_large"}
    else:
        said = _sealed(request["public"], content)
    try:
        recorder.client.answer_content(request["request"], said)
    except (GateUnreachable, GateRefused):
        return "unanswered"
    return said.get("problem", "sealed")


def _sealed(public: str, content: bytes) -> dict[str, str]:
    try:
        return {"sealed": b64encode(seal(b64decode(public), content)).decode("ascii")}
    except (BoxError, ValueError):
        return {"problem": "key_unusable"}


def _find(recorder: "Recorder", graph: Any, request: Mapping[str, Any]) -> str | None:
    """Return a message's text, or as JSON one value, all (for the key that is the memory), or their list."""
    recorder.answers.refresh()
    thread = recorder.answers.thread_of(request["run"])
    if thread is None:
        return None
    values, subject = _values(recorder, graph, thread, request.get("checkpoint")), request["subject"]
    if request["kind"] == "message":
        return _message(recorder, values, subject)
    if request["kind"] == "values":
        return json.dumps(listed(graph, values, recorder.identity.key))
    if request["kind"] == "value":
        return _value(recorder, values, subject)
    if not isinstance(values, Mapping):
        return None
    rule = recorder.declaration.state_keys.get(subject)
    if subject in values:
        return _json(values[subject])
    return _json(values) if values and rule is not None and rule.probe == MEMORY_PROBE else None


def _values(recorder: "Recorder", graph: Any, thread: str, checkpoint: str | None) -> Any:
    if checkpoint is None:
        return graph.get_state(config_of(thread)).values
    key, store = recorder.identity.key, Store(graph)
    try:
        found = store.find(key, key.digest(THREAD, thread), checkpoint)
        # A message of the root run may be asked for at the checkpoint of a branch that holds it too.
        place = store.find_anywhere(key, checkpoint) if found is None else (found[0], found[2])
    except StoreUnsupported:
        place = None
    return {} if place is None else graph.get_state(config_of(*place)).values


def _message(recorder: "Recorder", values: Any, subject: str) -> str | None:
    for _, messages in found_in(values):
        for message in messages:
            if message_ref(recorder.identity.key, message) == subject:
                return text_of(message)
    return None


def _value(recorder: "Recorder", values: Any, target: str) -> str | None:
    """Return one value exactly, as JSON, by the HMAC of its channel."""
    channel = channel_of(values, target, recorder.identity.key)
    return value_text(values[channel]) if channel is not None and is_plain(values[channel]) else None


def _json(value: Any) -> str:
    return json.dumps(value, default=_shown, ensure_ascii=False, indent=1)


def _shown(value: Any) -> Any:
    return {"class": class_of(value), "text": text_of(value)} if is_message(value) else type(value).__name__
