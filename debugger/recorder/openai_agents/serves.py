"""Waits for permits and resumes branches; shows messages to people who asked, sealed to their page."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from branches.evidence.domains import MESSAGE, THREAD
from branches.evidence.run_states import Saved
from debugger.recorder import content
from debugger.recorder.openai_agents import branching
from debugger.recorder.openai_agents.items import texts
from debugger.recorder.openai_agents.states import FOLDER, MEMORY_PROBE, StateFolder
from debugger.recorder.recorder import Recorder
from debugger.recorder.serving import Serving


def serving(recorder: Recorder, build: Callable[[Recorder], Any], **means: Any) -> Serving:
    """Return what serves branches of these agents, with `run` and `stop`.

    `build(recorder)` makes the agents, anew for each branch: a branch runs in a loop of its own, and the
    client of a model belongs to one loop. `means`: those of `resume`.
    """

    def resume(envelope: Mapping[str, Any], is_stopped: Callable[[str], bool]) -> str:
        return branching.resume(recorder, build(recorder), envelope, is_stopped=is_stopped, **means)

    return Serving(recorder, None, resume=resume, show=lambda request: show(recorder, request))


def show(recorder: Recorder, request: Mapping[str, Any]) -> str:
    """Answer one request for content; returns `sealed` or the problem's word, never what was found."""
    return content.say(recorder, request, _find(recorder, request))


def _find(recorder: Recorder, request: Mapping[str, Any]) -> str | None:
    """Return a message's text, or the whole saved state for the key that is the memory."""
    recorder.answers.refresh()
    thread = recorder.answers.thread_of(request["run"])
    if thread is None or (saved := _saved(recorder, thread, request.get("checkpoint"))) is None:
        return None
    if request["kind"] == "message":
        found = texts(saved.state, saved.messages)
        key = recorder.identity.key
        return next(
            (text for own, text in found.items() if key.digest(MESSAGE, own) == request["subject"]), None
        )
    rule = recorder.declaration.state_keys.get(request["subject"])
    if request["kind"] == "state" and rule is not None and rule.probe == MEMORY_PROBE:
        return json.dumps(dict(saved.state), ensure_ascii=False, indent=1)
    return None


def _saved(recorder: Recorder, thread: str, checkpoint: str | None) -> Saved | None:
    """Return a run's saved state, the newest where none is named; a branch holds states of its root too."""
    folder, key = StateFolder(recorder.home / FOLDER), recorder.identity.key
    if checkpoint is None:
        return folder.newest(key, thread)
    found = folder.find(key, key.digest(THREAD, thread), checkpoint) or folder.find(key, None, checkpoint)
    return found[0][1] if found else None
