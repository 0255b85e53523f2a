"""Rows as a database gave them, hashed one by one and forgotten; their order is no part of the state."""

import hashlib
from collections.abc import Iterable
from typing import Final

from debugger.adapters.outbound import Unreachable

MOST_BYTES: Final = 16 * 1024 * 1024

type Cell = tuple[bytes, bytes]
"""A value's sort and its one canonical form: 1, 1.0, "1", true and null differ in the sort."""

NULL: Final[Cell] = (b"n", b"")


class Rows:
    """Takes rows up to a number; one more, and there is no digest at all. Equal rows count each."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._bytes = 0
        self._columns = b""
        self._digests: list[bytes] = []

    @property
    def count(self) -> int:
        """How many rows there are."""
        return len(self._digests)

    def name(self, columns: Iterable[bytes]) -> None:
        """Say what the columns are called: a renamed column is another state."""
        self._columns = b"".join(_framed(b"c", name) for name in columns)

    def add(self, cells: Iterable[Cell]) -> None:
        """Take one more row. Raises Unreachable."""
        row = b"".join(_framed(sort, content) for sort, content in cells)
        self._bytes += len(row)
        if self.count >= self.most:
            raise Unreachable("too_many_rows")
        if self._bytes > MOST_BYTES:
            raise Unreachable("too_large")
        self._digests.append(hashlib.sha256(row).digest())

    def digest(self) -> bytes:
        """32 bytes over the columns and all rows, whatever the order they came in."""
        whole = hashlib.sha256(_framed(b"h", self._columns))
        whole.update(b"%d:" % self.count)
        for each in sorted(self._digests):
            whole.update(each)
        return whole.digest()


def _framed(tag: bytes, content: bytes) -> bytes:
    return b"%b%d:%b" % (tag, len(content), content)
