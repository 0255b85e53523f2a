"""The message map as one small binary: little-endian, at most a few kilobytes however long the run.

4 bytes magic "BGM" and version 1; u32 receipts; u16 columns; u8 lanes; u8 zero; per lane a u8 length and
that many bytes of UTF-8; a zero byte where needed to make the length even; u16 counts, lane by lane; u8
marks per column (1 checkpoint, 2 effect, 4 failure).
"""

import struct
from array import array
from sys import byteorder
from typing import Final

from branches.queries.message_map import MessageMap

MAGIC: Final = b"BGM\x01"
_NAME_LIMIT: Final = 96
_COUNT_LIMIT: Final = 0xFFFF


def map_bytes(found: MessageMap) -> bytes:
    """Return the map in the form above; a count past 65 535 is written as that."""
    head = struct.pack("<4sIHBB", MAGIC, found.receipts, found.columns, len(found.lanes), 0)
    names = b"".join(_name(lane) for lane in found.lanes)
    pad = b"\0" * (len(names) % 2)
    counts = array("H", (min(number, _COUNT_LIMIT) for lane in found.counts for number in lane))
    if byteorder == "big":
        counts.byteswap()
    return head + names + pad + counts.tobytes() + bytes(found.marks)


def _name(lane: str) -> bytes:
    text = lane.encode()[:_NAME_LIMIT].decode(errors="ignore").encode()
    return bytes([len(text)]) + text
