"""Saved run states of the OpenAI Agents SDK as our recorder keeps them: found by HMAC, read, fingerprinted.

A home has a folder for each run or branch, called after its trace or its own id, with one file a checkpoint.
Nothing here writes, follows a link, or looks anywhere but in these folders.
"""

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum, auto
from pathlib import Path
from typing import Any, Final

from branches.evidence.domains import CHECKPOINT, STATE, THREAD
from branches.evidence.keys import HmacKey

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,128}")
_SUFFIX: Final = ".json"


class StateMalformed(ValueError):
    """A file is no saved state; the message names the rule only."""


class TooMany(Exception):
    """There are more names to look through than the caller allows."""


class Kind(StrEnum):
    """Where a run stood when it was saved."""

    START = auto()
    """Before the first turn: there is an input and nothing else."""
    TURN = auto()
    WAITS = auto()
    ENDED = auto()


class Context(StrEnum):
    """What became of the program's own context object."""

    NONE = auto()
    KEPT = auto()
    LEFT = auto()
    """It has no plain form, and a branch needs another one."""


@dataclass(frozen=True, slots=True)
class Saved:
    """A run as it was saved; `messages` are our own ids of its items, oldest first."""

    checkpoint: str
    kind: Kind
    context: Context
    agent: str
    """The agent that began."""
    messages: tuple[str, ...]
    state: Mapping[str, Any]

    def fingerprint(self, key: HmacKey) -> str:
        """Return the keyed digest of everything that a resume would load; the trace is not of it."""
        loaded = {name: value for name, value in self.state.items() if name != "trace"}
        whole = [str(self.kind), str(self.context), self.agent, list(self.messages), loaded]
        return key.digest(STATE, to_text(whole))

    def with_state(self, state: Mapping[str, Any]) -> "Saved":
        """Return the same with another state."""
        return replace(self, state=state)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which saved state: by names in clear, which go first, or by their HMACs.

    Without a thread every folder is looked through. Without a checkpoint the newest of each is meant.
    """

    thread: str | None = None
    checkpoint: str | None = None
    thread_ref: str | None = None
    checkpoint_ref: str | None = None


def parse(raw: bytes) -> Saved:
    """Return what a file holds. Raises StateMalformed."""
    try:
        found = json.loads(raw)
        return Saved(
            checkpoint=str(found["checkpoint"]),
            kind=Kind(found["kind"]),
            context=Context(found["context"]),
            agent=str(found["agent"]),
            messages=tuple(str(each) for each in found["messages"]),
            state=dict(found["state"]),
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        raise StateMalformed("state: form") from None


def files_of(folder: Path, key: HmacKey, wanted: Wanted, most: int = sys.maxsize) -> Iterator[Path]:
    """Yield every file in which the wanted state should lie, whatever is there now.

    `most`: how many names are looked at. Raises OSError for a folder that cannot be listed, and TooMany.
    """
    names = _Names(most)
    for place in names.places(folder, key, wanted):
        own = names.checkpoints(place)
        if wanted.checkpoint is not None:
            chosen = [each for each in own if each == wanted.checkpoint]
        elif wanted.checkpoint_ref is not None:
            chosen = [each for each in own if key.digest(CHECKPOINT, each) == wanted.checkpoint_ref]
        else:
            chosen = own[-1:]  # ids sort by their time
        yield from (place / f"{each}{_SUFFIX}" for each in chosen)


def is_plain_name(name: str) -> bool:
    """Whether a run or a checkpoint of this name can have a folder or a file."""
    return _NAME.fullmatch(name) is not None


def to_text(value: Any) -> str:
    """Return a value as the one JSON text that it is saved and fingerprinted as."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


class _Names:
    """Lists folders, and counts what it lists; links, and names that no recorder gives, are left out."""

    def __init__(self, most: int) -> None:
        self._left = most

    def places(self, folder: Path, key: HmacKey, wanted: Wanted) -> Iterator[Path]:
        """Yield the folder of the run that is meant, or all of them."""
        for each in self._listed(folder):
            if not each.is_dir(follow_symlinks=False) or not is_plain_name(each.name):
                continue
            if wanted.thread is not None:
                is_meant = each.name == wanted.thread
            else:
                is_meant = wanted.thread_ref is None or key.digest(THREAD, each.name) == wanted.thread_ref
            if is_meant:
                yield folder / each.name

    def checkpoints(self, place: Path) -> list[str]:
        """Return the checkpoints with a file in a run's folder, oldest first."""
        names = (each.name for each in self._listed(place) if each.name.endswith(_SUFFIX))
        return [name for name in (each.removesuffix(_SUFFIX) for each in names) if is_plain_name(name)]

    def _listed(self, folder: Path) -> list[os.DirEntry[str]]:
        found = []
        with os.scandir(folder) as entries:
            for each in entries:
                if self._left == 0:
                    raise TooMany("names")
                self._left -= 1
                if not each.is_symlink():
                    found.append(each)
        return sorted(found, key=lambda each: each.name)
