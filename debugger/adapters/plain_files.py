"""Reads files that are files: a pipe, a socket or a device in their place would never answer or never end."""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO, Final

# Should a pipe take a file's place after it was looked at, opening it must not wait.
_OPEN: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC


def is_plain(path: Path) -> bool:
    """Whether a file lies there that a program which cannot be told not to wait may open."""
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except OSError:
        return False


def open_plain(path: Path) -> BinaryIO:
    """Open a file for reading. Raises OSError, also for what is no file."""
    number = os.open(path, _OPEN)
    try:
        if not stat.S_ISREG(os.fstat(number).st_mode):
            raise OSError(errno.EINVAL, "no plain file")
        return os.fdopen(number, "rb")
    except BaseException:
        os.close(number)
        raise


def read_plain(path: Path, most: int) -> bytes:
    """Return a file's bytes, at most one more than `most`. Raises OSError, also for what is no file."""
    with open_plain(path) as file:
        return file.read(most + 1)
