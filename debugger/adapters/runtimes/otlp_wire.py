"""Protobuf's outermost layers, read field by field, so that nothing large or endless is unpacked whole."""

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from debugger.adapters.runtimes.otlp_attributes import (
    ALLOWED,
    EVENTS,
    LINK_KIND,
    MAX_METADATA,
    MAX_TEXT,
    OtlpRefused,
)

VARINT: Final = 0
FIXED64: Final = 1
BYTES: Final = 2
FIXED32: Final = 5
_MAX_VARINT: Final = 10

type Extent = tuple[int, int, int, int, int]
"""A field's number, its wire type, where it begins, where its value begins, and where it ends."""

# A span below this is parsed as it is: what it unpacks to is bounded by it.
SMALL: Final = 32 * 1024
MAX_FIELDS: Final = 200_000


class Budget:
    """How many fields of a body may still be looked at one by one: it costs more than to unpack them."""

    __slots__ = ("_left",)

    def __init__(self, spans: int) -> None:
        self._left = 4 * spans + MAX_FIELDS

    def take(self) -> None:
        """Count one. Raises OtlpRefused where there are too many."""
        self._left -= 1
        if self._left < 0:
            raise OtlpRefused("body", "max_items")


def fields(raw: bytes, start: int, end: int, budget: Budget) -> Iterator[Extent]:
    """Yield the fields of the message between two places. Raises OtlpRefused for the body."""
    at = start
    while at < end:
        budget.take()
        begun = at
        tag = raw[at]
        at += 1
        if tag >= 0x80:
            tag, at = _varint(raw, begun, end)
        wire_type = tag & 7
        if not tag >> 3:
            raise OtlpRefused("body", "field_number")
        value = at
        if wire_type == BYTES:
            size, value = _varint(raw, at, end)
            at = value + size
        elif wire_type == VARINT:
            at = _varint(raw, at, end)[1]
        elif wire_type == FIXED64:
            at += 8
        elif wire_type == FIXED32:
            at += 4
        else:
            raise OtlpRefused("body", "wire_type")
        if at > end:
            raise OtlpRefused("body", "truncated")
        yield tag >> 3, wire_type, begun, value, at


def _varint(raw: bytes, at: int, end: int) -> tuple[int, int]:
    number = shift = 0
    for place in range(at, min(end, at + _MAX_VARINT)):
        byte = raw[place]
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, place + 1
        shift += 7
    raise OtlpRefused("body", "truncated" if end - at < _MAX_VARINT else "varint")


def lean_span(raw: bytes, start: int, end: int, budget: Budget) -> bytes:
    """Return a span's bytes, of a large one without what is never kept. Raises OtlpRefused.

    A long attribute of the list stays as its name alone: that it is there is a fact.
    """
    if end - start <= SMALL:
        return raw[start:end]
    return b"".join(_lean(raw, start, end, _SPAN, budget))


def _lean(raw: bytes, start: int, end: int, shape: "_Shape", budget: Budget) -> Iterator[bytes]:
    seen: set[str] = set()
    for number, wire_type, begun, value, after in fields(raw, start, end, budget):
        if wire_type == BYTES and number == shape.attributes:
            key, written_key = key_of(raw, value, after, budget)
            if key not in shape.allowed:
                continue
            if key in seen:
                raise OtlpRefused("attributes", "duplicate_key")
            seen.add(key)
            short = after - value <= MAX_METADATA
            yield raw[begun:after] if short else _field(number, written_key)
        elif wire_type == BYTES and number in shape.inner:
            yield _field(number, b"".join(_lean(raw, value, after, shape.inner[number], budget)))
        elif after - value <= MAX_METADATA:
            yield raw[begun:after]


def key_of(raw: bytes, start: int, end: int, budget: Budget) -> tuple[str, bytes]:
    """Return an attribute's key, and the field that holds it; empty where there is none of ours."""
    key, found = "", b""
    for number, wire_type, begun, value, after in fields(raw, start, end, budget):
        if number == 1 and wire_type == BYTES and after - value <= MAX_TEXT:
            key, found = raw[value:after].decode(errors="replace"), raw[begun:after]
    return key, found


@dataclass(frozen=True, slots=True)
class _Shape:
    """Where a message has its attributes, which of them are kept, and the messages inside it."""

    attributes: int
    allowed: Container[str]
    inner: Mapping[int, "_Shape"]


_EVENT: Final = _Shape(3, frozenset(EVENTS.values()), {})
_LINK: Final = _Shape(4, frozenset({LINK_KIND}), {})
_SPAN: Final = _Shape(9, ALLOWED, {11: _EVENT, 13: _LINK})


def _field(number: int, content: bytes) -> bytes:
    return _written(number << 3 | BYTES) + _written(len(content)) + content


def _written(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
