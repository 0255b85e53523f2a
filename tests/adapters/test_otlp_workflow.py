"""A resource names the workflow that its program's runs are of: in both encodings, and strictly."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans

from branches.ports import Earlier, SourceFile
from debugger.adapters.runtimes.otlp import OtlpImporter
from tests.adapters.otlp_requests import JSON, PROTOBUF, Sent, agent, as_object, as_protobuf, tool
from tests.adapters.places import KEY, MARKER

KEYED = "branchgate.workflow"
FIELD = f"resource.{KEYED}"
type Named = Sequence[tuple[str, Any]]
"""Attributes of a resource: keys and AnyValues in their JSON form."""


def text(value: str) -> dict[str, Any]:
    return {"stringValue": value}


def in_json(*parts: tuple[Named, Sequence[Sent]]) -> SourceFile:
    resources = []
    for named, spans in parts:
        (resource,) = as_object(spans)["resourceSpans"]
        attributes = [{"key": key, "value": value} for key, value in named]
        resources.append({**resource, "resource": {"attributes": attributes}})
    return SourceFile("a", json.dumps({"resourceSpans": resources}).encode(), {"content-type": JSON})


def in_protobuf(*parts: tuple[Named, Sequence[Sent]]) -> SourceFile:
    request = ExportTraceServiceRequest()
    for named, spans in parts:
        (resource,) = ExportTraceServiceRequest.FromString(as_protobuf(spans)).resource_spans
        for key, value in named:
            into = resource.resource.attributes.add(key=key).value
            if "stringValue" in value:
                into.string_value = value["stringValue"]
            else:
                into.int_value = int(value["intValue"])
        request.resource_spans.append(resource)
    return SourceFile("a", request.SerializeToString(), {"content-type": PROTOBUF})


@pytest.fixture(params=[in_json, in_protobuf])
def written(request: Any) -> Callable[..., SourceFile]:
    """Return what writes a request of resources, each with its attributes and spans."""
    found: Callable[..., SourceFile] = request.param
    return found


LOOP = [agent(1), tool(2, 1)]
OTHER = [agent(3, trace=2)]


def test_the_runs_of_a_resource_are_of_the_workflow_that_it_names(written: Callable[..., SourceFile]) -> None:
    named = [("service.name", text("desk")), (KEYED, text("news-desk"))]
    read = OtlpImporter().read([written((named, LOOP), ([], OTHER))], KEY)
    assert [run.workflow for run in read.runs] == ["news-desk", None]
    assert read.refused == ()


def test_what_a_span_says_of_its_workflow_is_not_read(written: Callable[..., SourceFile]) -> None:
    spans = [agent(1, attributes={KEYED: "news-desk"})]
    (run,) = OtlpImporter().read([written(([], spans))], KEY).runs
    assert run.workflow is None


def test_a_resource_that_comes_after_its_spans_counts_as_well() -> None:
    (spans,) = ExportTraceServiceRequest.FromString(as_protobuf(LOOP)).resource_spans
    resource = Resource()
    resource.attributes.add(key=KEYED).value.string_value = "news-desk"
    raw = spans.SerializeToString() + ResourceSpans(resource=resource).SerializeToString()
    body = b"\x0a" + len(raw).to_bytes(1) if len(raw) < 128 else b"\x0a" + _varint(len(raw))
    (run,) = OtlpImporter().read([SourceFile("a", body + raw, {"content-type": PROTOBUF})], KEY).runs
    assert run.workflow == "news-desk"


def _varint(number: int) -> bytes:
    return bytes([number & 0x7F | 0x80, number >> 7])


def test_spans_of_a_workflow_that_is_not_published_are_refused_and_the_others_are_taken(
    written: Callable[..., SourceFile],
) -> None:
    asked: list[str] = []

    def is_published(name: str) -> bool:
        asked.append(name)
        return name == "news-desk"

    file = written(([(KEYED, text(MARKER))], LOOP), ([(KEYED, text("news-desk"))], OTHER))
    importer = OtlpImporter().knowing(is_published)
    assert set(importer.pieces_of(file)) == {f"{2:032x}"}  # nothing of the others waits for the rest
    read = importer.read_beside(file, Earlier(), KEY)
    assert [run.workflow for run in read.runs] == ["news-desk"]
    assert {(each.where, each.field, each.rule) for each in read.refused} == {
        ("a:1", FIELD, "not_published"),
        ("a:2", FIELD, "not_published"),
    }
    assert sorted(asked) == sorted([MARKER, "news-desk"] * 2)


@pytest.mark.parametrize(
    ("named", "rule"),
    [
        ([(KEYED, {"intValue": "7"})], "type"),
        ([(KEYED, text("a")), (KEYED, text("a"))], "duplicate_key"),
        ([(KEYED, text(""))], "length"),
        ([(KEYED, text(MARKER * 40))], "length"),
        ([(KEYED, text(MARKER * 400))], "length"),
    ],
    ids=["number", "twice", "empty", "long", "huge"],
)
def test_what_is_no_name_refuses_the_spans_of_its_resource_only(
    written: Callable[..., SourceFile], named: Named, rule: str
) -> None:
    read = OtlpImporter().read([written((named, LOOP), ([], OTHER))], KEY)
    assert len(read.runs) == 1
    assert [(each.where, each.field, each.rule) for each in read.refused] == [
        ("a:1", FIELD, rule),
        ("a:2", FIELD, rule),
    ]
    assert MARKER not in repr(read)


def test_the_workflow_is_kept_with_the_pieces_of_a_trace(written: Callable[..., SourceFile]) -> None:
    importer = OtlpImporter()
    pieces = importer.pieces_of(written(([(KEYED, text("news-desk"))], LOOP)))
    (run,) = importer.read_beside(written(), Earlier(tuple(pieces.values())), KEY).runs
    assert run.workflow == "news-desk"


def test_resources_with_many_attributes_of_others_cost_nothing() -> None:
    many = [(f"k8s.label.{number}", text("x")) for number in range(60)]
    parts = [(many, [agent(number, trace=number)]) for number in range(1, 1501)]
    read = OtlpImporter().read([in_protobuf(*parts)], KEY)
    assert (len(read.runs), read.refused) == (1500, ())
