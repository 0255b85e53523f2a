"""Cuts a msgpack map into the raw bytes of its members, so that each can be hashed on its own."""

from typing import Final

from branches.evidence.msgpack_read import MsgpackMalformed

# First byte -> bytes that follow it.
_FIXED: Final = {
    0xC0: 0, 0xC2: 0, 0xC3: 0, 0xCA: 4, 0xCB: 8, 0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8, 0xD0: 1, 0xD1: 2,
    0xD2: 4, 0xD3: 8, 0xD4: 2, 0xD5: 3, 0xD6: 5, 0xD7: 9, 0xD8: 17,
}  # fmt: skip
# First byte -> (width of the length, bytes beside the content); binary, extension and text.
_SIZED: Final = {
    0xC4: (1, 0), 0xC5: (2, 0), 0xC6: (4, 0), 0xC7: (1, 1), 0xC8: (2, 1), 0xC9: (4, 1), 0xD9: (1, 0),
    0xDA: (2, 0), 0xDB: (4, 0),
}  # fmt: skip
# First byte -> (width of the count, values a member has); lists and maps.
_COUNTED: Final = {0xDC: (2, 1), 0xDD: (4, 1), 0xDE: (2, 2), 0xDF: (4, 2)}


def map_members(raw: bytes) -> dict[str, bytes]:
    """Return the members of a map with text keys as raw msgpack, in their order. Raises MsgpackMalformed."""
    try:
        count, at = _map_head(raw)
        members: dict[str, bytes] = {}
        for _ in range(count):
            key, at = _text(raw, at)
            end = _skip(raw, at)
            members[key] = raw[at:end]
            at = end
    except (IndexError, UnicodeDecodeError):
        raise MsgpackMalformed("cut_short") from None
    return members


def _map_head(raw: bytes) -> tuple[int, int]:
    first = raw[0]
    if 0x80 <= first < 0x90:
        return first & 0x0F, 1
    if first in {0xDE, 0xDF}:
        width = _COUNTED[first][0]
        return int.from_bytes(raw[1 : 1 + width], "big"), 1 + width
    raise MsgpackMalformed("not_a_map")


def _text(raw: bytes, at: int) -> tuple[str, int]:
    first = raw[at]
    if 0xA0 <= first < 0xC0:
        start, size = at + 1, first & 0x1F
    elif first in {0xD9, 0xDA, 0xDB}:
        width = _SIZED[first][0]
        start = at + 1 + width
        size = int.from_bytes(raw[at + 1 : start], "big")
    else:
        raise MsgpackMalformed("key_form")
    return raw[start : start + size].decode("utf-8"), start + size


def _skip(raw: bytes, at: int) -> int:
    """Return the offset behind the value that starts at an offset."""
    values = 1
    while values:
        first = raw[at]
        at += 1
        values -= 1
        if first < 0x80 or first >= 0xE0:
            continue
        if first < 0x90:
            values += 2 * (first & 0x0F)
        elif first < 0xA0:
            values += first & 0x0F
        elif first < 0xC0:
            at += first & 0x1F
        elif first in _FIXED:
            at += _FIXED[first]
        elif first in _SIZED:
            width, beside = _SIZED[first]
            at += width + beside + int.from_bytes(raw[at : at + width], "big")
        elif first in _COUNTED:
            width, each = _COUNTED[first]
            values += each * int.from_bytes(raw[at : at + width], "big")
            at += width
        else:
            raise MsgpackMalformed("unknown_byte")
    if at > len(raw):
        raise MsgpackMalformed("cut_short")
    return at
