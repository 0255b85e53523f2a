"""A response whose head is known to have ended: the standard library takes a broken one for a short one."""

from http.client import HTTPException, HTTPResponse
from typing import Any


class WholeHead(HTTPResponse):
    """A response that demands the blank line after its headers."""

    def begin(self) -> None:
        """Read status and headers. Raises HTTPException."""
        lines = _Lines(self.fp)
        self.fp = lines  # type: ignore[assignment]
        try:
            super().begin()
        finally:
            if self.fp is not None:  # closed where nothing came at all
                self.fp = lines.file
        if lines.last.strip(b"\r\n"):
            raise HTTPException


class _Lines:
    """Reads lines of a file and remembers the last one."""

    def __init__(self, file: Any) -> None:
        self.file = file
        self.last = b"?"

    def readline(self, *size: int) -> bytes:
        self.last = self.file.readline(*size) or b"?"
        return b"" if self.last == b"?" else self.last

    def close(self) -> None:
        self.file.close()
