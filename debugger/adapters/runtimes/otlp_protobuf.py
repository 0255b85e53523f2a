"""Spans out of an OTLP protobuf body, one at a time: never more than one is unpacked."""

from collections.abc import Iterator
from typing import Any, Final

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span as Message

from debugger.adapters.runtimes.otlp_attributes import (
    ALLOWED,
    EVENTS,
    LINK_KIND,
    MAX_MEMBERS,
    WORKFLOW,
    Form,
    Gathered,
    OtlpRefused,
)
from debugger.adapters.runtimes.otlp_spans import Span, SpanLink, made_link, made_span, of_workflow
from debugger.adapters.runtimes.otlp_wire import BYTES, Budget, fields, key_of, lean_span

# The numbers of the fields that lead to a span.
_RESOURCE_SPANS: Final = 1
_RESOURCE: Final = 1
_RESOURCE_ATTRIBUTES: Final = 1
_SCOPE_SPANS: Final = 2
_SCOPE: Final = 1
_SPANS: Final = 2
_SCOPE_NAME: Final = 1
_MAX_SCOPE_NAME: Final = 256
_MAX_VALUES: Final = 16
_MAX_PAIR: Final = 4096
_NAMES_WORKFLOW: Final = WORKFLOW.encode()

type _Extent = tuple[int, int]


def spans_of(raw: bytes, most: int) -> Iterator[Span | OtlpRefused]:
    """Yield every span of a request, or what is wrong with it. Raises OtlpRefused for the body as a whole."""
    count, budget = 0, Budget(most)
    for number, wire_type, _, value, after in fields(raw, 0, len(raw), budget):
        if number != _RESOURCE_SPANS or wire_type != BYTES:
            continue
        named = _workflows(raw, value, after, budget)
        for inner, inner_type, _, start, end in fields(raw, value, after, budget):
            if inner != _SCOPE_SPANS or inner_type != BYTES:
                continue
            scope, extents = _of_scope(raw, (start, end), most - count, budget)
            count += len(extents)
            for extent in extents:
                yield of_workflow(_read(lean_span(raw, *extent, budget), scope), named)


def _workflows(raw: bytes, start: int, end: int, budget: Budget) -> list[object]:
    """Return every workflow that the resource of these spans names; it may come after them."""
    if raw.find(_NAMES_WORKFLOW, start, end) < 0:
        return []
    found: list[object] = []
    for number, wire_type, _, value, after in fields(raw, start, end, budget):
        if number != _RESOURCE or wire_type != BYTES or raw.find(_NAMES_WORKFLOW, value, after) < 0:
            continue
        for inner, inner_type, _, begun, ended in fields(raw, value, after, budget):
            if inner == _RESOURCE_ATTRIBUTES and inner_type == BYTES:
                found += _named(raw, begun, ended, budget)
    return found


def _named(raw: bytes, start: int, end: int, budget: Budget) -> list[object]:
    """Return what an attribute holds where it is ours: a text, or None for anything else."""
    if key_of(raw, start, end, budget)[0] != WORKFLOW:
        return []
    if end - start > _MAX_PAIR:
        return [""]  # a text without the length of a name
    try:
        pair: Any = KeyValue.FromString(raw[start:end])
    except DecodeError:
        raise OtlpRefused("body", "protobuf") from None
    found = _value(pair.value)
    return [found if type(found) is str else None]


def _of_scope(raw: bytes, extent: _Extent, most: int, budget: Budget) -> tuple[str, list[_Extent]]:
    scope, extents = "", []
    for number, wire_type, _, value, after in fields(raw, *extent, budget):
        if wire_type != BYTES:
            continue
        if number == _SPANS:
            extents.append((value, after))
            if len(extents) > most:
                raise OtlpRefused("spans", "max_items")
        elif number == _SCOPE:
            scope = _scope_name(raw, value, after, budget)
    return scope, extents


def _scope_name(raw: bytes, start: int, end: int, budget: Budget) -> str:
    name = ""
    for number, wire_type, _, value, after in fields(raw, start, end, budget):
        if number == _SCOPE_NAME and wire_type == BYTES and after - value <= _MAX_SCOPE_NAME:
            name = raw[value:after].decode(errors="replace")
    return name


def _read(raw: bytes, scope: str) -> Span | OtlpRefused:
    try:
        message = Message.FromString(raw)
    except DecodeError:
        raise OtlpRefused("body", "protobuf") from None
    try:
        return _span(message, scope)
    except OtlpRefused as refused:
        return OtlpRefused(refused.field, refused.rule)  # without the frames that hold the span


def _span(message: Any, scope: str) -> Span:
    found = Gathered()
    if len(message.attributes) > MAX_MEMBERS:
        raise OtlpRefused("attributes", "max_items")
    for pair in message.attributes:
        form = ALLOWED.get(pair.key)
        if form is not None:
            found.attribute(pair.key, form, None if form is Form.PRESENT else _value(pair.value))
    if message.events:
        _events(found, message.events)
    links = _links(found, message.links) if message.links else ()
    found.missing(
        message.trace_state,
        message.dropped_attributes_count,
        message.dropped_events_count,
        message.dropped_links_count,
    )
    return made_span(
        ids=(message.trace_id, message.span_id, message.parent_span_id),
        scope=scope,
        name=message.name,
        times=(message.start_time_unix_nano, message.end_time_unix_nano),
        status=message.status.code if message.HasField("status") else 0,
        found=found,
        links=links,
        flags=message.flags,
    )


def _value(value: Any) -> object:
    which = value.WhichOneof("value")
    if which == "string_value":
        return value.string_value
    if which == "int_value":
        return value.int_value
    if which == "array_value":
        return tuple(each.string_value for each in value.array_value.values[:_MAX_VALUES])
    return None


def _events(found: Gathered, events: Any) -> None:
    if len(events) > MAX_MEMBERS:
        raise OtlpRefused("events", "max_items")
    for event in events:
        key = EVENTS.get(event.name)
        if key is not None:
            found.event(event.name, _first(event.attributes, key), event.dropped_attributes_count)


def _links(found: Gathered, links: Any) -> tuple[SpanLink, ...]:
    if len(links) > MAX_MEMBERS:
        raise OtlpRefused("links", "max_items")
    made = []
    for each in links:
        kind = found.link_kind(_first(each.attributes, LINK_KIND), each.dropped_attributes_count)
        made.append(made_link((each.trace_id, each.span_id), kind))
    return tuple(made)


def _first(attributes: Any, key: str) -> object:
    for pair in attributes:
        if pair.key == key:
            return _value(pair.value)
    return None
