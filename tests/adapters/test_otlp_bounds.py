"""OTLP bodies that are large, nested or endless: refused before they cost memory or time."""

import gzip
import json
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from branches.ports import SourceRefusal
from debugger.adapters.runtimes.otlp import OtlpImporter
from debugger.adapters.runtimes.otlp_bodies import Limits, decoded
from tests.adapters.otlp_bodies import ENCODINGS, a_request, framed, only, refusal
from tests.adapters.otlp_requests import (
    JSON,
    PROTOBUF,
    Sent,
    agent,
    as_protobuf,
    read,
    request,
)
from tests.adapters.places import KEY, MARKER
from tests.patience import END_S, ends

ROOT = Path(__file__).parents[2]
MEGABYTE = 1024 * 1024


def test_a_bomb_is_refused_before_it_is_unpacked() -> None:
    bomb = gzip.compress(b"\0" * (64 * MEGABYTE))
    assert len(bomb) < MEGABYTE
    tracemalloc.start()
    try:
        assert refusal(bomb, PROTOBUF, "gzip", most_bytes=MEGABYTE) == ("body", "max_bytes")
        assert tracemalloc.get_traced_memory()[1] < 4 * MEGABYTE
    finally:
        tracemalloc.stop()


def test_the_cap_is_of_the_unpacked_size_to_the_byte() -> None:
    body = as_protobuf([agent(1)])
    for content, encoding in ((body, ""), (gzip.compress(body), "gzip")):
        assert len(decoded(content, PROTOBUF, encoding, Limits(most_bytes=len(body))).spans) == 1
        assert refusal(content, PROTOBUF, encoding, most_bytes=len(body) - 1) == ("body", "max_bytes")


@pytest.mark.parametrize(("encode", "media"), ENCODINGS)
@pytest.mark.parametrize(
    "key", ["gen_ai.input.messages", "gen_ai.conversation.id", "output.value", "metadata"]
)
def test_a_large_attribute_is_not_kept_and_that_it_is_there_is(encode: Any, media: str, key: str) -> None:
    large = MARKER * (10 * MEGABYTE // len(MARKER))
    body = encode([agent(1, attributes={key: large}, exceptions=["TimeoutError"])])
    span = only(body, media)
    assert dict(span.attributes) == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "billing",
    }
    assert span.present == ({key} if key == "output.value" else set())
    assert MARKER not in repr([span, span.attributes, span.name])
    assert read(request(body, media)).refused == ()


def test_large_parts_of_a_protobuf_span_leave_the_rest_as_it_is() -> None:
    noise = {f"noise.{number}": MARKER * 100 for number in range(200)}
    events = [("exception", {"exception.type": "a.TimeoutError", "exception.stacktrace": MARKER * 5000})]
    small = Sent(
        1, name="x", links=[(1, 2, "handoff")], attributes={"session.id": "s"}, exceptions=["TimeoutError"]
    )
    large = Sent(
        1,
        name="x",
        links=[(1, 2, "handoff")],
        attributes={"session.id": "s", "gen_ai.prompt": MARKER * 100_000, **noise},
        events=events,
    )  # fmt: skip
    assert only(as_protobuf([large]), PROTOBUF) == only(as_protobuf([small]), PROTOBUF)


@pytest.mark.parametrize("levels", [200, 3_000, 20_000, 1_000_000])
def test_deep_nesting_in_json_is_refused(levels: int) -> None:
    value = '{"arrayValue":{"values":[' * levels + '{"stringValue":"x"}' + "]}}" * levels
    body = (
        '{"resourceSpans":[{"scopeSpans":[{"spans":[{"attributes":[{"key":"x","value":' + value + "}]}]}]}]}"
    )
    field, rule = refusal(body.encode(), JSON, most_bytes=64 * MEGABYTE)
    assert (field, rule) in {("body", "depth"), ("attributes.value", "depth"), ("body", "max_items")}


@pytest.mark.parametrize("levels", [200, 3_000])
def test_deep_nesting_in_protobuf_is_refused_where_it_would_be_read(levels: int) -> None:
    value = b""
    for _ in range(levels):
        value = framed(0x2A, framed(0x0A, value))
    pair = framed(0x0A, b"metadata") + framed(0x12, value)
    assert refusal(a_request(framed(0x4A, pair))) == ("body", "protobuf")


@pytest.mark.parametrize(("encode", "media"), ENCODINGS)
def test_the_number_of_spans_is_bounded_by_a_parameter(encode: Any, media: str) -> None:
    body = encode([agent(number) for number in range(1, 51)])
    assert len(decoded(body, media, "", Limits(most_spans=50)).spans) == 50
    assert refusal(body, media, most_spans=49) == ("spans", "max_items")
    importer = OtlpImporter(limits=Limits(most_spans=49))
    assert importer.read([request(body, media)], KEY).refused == (
        SourceRefusal("request", "spans", "max_items"),
    )


@pytest.mark.parametrize("media", [PROTOBUF, JSON])
def test_a_hundred_thousand_spans_in_one_request_are_refused_soon(media: str) -> None:
    if media == PROTOBUF:
        content = as_protobuf([agent(1)]) * 100_000
    else:
        one = json.dumps({"traceId": "a" * 32, "spanId": "b" * 16, "startTimeUnixNano": "1"})
        content = ('{"resourceSpans":[{"scopeSpans":[{"spans":[' + ",".join([one] * 100_000)).encode()
    with ends():
        assert refusal(content, media, most_bytes=64 * MEGABYTE) == ("spans", "max_items")


MEASURED = """
import resource, sys
from branches.ports import SourceFile
from debugger.adapters.runtimes.otlp import OtlpImporter
from branches.evidence.keys import HmacKey
file = SourceFile("request", sys.stdin.buffer.read(), {"content-type": sys.argv[1]})
before = resource.getrusage(resource.RUSAGE_SELF)
found = OtlpImporter().read([file], HmacKey("0badc0de", b"k" * 32))
after = resource.getrusage(resource.RUSAGE_SELF)
print(len(found.runs), after.ru_maxrss - before.ru_maxrss, after.ru_utime - before.ru_utime)
"""
VALUES = framed(0x0A, b"metadata") + framed(0x12, framed(0x2A, b"\x0a\x00" * (7 * MEGABYTE)))


@pytest.mark.parametrize(
    ("body", "media"),
    [
        pytest.param(b"\x0a\x00" * (8 * MEGABYTE), PROTOBUF, id="empty resources"),
        pytest.param(framed(0x0A, framed(0x12, b"\x12\x00" * (7 * MEGABYTE))), PROTOBUF, id="empty spans"),
        pytest.param(a_request(b"\x4a\x00" * (7 * MEGABYTE)), PROTOBUF, id="empty attributes"),
        pytest.param(a_request(b"\x4a\x00" * 16_000) * 500, PROTOBUF, id="in many spans"),
        pytest.param(a_request(b"\x4a\x00" * 16_500) * 500, PROTOBUF, id="in many large spans"),
        pytest.param(a_request(framed(0x5A, b"\x1a\x00" * (7 * MEGABYTE))), PROTOBUF, id="in an event"),
        pytest.param(a_request(framed(0x4A, VALUES)), PROTOBUF, id="empty values"),
        pytest.param(b'{"a":[' + b"{}," * (5 * MEGABYTE) + b"{}]}", JSON, id="empty objects"),
        pytest.param(b'{"resourceSpans":[' + b"{}," * 600_000 + b"{}]}", JSON, id="empty json resources"),
    ],
)
def test_small_bytes_become_neither_large_memory_nor_long_work(body: bytes, media: str) -> None:
    measured = subprocess.run(
        [sys.executable, "-c", MEASURED, media], input=body, capture_output=True, check=True, cwd=ROOT
    )
    runs, kilobytes, seconds = measured.stdout.split()
    assert int(runs) == 0
    assert int(kilobytes) < 200 * 1024
    assert float(seconds) < END_S
