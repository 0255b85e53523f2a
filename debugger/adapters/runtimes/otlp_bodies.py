"""The body of one OTLP/HTTP trace export: what it says it is, unpacked within bounds, as typed spans."""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from debugger.adapters.runtimes import otlp_json, otlp_protobuf
from debugger.adapters.runtimes.otlp_attributes import OtlpRefused
from debugger.adapters.runtimes.otlp_spans import Span

PROTOBUF: Final = "application/x-protobuf"
JSON: Final = "application/json"
_GZIP_START: Final = b"\x1f\x8b"
_GZIP_WINDOW: Final = 31


@dataclass(frozen=True, slots=True)
class Limits:
    """The largest request: bytes before and after unpacking, and spans."""

    most_bytes: int = 16 * 1024 * 1024
    most_spans: int = 20_000


@dataclass(frozen=True, slots=True)
class SpanRefusal:
    """A span that cannot be taken: its number in the body (from 1), the field and the rule."""

    number: int
    field: str
    rule: str


@dataclass(frozen=True, slots=True)
class Body:
    """What a request holds: its spans with their numbers, and those that were refused."""

    spans: tuple[tuple[int, Span], ...]
    refused: tuple[SpanRefusal, ...]


LIMITS: Final = Limits()


def decoded(content: bytes, content_type: str, encoding: str = "", limits: Limits = LIMITS) -> Body:
    """Return what a request body holds. Raises OtlpRefused where the body as a whole cannot be taken.

    `content_type` and `encoding` are the request's headers; an empty encoding is none.
    """
    media = _media(content_type)
    raw = unpacked(content, encoding, limits.most_bytes)
    read = otlp_protobuf.spans_of if media == PROTOBUF else otlp_json.spans_of
    return _body(read(raw, limits.most_spans))


def _body(read: Iterator[Span | OtlpRefused]) -> Body:
    spans: list[tuple[int, Span]] = []
    refused: list[SpanRefusal] = []
    for number, each in enumerate(read, 1):
        if isinstance(each, Span):
            spans.append((number, each))
        else:
            refused.append(SpanRefusal(number, each.field, each.rule))
    return Body(tuple(spans), tuple(refused))


def _media(content_type: str) -> str:
    """Return the media type, of which a charset other than UTF-8 is none. Raises OtlpRefused."""
    media, _, parameters = content_type.partition(";")
    media = media.strip().lower()
    if media not in (PROTOBUF, JSON):
        raise OtlpRefused("content-type", "enum" if media else "required")
    for parameter in filter(None, (each.strip().lower() for each in parameters.split(";"))):
        name, _, value = parameter.partition("=")
        if name.strip() == "charset" and value.strip(' "') not in {"utf-8", "utf8"}:
            raise OtlpRefused("content-type", "charset")
    return media


def unpacked(content: bytes, encoding: str, most: int) -> bytes:
    """Return the bytes as they were before compression, at most `most`. Raises OtlpRefused."""
    word = encoding.strip().lower()
    if word not in {"", "identity", "gzip"}:
        raise OtlpRefused("content-encoding", "enum")
    if len(content) > most:
        raise OtlpRefused("body", "max_bytes")
    return _gunzipped(content, most) if word == "gzip" else content


def _gunzipped(content: bytes, most: int) -> bytes:
    unpacking = zlib.decompressobj(wbits=_GZIP_WINDOW)
    try:
        raw = unpacking.decompress(content, most + 1)
    except zlib.error:
        raise OtlpRefused("body", "gzip") from None
    if len(raw) > most:
        raise OtlpRefused("body", "max_bytes")
    if not unpacking.eof:
        raise OtlpRefused("body", "truncated")
    if unpacking.unused_data:
        raise OtlpRefused("body", "trailing")
    return raw


def guessed(content: bytes) -> tuple[str, str]:
    """Return the content type and encoding that a body without headers looks like: a file, not a request."""
    if content.startswith(_GZIP_START):
        unpacking = zlib.decompressobj(wbits=_GZIP_WINDOW)
        try:
            start = unpacking.decompress(content, 1)
        except zlib.error:
            raise OtlpRefused("body", "gzip") from None
        return (JSON if start == b"{" else PROTOBUF), "gzip"
    return (JSON if content.startswith(b"{") else PROTOBUF), ""
