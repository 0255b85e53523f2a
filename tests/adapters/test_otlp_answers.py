"""What is answered to an export: nothing where all was taken, else how many were not and by which rules."""

import json

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from branches.ports import SourceRead, SourceRefusal
from debugger.adapters.runtimes.otlp_answers import PartialSuccess, partial
from tests.adapters.otlp_requests import JSON, agent, as_json, as_protobuf, read, request, tool
from tests.adapters.places import MARKER


def refused(*rules: tuple[str, str]) -> SourceRead:
    return SourceRead((), tuple(SourceRefusal("request:1", field, rule) for field, rule in rules))


def test_where_all_was_taken_the_answer_is_empty() -> None:
    answer = partial(read(request(as_protobuf([agent(1)]))))
    assert answer == PartialSuccess(0, "")
    assert not ExportTraceServiceResponse.FromString(answer.protobuf()).HasField("partial_success")
    assert json.loads(answer.json()) == {}


def test_both_forms_say_how_many_spans_were_refused_and_by_which_rules() -> None:
    body = as_json([agent(1), tool(2, 1), tool(3, 1), agent(4)])
    body = body.replace(f"{2:016x}".encode(), MARKER.encode(), 1).replace(f"{3:016x}".encode(), b"", 1)
    body = body.replace(f"{4:016x}".encode(), f"{0:016x}".encode(), 1)
    answer = partial(read(request(body, JSON)))
    assert answer == PartialSuccess(3, "span_id: length (2), span_id: zero (1)")
    told = ExportTraceServiceResponse.FromString(answer.protobuf()).partial_success
    assert (told.rejected_spans, told.error_message) == (3, answer.message)
    assert json.loads(answer.json()) == {
        "partialSuccess": {"rejectedSpans": "3", "errorMessage": answer.message}
    }
    assert MARKER.encode() not in answer.protobuf() + answer.json()


def test_the_message_stays_short_however_many_rules_there_are() -> None:
    answer = partial(refused(*((f"field_{number}", "length") for number in range(50))))
    assert answer.rejected_spans == 50
    assert answer.message.endswith("field_16: length (1), and others")
    assert len(answer.message) < 300
