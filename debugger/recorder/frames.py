"""Append-only files of framed records: length, checksum, payload; a torn tail is dropped, never misread."""

import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_HEADER: Final = struct.Struct(">II")
MAX_PAYLOAD: Final = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Frame:
    """One record and the offset in bytes at which the next one starts."""

    payload: bytes
    end: int


def encode(payload: bytes) -> bytes:
    """Return the payload with its length (4 bytes) and CRC-32 (4 bytes) in front."""
    return _HEADER.pack(len(payload), zlib.crc32(payload)) + payload


def read(path: Path, offset: int = 0) -> Iterator[Frame]:
    """Yield the whole records from an offset on; stops silently at the first that is torn."""
    with path.open("rb") as file:
        file.seek(offset)
        while len(header := file.read(_HEADER.size)) == _HEADER.size:
            length, checksum = _HEADER.unpack(header)
            if length > MAX_PAYLOAD:
                return
            payload = file.read(length)
            if len(payload) < length or zlib.crc32(payload) != checksum:
                return
            offset += _HEADER.size + length
            yield Frame(payload, offset)


def sound_end(path: Path) -> int:
    """Return the offset behind the last whole record."""
    end = 0
    for frame in read(path):
        end = frame.end
    return end


def drop_torn_tail(path: Path) -> int:
    """Cut the file behind its last whole record, keep what was cut beside it; returns the bytes cut."""
    end = sound_end(path)
    size = path.stat().st_size
    if size == end:
        return 0
    with path.open("rb") as file:
        file.seek(end)
        cut = file.read()
    private_file(path.with_name(path.name + ".torn"), cut)
    os.truncate(path, end)
    return size - end


def private_file(path: Path, content: bytes) -> None:
    """Write a file that only its owner may read, whole or not at all."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.draft")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.write(descriptor, content)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    draft.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make names that were just created or removed in a folder survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class AppendLog:
    """A framed file that is only added to; each record is one write, so a killed program tears none."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if path.exists():
            drop_torn_tail(path)
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        sync_folder(path.parent)

    def append(self, payload: bytes, *, durable: bool = False) -> int:
        """Add one record; `durable` returns only when the disk has it. Returns the bytes written.

        Raises OSError: then nothing is added.
        """
        framed = encode(payload)
        start = os.fstat(self._descriptor).st_size
        written = os.write(self._descriptor, framed)
        if written != len(framed):  # the disk is full: half a record would hide every later one
            os.ftruncate(self._descriptor, start)
            raise OSError("append: short write")
        if durable:
            try:
                self.sync()
            except OSError:
                os.ftruncate(self._descriptor, start)
                raise
        return len(framed)

    def sync(self) -> None:
        """Return when the disk has everything."""
        os.fdatasync(self._descriptor)

    def close(self) -> None:
        """Release the file."""
        os.close(self._descriptor)
