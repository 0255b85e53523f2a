"""Writes run states of the OpenAI Agents SDK: one file a checkpoint, in a folder for each run or branch.

The SDK keeps no store of its own, so this is it: content, readable by its owner only, and never sent.
"""

import json
import secrets
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from branches.evidence.keys import HmacKey
from branches.evidence.run_states import (
    Context,
    Saved,
    StateMalformed,
    Wanted,
    files_of,
    is_plain_name,
    parse,
    to_text,
)
from debugger.recorder.frames import private_file

FOLDER: Final = "states"
MEMORY_PROBE: Final = "openai_agents_memory"


def checkpoint_id() -> str:
    """Return a new id; ids sort by their time."""
    return f"ck-{time.time_ns():020d}-{secrets.token_hex(4)}"


class StateFolder:
    """The folder of all saved states of one home."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def save(self, thread: str, saved: Saved) -> None:
        """Write a state, on the disk when this returns. Raises OSError."""
        place = self._folder / _plain(thread)
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        private_file(place / f"{_plain(saved.checkpoint)}.json", to_text(asdict(saved)).encode())

    def find(self, key: HmacKey, thread_ref: str | None, checkpoint_ref: str) -> list[tuple[str, Saved]]:
        """Return (thread, state) of a checkpoint by the HMACs of both; in every folder without the first."""
        return list(self._read(key, Wanted(thread_ref=thread_ref, checkpoint_ref=checkpoint_ref)))

    def newest(self, key: HmacKey, thread: str) -> Saved | None:
        """Return the newest state of a run, or None."""
        return next((saved for _, saved in self._read(key, Wanted(thread=thread))), None)

    def _read(self, key: HmacKey, wanted: Wanted) -> Iterator[tuple[str, Saved]]:
        """Yield what can be read; a file that is no saved state is none."""
        if not self._folder.is_dir():
            return
        for file in files_of(self._folder, key, wanted):
            with suppress(OSError, StateMalformed):
                yield file.parent.name, parse(file.read_bytes())


def _plain(name: str) -> str:
    if not is_plain_name(name):
        raise ValueError("name: pattern")
    return name


def to_json(state: Any) -> tuple[dict[str, Any], Context]:
    """Return a RunState as JSON, and what became of the program's context.

    A context that is no mapping, or holds what JSON cannot bring back equal, is left out: it may hold
    connections and secrets.
    """
    found: dict[str, Any] = state.to_json(context_serializer=lambda _: {})
    held = found["context"]
    if held["context_meta"]["serialized_via"] == "none":
        return found, Context.NONE
    if held["context_meta"]["serialized_via"] == "mapping" and _is_plain(held["context"]):
        return found, Context.KEPT
    held["context"] = {}
    return found, Context.LEFT


def _is_plain(value: Any) -> bool:
    try:
        return bool(json.loads(json.dumps(value, allow_nan=False)) == value)
    except (TypeError, ValueError, RecursionError):
        return False
