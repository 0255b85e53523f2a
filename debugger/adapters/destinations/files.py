"""Reads a file below a declared root: no link is followed on the way, no special file is opened."""

import errno
import hashlib
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from branches.ports import Target
from debugger.adapters.destinations.keys_in_names import Template
from debugger.adapters.options import TargetUnfit, local_path, text_or
from debugger.adapters.outbound import READ_S, Unreachable

MOST_KEPT: Final = 64 * 1024
MOST_ENTRIES: Final = 10_000
_CHUNK: Final = 1024 * 1024
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Artifact:
    """What lies at a place: its digest and size, its beginning, and when it was last written there."""

    sha256: str
    size: int
    head: bytes
    """The whole content where `size` is not larger, else its first part."""
    at: str
    """When it was written, by the place's own clock: dotted numbers, or empty where nothing says it."""
    media_type: str | None = None

    @property
    def whole(self) -> bytes:
        """The content. Raises Unreachable where it is larger than what is kept."""
        if self.size > len(self.head):
            raise Unreachable("too_large")
        return self.head


def steps_of(path: str) -> list[str]:
    """Return a relative path's steps. Raises TargetUnfit for one that leads elsewhere."""
    steps = list(PurePosixPath(path).parts)
    if not steps or path.startswith("/") or ".." in steps or "\0" in path:
        raise TargetUnfit("path", "below_root")
    return steps


def read(target: Target, path: str) -> Artifact | None:
    """Return what lies at a path below the root, or None where nothing does. Raises Unreachable."""
    *folders, name = steps_of(path)
    with _root(target) as root, _below(root, folders) as folder:
        if folder is None:
            return None
        try:
            number = os.open(name, _FILE, dir_fd=folder)
        except FileNotFoundError:
            return None
        except OSError as error:
            is_special = error.errno in {errno.ELOOP, errno.ENXIO}
            raise Unreachable("not_a_file" if is_special else "file_unreadable") from None
        try:
            return _hashed(number)
        finally:
            os.close(number)


def listed(target: Target, template: Template, *, every: bool = False) -> list[tuple[str, str]]:
    """Return path and time of the files whose path has the template's form and holds a key, or of every one.

    Raises Unreachable.
    """
    steps = steps_of(template.filled("-"))
    place = len(steps_of(f"{template.before}-")) - 1
    found: list[tuple[str, str]] = []
    with _root(target) as root, _below(root, steps[:place]) as folder:
        names = [] if folder is None else sorted(os.listdir(folder))  # noqa: PTH208 - a descriptor
        if len(names) > MOST_ENTRIES:
            raise Unreachable("too_many")
        for name in names:
            own = (name, *steps[place + 1 :])
            path = "/".join((*steps[:place], *own))
            is_one = template.has_form(path) if every else template.key_in(path) is not None
            at = _time_of(folder, own) if is_one else None
            if at is not None:
                found.append((path, at))
    return found


@contextmanager
def _root(target: Target) -> Iterator[int]:
    root = local_path(target, "root")
    if not root.is_absolute():
        raise TargetUnfit("root", "absolute")
    try:
        number = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        raise Unreachable("root_absent") from None
    try:
        witness = text_or(target, "witness", ".")
        # An empty folder where a volume should be mounted is not an empty volume.
        if not _exists(witness, number):
            raise Unreachable("root_absent")
        yield number
    finally:
        os.close(number)


@contextmanager
def _below(root: int, folders: list[str]) -> Iterator[int | None]:
    """Open a folder step by step; None where one of the steps is not there. Raises Unreachable."""
    number = os.dup(root)
    try:
        for name in folders:
            try:
                following = os.open(name, _FOLDER, dir_fd=number)
            except FileNotFoundError:
                os.close(number)
                number = -1
                break
            except OSError:
                raise Unreachable("not_a_folder") from None
            os.close(number)
            number = following
        yield None if number < 0 else number
    finally:
        if number >= 0:
            os.close(number)


def _exists(name: str, folder: int) -> bool:
    with suppress(OSError, ValueError):
        os.stat(name, dir_fd=folder, follow_symlinks=False)
        return True
    return False


def _time_of(folder: int | None, steps: tuple[str, ...]) -> str | None:
    """Return when a file was written, or None where there is none."""
    if folder is None:
        return None
    with _below(folder, list(steps[:-1])) as below:
        if below is None:
            return None
        try:
            found = os.stat(steps[-1], dir_fd=below, follow_symlinks=False)
        except FileNotFoundError:
            return None
        except OSError:
            raise Unreachable("file_unreadable") from None
    return _written(found) if stat.S_ISREG(found.st_mode) else None


def _written(found: os.stat_result) -> str:
    """Return when an inode was last changed: unlike the time of the content, nobody sets it."""
    seconds, rest = divmod(found.st_ctime_ns, 1_000_000_000)
    return f"{seconds}.{rest:09}"


def _hashed(number: int) -> Artifact:
    before = os.fstat(number)
    if not stat.S_ISREG(before.st_mode):
        raise Unreachable("not_a_file")
    until, whole, head, size = time.monotonic() + READ_S, hashlib.sha256(), b"", 0
    try:
        while chunk := os.read(number, _CHUNK):
            if time.monotonic() > until:
                raise Unreachable("timeout")
            whole.update(chunk)
            size += len(chunk)
            if len(head) < MOST_KEPT:
                head += chunk[: MOST_KEPT - len(head)]
        after = os.fstat(number)
    except OSError:
        raise Unreachable("file_unreadable") from None
    if _written(before) != _written(after) or size != after.st_size:
        raise Unreachable("being_written")
    return Artifact(whole.hexdigest(), size, head, _written(after))
