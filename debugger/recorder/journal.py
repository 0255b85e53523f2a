"""What this home did with each branch, so that a start happens at most once, whatever is killed when."""

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Any

from debugger.recorder.frames import AppendLog, read


class Step(StrEnum):
    """How far a branch has come here, in order; from `starting` on nothing is ever started again."""

    REDEEMING = "redeeming"
    REDEEMED = "redeemed"
    COPIED = "copied"
    EDITED = "edited"
    RESTORED = "restored"
    STARTING = "starting"
    STARTED = "started"
    ENDED = "ended"

    @property
    def may_go_on(self) -> bool:
        """Whether a program that finds this as the last word may continue."""
        return self in {Step.REDEEMING, Step.REDEEMED, Step.COPIED, Step.EDITED, Step.RESTORED}


class Busy(Exception):
    """Another program is at this branch right now."""


class Journal:
    """The durable steps of one permit; use inside `opened`, which holds the branch's file lock."""

    def __init__(self, path: Path) -> None:
        self._log = AppendLog(path)
        self.entries: list[dict[str, Any]] = [json.loads(frame.payload) for frame in read(path)]

    @property
    def last(self) -> Step | None:
        """The last step noted, or None for a branch never seen."""
        return Step(self.entries[-1]["step"]) if self.entries else None

    def find(self, step: Step) -> dict[str, Any] | None:
        """Return what was noted with a step."""
        return next((entry for entry in self.entries if entry["step"] == step), None)

    def note(self, step: Step, **facts: Any) -> dict[str, Any]:
        """Note a step, on the disk when this returns; a step is noted once."""
        if (entry := self.find(step)) is not None:
            return entry
        entry = {"step": str(step), **facts}
        self._log.append(json.dumps(entry, separators=(",", ":")).encode(), durable=True)
        self.entries.append(entry)
        return entry

    def close(self) -> None:
        """Let go of the file."""
        self._log.close()


@contextmanager
def opened(folder: Path, branch: str, permit: str) -> Iterator[Journal]:
    """Hold a branch's lock and give the permit's journal. Raises Busy when another program holds it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = os.open(folder / f"{branch}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Busy("branch: another program has it") from None
        journal = Journal(folder / f"{permit}.journal")
        try:
            yield journal
        finally:
            journal.close()
    finally:
        os.close(lock)


def unfinished(folder: Path) -> list[Mapping[str, Any]]:
    """Return the envelopes of permits that were begun here and have not come to a start."""
    begun = []
    for path in sorted(folder.glob("*.journal")):
        entries = [json.loads(frame.payload) for frame in read(path)]
        if entries and Step(entries[-1]["step"]).may_go_on and "envelope" in entries[0]:
            begun.append(entries[0]["envelope"])
    return begun
