"""OTLP requests for tests: the same spans as protobuf and as JSON, and what every receipt must pass."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from branches.evidence.canonical import canonical_bytes
from branches.evidence.ids import derive_id
from branches.evidence.names import cover_names
from branches.evidence.schema import MAX_BODY_BYTES, OUTSIDE_KINDS, check_declared, check_sent
from branches.ports import SourceFile, SourceRead, SourceReceipt
from debugger.adapters.runtimes.otlp import OtlpImporter
from tests.adapters.places import KEY, MARKER

CAPTURED = Path(__file__).parent / "data" / "otlp"
PROTOBUF = "application/x-protobuf"
JSON = "application/json"
RUN = "run_" + "a" * 24
SECOND = 1_000_000_000
OK, ERROR = 1, 2
AGENTS_SDK = "openinference.instrumentation.openai_agents"
START = 1_796_037_364 * SECOND

type Value = str | int | bool | Sequence[str]


@dataclass(frozen=True)
class Sent:
    """A span as a program sends it; ids as small numbers, times in seconds after START."""

    span: int
    parent: int = 0
    attributes: Mapping[str, Value] = field(default_factory=dict)
    name: str = "a span"
    start: float = 0
    end: float | None = 1
    status: int = 0
    trace: int = 1
    exceptions: Sequence[str] = ()
    events: Sequence[tuple[str, Mapping[str, Value]]] = ()
    links: Sequence[tuple[int, int, str]] = ()
    """Trace, span and kind."""
    trace_state: str = ""
    flags: int = 0
    dropped: tuple[int, int, int] = (0, 0, 0)
    """How many attributes, events and links are not there."""
    dropped_inside: int = 0
    """How many attributes of each of its events and links are not there."""

    @property
    def times(self) -> tuple[int, int]:
        end = 0 if self.end is None else START + int(self.end * SECOND)
        return START + int(self.start * SECOND), end

    def all_events(self) -> list[tuple[str, Mapping[str, Value]]]:
        raised: list[tuple[str, Mapping[str, Value]]] = [
            ("exception", {"exception.type": each, "exception.message": MARKER}) for each in self.exceptions
        ]
        return raised + list(self.events)


def agent(span: int, parent: int = 0, name: str = "billing", **rest: Any) -> Sent:
    return _genai("invoke_agent", {"gen_ai.agent.name": name}, span, parent, rest)


def workflow(span: int, parent: int = 0, **rest: Any) -> Sent:
    return _genai("invoke_workflow", {"gen_ai.workflow.name": "support"}, span, parent, rest)


def tool(span: int, parent: int = 0, name: str = "refund", **rest: Any) -> Sent:
    return _genai("execute_tool", {"gen_ai.tool.name": name}, span, parent, rest)


def chat(span: int, parent: int = 0, **rest: Any) -> Sent:
    return _genai("chat", {"gen_ai.request.model": "gpt-fake"}, span, parent, rest)


def _genai(operation: str, own: Mapping[str, Value], span: int, parent: int, rest: dict[str, Any]) -> Sent:
    attributes = {"gen_ai.operation.name": operation, **own, **rest.pop("attributes", {})}
    return Sent(span, parent, attributes, **rest)


def inference(span: int, parent: int = 0, kind: str = "CHAIN", name: str = "a span", **rest: Any) -> Sent:
    attributes = {"openinference.span.kind": kind, **rest.pop("attributes", {})}
    return Sent(span, parent, attributes, name, **{"status": OK, **rest})


def node(span: int, parent: int, name: str, step: int, task: str = "", **rest: Any) -> Sent:
    metadata = {
        "langgraph_node": name,
        "langgraph_step": step,
        "langgraph_checkpoint_ns": f"{name}:{task or span}",
        "thread_id": "t-1",
        "content": MARKER,
    }
    attributes = {"metadata": json.dumps(metadata), **rest.pop("attributes", {})}
    return inference(span, parent, rest.pop("kind", "CHAIN"), name, attributes=attributes, **rest)


def as_protobuf(spans: Iterable[Sent], scope: str = "") -> bytes:
    request = ExportTraceServiceRequest()
    scoped = request.resource_spans.add().scope_spans.add()
    scoped.scope.name = scope
    for each in spans:
        span = scoped.spans.add()
        span.trace_id = each.trace.to_bytes(16)
        span.span_id = each.span.to_bytes(8)
        span.parent_span_id = each.parent.to_bytes(8) if each.parent else b""
        span.name = each.name
        span.start_time_unix_nano, span.end_time_unix_nano = each.times
        span.status.code = each.status
        span.trace_state, span.flags = each.trace_state, each.flags
        span.dropped_attributes_count, span.dropped_events_count, span.dropped_links_count = each.dropped
        _fill(span.attributes, each.attributes)
        for name, attributes in each.all_events():
            event = span.events.add(name=name, dropped_attributes_count=each.dropped_inside)
            _fill(event.attributes, attributes)
        for trace, other, kind in each.links:
            link = span.links.add(trace_id=trace.to_bytes(16), span_id=other.to_bytes(8))
            link.dropped_attributes_count = each.dropped_inside
            _fill(link.attributes, {"app.link.kind": kind} if kind else {})
    written: bytes = request.SerializeToString()
    return written


def _fill(attributes: Any, found: Mapping[str, Value]) -> None:
    for key, value in found.items():
        into = attributes.add(key=key).value
        if isinstance(value, str):
            into.string_value = value
        elif isinstance(value, bool):
            into.bool_value = value
        elif isinstance(value, int):
            into.int_value = value
        else:
            into.array_value.SetInParent()
            for each in value:
                into.array_value.values.add().string_value = each


def as_object(spans: Iterable[Sent], scope: str = "") -> dict[str, Any]:
    written = [_object(each) for each in spans]
    return {"resourceSpans": [{"scopeSpans": [{"scope": {"name": scope}, "spans": written}]}]}


def as_json(spans: Iterable[Sent], scope: str = "") -> bytes:
    return json.dumps(as_object(spans, scope)).encode()


def _object(each: Sent) -> dict[str, Any]:
    start, end = each.times
    inside = {"droppedAttributesCount": each.dropped_inside}
    attributes, events, links = each.dropped
    return {
        "traceState": each.trace_state,
        "flags": each.flags,
        "droppedAttributesCount": attributes,
        "droppedEventsCount": events,
        "droppedLinksCount": links,
        "traceId": f"{each.trace:032x}",
        "spanId": f"{each.span:016x}",
        "parentSpanId": f"{each.parent:016x}" if each.parent else "",
        "name": each.name,
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(end),
        "status": {"code": each.status},
        "attributes": _pairs(each.attributes),
        "events": [
            {"name": name, "attributes": _pairs(found), **inside} for name, found in each.all_events()
        ],
        "links": [
            {
                "traceId": f"{trace:032x}",
                "spanId": f"{span:016x}",
                "attributes": _pairs({"app.link.kind": kind} if kind else {}),
                **inside,
            }
            for trace, span, kind in each.links
        ],
    }


def _pairs(found: Mapping[str, Value]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in found.items()]


def _value(value: Value) -> dict[str, Any]:
    if isinstance(value, str):
        return {"stringValue": value}
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    return {"arrayValue": {"values": [{"stringValue": each} for each in value]}}


def request(content: bytes, media: str = PROTOBUF, encoding: str = "", label: str = "request") -> SourceFile:
    return SourceFile(label, content, {"content-type": media, "content-encoding": encoding})


def captured(name: str) -> SourceFile:
    headers = json.loads((CAPTURED / f"{name}.headers.json").read_text())
    texts = {key: value for key, value in headers.items() if isinstance(value, str)}
    return SourceFile(name, (CAPTURED / name).read_bytes(), texts)


def read(*files: SourceFile, **limits: Any) -> SourceRead:
    found = OtlpImporter(**limits).read(files, KEY)
    check(found)
    return found


def read_spans(*spans: Sent, scope: str = "") -> SourceRead:
    """Read the same spans both ways; they must say the same."""
    found = read(request(as_protobuf(spans, scope)))
    assert read(request(as_json(spans, scope), JSON)) == found
    return found


def receipts(found: SourceRead, kind: str) -> list[SourceReceipt]:
    return [each for run in found.runs for each in run.receipts if each.kind == kind]


def bodies(found: SourceRead, kind: str) -> list[Mapping[str, Any]]:
    return [each.body for each in receipts(found, kind)]


def edges(found: SourceRead) -> list[tuple[Any, ...]]:
    return [
        tuple(body[each] for each in ("from", "to", "kind", "status"))
        for body in bodies(found, "interaction")
    ]


def stop(*spans: Sent, scope: str = "") -> Any:
    """Return the one stop of these spans."""
    (found,) = bodies(read_spans(*spans, scope=scope), "stopped")
    return found


def cause(*spans: Sent, scope: str = "") -> tuple[str, str]:
    found = stop(*spans, scope=scope)
    return found["stop_cause"], found["loop"]


def check(found: SourceRead) -> None:
    """Hold every receipt to the real schemas, once its names are covered as the import covers them."""
    for run in found.runs:
        places = [(each.kind, each.place) for each in run.receipts]
        assert len(set(places)) == len(places)
        for number, receipt in enumerate(run.receipts, 1):
            sent = cover_names(_sent(receipt, number), {}, KEY)
            check_sent(sent, kinds=OUTSIDE_KINDS)
            check_declared(sent, {})
            assert len(canonical_bytes(sent["body"])) <= MAX_BODY_BYTES


def _sent(receipt: SourceReceipt, number: int) -> dict[str, Any]:
    machine = {"type": "machine", "id": "ws_" + "a" * 24}
    return {
        "v": 1,
        "event_id": derive_id("evt", RUN, receipt.kind, receipt.place),
        "run": RUN,
        "kind": receipt.kind,
        "at": receipt.at,
        "actor": machine if receipt.agent is None else {"type": "agent", "name": receipt.agent},
        "writer_seq": number,
        "body": dict(receipt.body),
    }
