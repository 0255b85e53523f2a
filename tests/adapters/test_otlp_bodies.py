"""OTLP request bodies that are broken, hostile or empty: refused by field and rule."""

import gzip
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from branches.ports import SourceFile, SourceRefusal
from debugger.adapters.runtimes.otlp import OtlpImporter
from debugger.adapters.runtimes.otlp_bodies import decoded
from tests.adapters.otlp_bodies import ENCODINGS, a_request, only, refusal
from tests.adapters.otlp_requests import (
    JSON,
    PROTOBUF,
    agent,
    as_json,
    as_object,
    as_protobuf,
    captured,
    read,
    request,
    tool,
    workflow,
)
from tests.adapters.places import KEY, MARKER

ROOT = Path(__file__).parents[2]
MEGABYTE = 1024 * 1024
TOOL_ID = {"key": "tool.id", "value": {"stringValue": "t"}}


def spoiled(**members: Any) -> bytes:
    """Return a JSON request of two spans, the first with other members."""
    whole = as_object([agent(1), agent(2)])
    whole["resourceSpans"][0]["scopeSpans"][0]["spans"][0] |= members
    return json.dumps(whole).encode()


@pytest.mark.parametrize(
    ("media", "encoding", "expected"),
    [
        ("", "", ("content-type", "required")),
        ("text/plain", "", ("content-type", "enum")),
        ("application/x-protobuf-other", "", ("content-type", "enum")),
        (f"{JSON}; charset=latin-1", "", ("content-type", "charset")),
        (PROTOBUF, "br", ("content-encoding", "enum")),
        (PROTOBUF, "gzip, gzip", ("content-encoding", "enum")),
    ],
)
def test_it_refuses_a_type_or_encoding_that_it_does_not_read(
    media: str, encoding: str, expected: tuple[str, str]
) -> None:
    assert refusal(as_protobuf([agent(1)]), media, encoding) == expected


@pytest.mark.parametrize(("media", "encoding"), [(f"{JSON}; charset=UTF-8", ""), (JSON.upper(), "Identity")])
def test_it_reads_a_type_with_its_charset_and_in_other_letters(media: str, encoding: str) -> None:
    assert len(decoded(as_json([agent(1)]), media, encoding).spans) == 1


def test_a_request_with_headers_but_no_type_is_refused_and_not_guessed() -> None:
    found = read(SourceFile("request", as_protobuf([agent(1)]), {"content-encoding": ""}))
    assert found.refused == (SourceRefusal("request", "content-type", "required"),)


@pytest.mark.parametrize("name", ["manual_pb_plain_01_v1_traces.pb", "manual_json_plain_01_v1_traces.json"])
def test_it_refuses_every_truncation_of_a_body(name: str) -> None:
    file = captured(name)
    media = file.headers["content-type"]
    for length in range(1, len(file.content), 7):
        field, rule = refusal(file.content[:length], media)
        assert (field, rule in {"truncated", "json"}) == ("body", True)


def test_it_refuses_every_truncation_of_a_compressed_body() -> None:
    file = captured("manual_pb_gzip_01_v1_traces.pb.gz")
    for length in range(len(file.content)):
        assert refusal(file.content[:length], PROTOBUF, "gzip") == ("body", "truncated")


@pytest.mark.parametrize("encode_and_media", [(as_protobuf, PROTOBUF), (as_json, JSON)])
def test_it_refuses_bytes_after_the_end(encode_and_media: Any) -> None:
    encode, media = encode_and_media
    body = encode([agent(1)])
    assert refusal(gzip.compress(body) + b"\0", media, "gzip") == ("body", "trailing")
    assert refusal(gzip.compress(body) * 2, media, "gzip") == ("body", "trailing")
    assert refusal(body + b"\0", media)[0] == "body"
    assert refusal(body + MARKER.encode(), media)[0] == "body"


def test_it_refuses_what_is_no_gzip_protobuf_or_json() -> None:
    assert refusal(b"not gzip at all", PROTOBUF, "gzip") == ("body", "gzip")
    assert refusal(b"\x0b", PROTOBUF) == ("body", "wire_type")
    assert refusal(b"\x02\x00", PROTOBUF) == ("body", "field_number")
    assert refusal(b"\x0a" + b"\xff" * 11, PROTOBUF) == ("body", "varint")
    assert refusal(a_request(b"\x0a\x04abc"), PROTOBUF) == ("body", "protobuf")
    assert refusal(b"[]", JSON) == ("body", "type")
    assert refusal(b'{"resourceSpans": {}}', JSON) == ("resourceSpans", "type")
    assert refusal(b'{"resourceSpans": [1]}', JSON) == ("resourceSpans", "type")
    assert refusal(b'{"resourceSpans": [{"scopeSpans": [{"spans": [1]}]}]}', JSON) == ("spans", "type")
    assert refusal(b'{"resourceSpans": [{"scopeSpans": [{"scope": 1}]}]}', JSON) == ("scope", "type")
    assert refusal(b'{"a": NaN}', JSON) == ("body", "number")
    assert refusal(b'{"a": "\xff"}', JSON) == ("body", "encoding")
    assert refusal(b'{"a": ' + b"9" * 5000 + b"}", JSON) == ("body", "json")


def test_an_empty_request_holds_nothing() -> None:
    assert decoded(b"", PROTOBUF).spans == ()
    assert decoded(b"{}", JSON).spans == ()
    assert decoded(b'{"resourceSpans": null}', JSON).spans == ()
    assert refusal(b"", JSON) == ("body", "json")


@pytest.mark.parametrize(
    "body",
    [
        b'{"resourceSpans": [], "resourceSpans": []}',
        b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"spanId": "a", "spanId": "b"}]}]}]}',
        b'{"a": {"key": "CONTENT-MARKER-7f3a", "key": "b"}}',
        b'{"a": {"unknown": 1, "unknown": 1, "other": 2}}',
    ],
)
def test_it_refuses_one_key_twice_anywhere(body: bytes) -> None:
    assert refusal(body, JSON) == ("body", "duplicate_key")


@pytest.mark.parametrize(("encode", "media"), ENCODINGS)
def test_unknown_fields_and_attributes_are_passed_over(encode: Any, media: str) -> None:
    span = only(encode([agent(1, attributes={"gen_ai.prompt": MARKER, "else": 1.0 and 1})]), media)
    assert dict(span.attributes) == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "billing",
    }
    unknown = as_object([agent(1)])
    unknown["later"] = {"resourceSpans": [MARKER]}
    unknown["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["laterCount"] = MARKER
    assert only(json.dumps(unknown).encode(), JSON) == only(as_protobuf([agent(1)]), PROTOBUF)
    with_fields = as_protobuf([agent(1)]) + b"\xfa\x01\x02\x08\x01" + b"\x98\x06\x05"
    assert only(with_fields, PROTOBUF) == only(as_protobuf([agent(1)]), PROTOBUF)


@pytest.mark.parametrize(
    ("members", "field", "rule"),
    [
        ({"traceId": "a" * 31}, "trace_id", "length"),
        ({"traceId": "g" * 32}, "trace_id", "hex"),
        ({"traceId": " " * 32}, "trace_id", "hex"),
        ({"traceId": "0" * 32}, "trace_id", "zero"),
        ({"traceId": "AAAAAAAAAAAAAAAAAAAAAQ=="}, "trace_id", "length"),  # base64
        ({"traceId": None}, "trace_id", "required"),
        ({"traceId": 7}, "trace_id", "type"),
        ({"spanId": "AAAAAAAAAAE="}, "span_id", "length"),
        ({"spanId": ""}, "span_id", "length"),
        ({"parentSpanId": "abc"}, "parent_span_id", "length"),
        ({"parentSpanId": f"{1:016x}"}, "parent_span_id", "self"),
        ({"startTimeUnixNano": "0"}, "start_time_unix_nano", "range"),
        ({"startTimeUnixNano": None}, "start_time_unix_nano", "range"),
        ({"startTimeUnixNano": "-1"}, "start_time_unix_nano", "range"),
        ({"startTimeUnixNano": "1e18"}, "start_time_unix_nano", "integer"),
        ({"startTimeUnixNano": "٣"}, "start_time_unix_nano", "integer"),
        ({"startTimeUnixNano": "9" * 20}, "start_time_unix_nano", "range"),
        ({"startTimeUnixNano": 1.5}, "start_time_unix_nano", "type"),
        ({"startTimeUnixNano": True}, "start_time_unix_nano", "type"),
        ({"endTimeUnixNano": "1"}, "end_time_unix_nano", "before_start"),
        ({"endTimeUnixNano": str(2**64 - 1)}, "end_time_unix_nano", "range"),
        ({"status": {"code": 3}}, "status.code", "enum"),
        ({"status": {"code": "STATUS_CODE_OK"}}, "status.code", "enum"),
        ({"status": 1}, "status", "type"),
        ({"links": [{"traceId": "a", "spanId": "b"}]}, "links.trace_id", "length"),
        ({"attributes": {}}, "attributes", "type"),
        ({"events": [1]}, "events", "type"),
        ({"attributes": [{"key": "session.id", "value": {"intValue": "x"}}]}, "attributes.value", "integer"),
        ({"attributes": [{"key": "session.id", "value": {}}] * 1001}, "attributes", "max_items"),
        ({"attributes": [TOOL_ID, TOOL_ID]}, "attributes", "duplicate_key"),
        ({"events": [{"name": "x"}] * 1001}, "events", "max_items"),
        ({"links": [{}] * 1001}, "links", "max_items"),
        ({"traceState": 7}, "trace_state", "type"),
        ({"flags": "x"}, "flags", "integer"),
        ({"droppedLinksCount": MARKER}, "dropped_links_count", "integer"),
        ({"droppedEventsCount": []}, "dropped_events_count", "type"),
    ],
)  # fmt: skip
def test_a_span_that_cannot_be_taken_is_refused_and_the_next_is_not_lost(
    members: dict[str, Any], field: str, rule: str
) -> None:
    found = decoded(spoiled(**members), JSON)
    assert [(each.number, each.field, each.rule) for each in found.refused] == [(1, field, rule)]
    assert [(number, span.span) for number, span in found.spans] == [(2, f"{2:016x}")]
    assert read(request(spoiled(**members), JSON)).refused == (SourceRefusal("request:1", field, rule),)


def test_protobuf_ids_and_times_are_held_to_the_same_rules() -> None:
    def first_refusal(span: bytes) -> tuple[str, str]:
        (refused,) = decoded(a_request(span), PROTOBUF).refused
        return refused.field, refused.rule

    start, trace, own = b"\x39" + b"\1" * 8, b"\x0a\x10" + b"a" * 16, b"\x12\x08" + b"a" * 8
    assert first_refusal(start + b"\x0a\x0f" + b"a" * 15 + own) == ("trace_id", "length")
    assert first_refusal(start + trace) == ("span_id", "length")
    assert first_refusal(start + trace + b"\x12\x08" + b"\0" * 8) == ("span_id", "zero")
    assert first_refusal(start + trace + own + b"\x22\x01a") == ("parent_span_id", "length")
    assert first_refusal(trace + own) == ("start_time_unix_nano", "range")
    assert first_refusal(start + trace + own + b"\x41" + b"\1" + b"\0" * 7) == (
        "end_time_unix_nano",
        "before_start",
    )
    assert first_refusal(start + trace + own + b"\x7a\x02\x18\x07") == ("status.code", "enum")
    assert len(decoded(a_request(start + trace + own), PROTOBUF).spans) == 1


@pytest.mark.parametrize("zeros", ["", "0" * 16])
def test_a_parent_of_zeros_is_no_parent(zeros: str) -> None:
    body = json.loads(spoiled(parentSpanId=zeros))
    (_, span), _ = decoded(json.dumps(body).encode(), JSON).spans
    assert span.parent is None


def test_hex_ids_are_read_in_either_case() -> None:
    (_, span), _ = decoded(spoiled(traceId="AB" * 16), JSON).spans
    assert span.trace == "ab" * 16


def test_nothing_of_a_refused_request_is_said_or_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    found = OtlpImporter().read(
        [
            request(spoiled(traceId=MARKER), JSON),
            request(MARKER.encode(), JSON),
            request(MARKER.encode(), PROTOBUF),
            request(b"", MARKER),
            request(b"", PROTOBUF, MARKER),
            request(json.dumps({MARKER: {"a": 1}}).encode()[:-1] + b"," + b'"a":NaN}', JSON),
        ],
        KEY,
    )
    assert len(found.refused) == 6
    assert MARKER not in repr(found)
    assert caplog.records == []


def test_names_of_another_form_than_a_names_are_covered() -> None:
    spans = [workflow(1), agent(2, 1, "a name with CONTENT-MARKER-7f3a"), tool(3, 2, "é" + MARKER)]
    spans.append(agent(4, 2, "billing"))
    found = read(request(as_protobuf(spans)))
    assert MARKER not in repr(found)
    assert [each.kind for each in found.runs[0].receipts].count("effect_intended") == 1


def test_a_lone_surrogate_is_no_text() -> None:
    body = as_json([agent(1, attributes={"session.id": "SURROGATE"})]).replace(b"SURROGATE", b"\\ud800")
    assert only(body, JSON).text("session.id") is None
    assert len(read(request(body, JSON)).runs) == 1
