"""OTLP bodies as bytes: what is refused of them, and the wire's frames made by hand."""

import pytest

from debugger.adapters.runtimes.otlp_attributes import OtlpRefused
from debugger.adapters.runtimes.otlp_bodies import Limits, decoded
from debugger.adapters.runtimes.otlp_spans import Span
from tests.adapters.otlp_requests import JSON, PROTOBUF, as_json, as_protobuf
from tests.adapters.places import MARKER

ENCODINGS = [pytest.param(as_protobuf, PROTOBUF, id="protobuf"), pytest.param(as_json, JSON, id="json")]


def refusal(content: bytes, media: str = PROTOBUF, encoding: str = "", **limits: int) -> tuple[str, str]:
    with pytest.raises(OtlpRefused) as caught:
        decoded(content, media, encoding, Limits(**limits))
    assert MARKER not in str(caught.value)
    return caught.value.field, caught.value.rule


def only(content: bytes, media: str) -> Span:
    ((number, span),) = decoded(content, media).spans
    assert number == 1
    return span


def _varint(number: int) -> bytes:
    out = b""
    while number > 0x7F:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def framed(tag: int, content: bytes) -> bytes:
    return bytes([tag]) + _varint(len(content)) + content


def a_request(span: bytes) -> bytes:
    return framed(0x0A, framed(0x12, framed(0x12, span)))
