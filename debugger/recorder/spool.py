"""The durable queue of receipts: segments of framed lines, removed after the server answered for them."""

import fcntl
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from debugger.recorder import frames

SEGMENT_BYTES: Final = 1024 * 1024
_WORTH_REMOVING: Final = 64 * 1024
_SEPARATOR: Final = b"\n"


@dataclass(slots=True)
class _Segment:
    path: Path
    log: frames.AppendLog
    lock: int
    end: int = 0
    read_to: int = 0
    waiting: int = 0


@dataclass(frozen=True, slots=True)
class Batch:
    """Lines read from one segment, and where the segment goes on behind them."""

    lines: tuple[bytes, ...]
    end: int
    segment: "_Segment" = field(repr=False)


class Spool:
    """Keeps receipts until they are answered for; several programs may share the folder.

    Each program writes segments of its own and holds a lock on them; the segments of a program that
    died are adopted. A record may carry a local part, which is never sent: `on_local` gets it back when
    a segment is adopted, and `before_removal` runs before a segment that held one disappears.
    """

    def __init__(
        self,
        folder: Path,
        *,
        on_local: Callable[[bytes], None] = lambda _: None,
        before_removal: Callable[[], None] = lambda: None,
    ) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder = folder
        self._on_local = on_local
        self._before_removal = before_removal
        self._guard = threading.RLock()
        self._segments: list[_Segment] = []
        self._current: _Segment | None = None
        self.adopt()

    @property
    def waiting(self) -> int:
        """How many lines no server has answered for yet."""
        with self._guard:
            return sum(segment.waiting for segment in self._segments)

    def append(self, line: bytes, *, local: bytes = b"", durable: bool = False) -> None:
        """Queue one line; `durable` waits until the disk has it. Raises OSError: then nothing is queued."""
        with self._guard:
            segment = self._writable()
            # Under the guard: a line must not be sent and its file closed before the disk has it.
            segment.end += segment.log.append(line + _SEPARATOR + local, durable=durable)
            segment.waiting += 1

    def peek(self, lines: int, size: int) -> Batch | None:
        """Return the oldest lines, at most so many and so many bytes (but at least one), or None."""
        with self._guard:
            segment = next((each for each in self._segments if each.waiting), None)
            if segment is None:
                return None
            start, limit = segment.read_to, segment.end
        found: list[bytes] = []
        end, total = start, 0
        for frame in frames.read(segment.path, start):
            line = frame.payload.partition(_SEPARATOR)[0]
            if frame.end > limit or len(found) == lines or (found and total + len(line) >= size):
                break
            found.append(line)
            total += len(line) + 1
            end = frame.end
        return Batch(tuple(found), end, segment)

    def answered(self, batch: Batch) -> None:
        """Take the lines of a batch off the queue; a segment without any other is removed.

        The one being written stays until it has some size: a new file for each line would cost the
        agent more than the line itself.
        """
        with self._guard:
            segment = batch.segment
            segment.read_to = batch.end
            segment.waiting -= len(batch.lines)
            if segment.waiting == 0 and (segment is not self._current or segment.end >= _WORTH_REMOVING):
                self._remove(segment)

    def adopt(self) -> None:
        """Take over what programs that ended have left behind."""
        with self._guard:
            known = {segment.path for segment in self._segments}
            for path in sorted(self._folder.glob("*.seg")):
                if path not in known and (segment := self._take(path)) is not None:
                    self._segments.append(segment)

    def close(self) -> None:
        """Let go of the segments; what is waiting stays on the disk."""
        with self._guard:
            for segment in list(self._segments):
                if segment.waiting == 0:
                    self._remove(segment)
                else:
                    segment.log.close()
                    os.close(segment.lock)
            self._segments, self._current = [], None

    def _writable(self) -> _Segment:
        if self._current is None or self._current.end >= SEGMENT_BYTES:
            self._current = self._new_segment()
            self._segments.append(self._current)
        return self._current

    def _new_segment(self) -> _Segment:
        name = f"{time.time_ns():020d}-{os.getpid()}.seg"
        draft = self._folder / f".{name}"
        lock = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)  # before anybody can see it
        path = draft.rename(self._folder / name)
        return _Segment(path, frames.AppendLog(path), lock)

    def _take(self, path: Path) -> _Segment | None:
        try:
            lock = os.open(path, os.O_RDWR)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return None
        if not path.exists():  # its owner was just removing it
            os.close(lock)
            return None
        segment = _Segment(path, frames.AppendLog(path), lock)
        for frame in frames.read(path):
            segment.end, segment.waiting = frame.end, segment.waiting + 1
            if local := frame.payload.partition(_SEPARATOR)[2]:
                self._on_local(local)
        if segment.waiting:
            return segment
        self._unlink(segment)
        return None

    def _remove(self, segment: _Segment) -> None:
        if segment is self._current:
            self._current = None
        self._segments.remove(segment)
        self._before_removal()
        self._unlink(segment)

    def _unlink(self, segment: _Segment) -> None:
        segment.log.close()
        segment.path.unlink()
        os.close(segment.lock)
