"""Walks a folder by its descriptors: no link is followed, no pipe opened, and nothing read in a hurry."""

import hashlib
import os
import stat
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from debugger.adapters.outbound import Unreachable

MOST_DEPTH: Final = 64
_STEP: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_CHUNK: Final = 1024 * 1024
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Should a pipe take a file's place after it was looked at, opening it must not wait.
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

type Stamp = tuple[int, int, int, int, int]


class Changed(Exception):
    """Something was not the same when it was looked at again."""


class Entry(NamedTuple):
    """One name below the top (empty for the top itself), its sort, and what it holds."""

    name: bytes
    sort: bytes
    content: bytes


@dataclass(slots=True)
class Budget:
    """What may still be looked at, and until when."""

    files: int
    folders: int
    bytes: int
    deadline: float

    def take(self, mode: int, size: int) -> None:
        """Count one entry. Raises Unreachable."""
        if stat.S_ISDIR(mode):
            self.folders -= 1
        else:
            self.files -= 1
        if stat.S_ISREG(mode):
            self.bytes -= size
        if self.files < 0 or self.folders < 0:
            raise Unreachable("too_many_files")
        if self.bytes < 0:
            raise Unreachable("too_large")
        self.look_at_clock()

    def look_at_clock(self) -> None:
        """Raise Unreachable where the time is over."""
        if time.monotonic() > self.deadline:
            raise Unreachable("timeout")


@dataclass(slots=True)
class Tree:
    """What was found: `kind` is `folder`, `file`, `link`, `special` or `absent`."""

    kind: str
    entries: list[Entry] = field(default_factory=list)
    files: int = 0
    bytes: int = 0
    newest_ns: int = 0

    def is_young(self, seconds: float, began_ns: int) -> bool:
        """Whether something in it was changed so shortly before the look began that its times tell nothing.

        A change during the look could have kept them, however long the look then took.
        """
        tick = int(seconds * 1e9)
        return began_ns - tick < self.newest_ns < time.time_ns() + tick


def digest_of(entries: Iterable[Entry]) -> bytes:
    """32 bytes over the entries, whatever the order they were listed in."""
    whole = hashlib.sha256()
    for name, sort, content in sorted(entries):
        whole.update(b"%d:%b%b%d:%b" % (len(name), name, sort, len(content), content))
    return whole.digest()


def walk(path: Path, budget: Budget) -> Tree:
    """Return what lies at a path (one without links in it) and below. Raises Changed, Unreachable.

    Everything is read once and looked at once more: what is unchanged then was there at one moment.
    """
    above = _opened(path.parent)
    try:
        first = _Walker(replace(budget), reads=True)
        tree = first.from_top(os.fsencode(path.name) or b".", above)
        again = _Walker(replace(budget), reads=False)
        again.from_top(os.fsencode(path.name) or b".", above)
    except FileNotFoundError:
        raise Changed from None
    except OSError:
        raise Unreachable("file_unreadable") from None
    finally:
        os.close(above)
    if first.stamps != again.stamps:
        raise Changed
    return tree


def _opened(folder: Path) -> int:
    """Open a folder step by step, so that no link put in its way meanwhile is followed."""
    step = os.open(folder.anchor, _STEP)
    try:
        for part in folder.parts[1:]:
            inner = os.open(part, _STEP, dir_fd=step)
            os.close(step)
            step = inner
    except FileNotFoundError:
        os.close(step)
        raise Unreachable("path_absent") from None
    except OSError:
        os.close(step)
        raise Unreachable("path_unreadable") from None
    return step


class _Walker:
    """Goes through a folder once; `stamps` is what every entry looked like."""

    def __init__(self, budget: Budget, *, reads: bool) -> None:
        self.stamps: dict[bytes, Stamp] = {}
        self._budget = budget
        self._reads = reads
        self._tree = Tree("absent")

    def from_top(self, name: bytes, above: int) -> Tree:
        try:
            first = os.lstat(name, dir_fd=above)
        except FileNotFoundError:
            return self._tree
        self._tree.kind = _kind_of(first.st_mode)
        self._visit(name, b"", first, above, 0)
        return self._tree

    def _visit(self, name: bytes, path: bytes, first: os.stat_result, above: int, depth: int) -> None:
        mode, tree = first.st_mode, self._tree
        self.stamps[path] = _stamp(first)
        self._budget.take(mode, first.st_size)
        tree.newest_ns = max(tree.newest_ns, first.st_mtime_ns, first.st_ctime_ns)
        if stat.S_ISDIR(mode):
            tree.entries.append(Entry(path, b"d", b""))
            self._folder(name, path, first, above, depth)
        elif not self._reads:
            return
        elif stat.S_ISREG(mode):
            sort = b"x" if mode & stat.S_IXUSR else b"f"
            tree.entries.append(Entry(path, sort, self._content(name, first, above)))
            tree.files += 1
            tree.bytes += first.st_size
        elif stat.S_ISLNK(mode):
            tree.entries.append(Entry(path, b"l", os.readlink(name, dir_fd=above)))
        else:
            tree.entries.append(Entry(path, b"s", b"%d" % stat.S_IFMT(mode)))

    def _folder(self, name: bytes, path: bytes, first: os.stat_result, above: int, depth: int) -> None:
        if depth >= MOST_DEPTH:
            raise Unreachable("too_deep")
        own = os.open(name, _FOLDER, dir_fd=above)
        try:
            if _stamp(os.fstat(own)) != _stamp(first):
                raise Changed
            for inner in self._names(own):
                status = os.lstat(inner, dir_fd=own)
                self._visit(inner, path + b"/" + inner if path else inner, status, own, depth + 1)
        finally:
            os.close(own)

    def _names(self, folder: int) -> list[bytes]:
        most = self._budget.files + self._budget.folders
        with os.scandir(folder) as listing:
            names = [os.fsencode(each.name) for each in islice(listing, most + 1)]
        if len(names) > most:
            raise Unreachable("too_many_files")
        return names

    def _content(self, name: bytes, first: os.stat_result, above: int) -> bytes:
        """Return a digest of a file that is the one looked at, and stayed it."""
        opened = os.open(name, _FILE, dir_fd=above)
        try:
            if _stamp(os.fstat(opened)) != _stamp(first):
                raise Changed
            whole = hashlib.sha256()
            while chunk := os.read(opened, _CHUNK):
                whole.update(chunk)
                self._budget.look_at_clock()
            if _stamp(os.fstat(opened)) != _stamp(first):
                raise Changed
        finally:
            os.close(opened)
        return whole.digest()


def _kind_of(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "folder"
    if stat.S_ISREG(mode):
        return "file"
    return "link" if stat.S_ISLNK(mode) else "special"


def _stamp(status: os.stat_result) -> Stamp:
    return status.st_ino, status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns
