"""Spans out of an OTLP JSON body: ids in hex, 64-bit numbers as texts, unknown fields ignored."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final, NoReturn

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
from debugger.adapters.runtimes.otlp_spans import (
    SCOPES,
    SPAN_BYTES,
    TRACE_BYTES,
    Span,
    SpanLink,
    made_link,
    made_span,
    of_workflow,
)

MAX_PIECES: Final = 2_000_000
"""Brackets and commas of a body: small bytes can unpack to large objects."""
SPAN_PIECES: Final = 100
MAX_NESTING: Final = 16
_MAX_DIGITS: Final = 20
_MAX_VALUES: Final = 16
_KEPT: Final = frozenset({*ALLOWED, *EVENTS.values(), LINK_KIND, WORKFLOW})
_LET_GO: Final[dict[str, Any]] = {}


def spans_of(raw: bytes, most: int) -> Iterator[Span | OtlpRefused]:
    """Yield every span of a request, or what is wrong with it. Raises OtlpRefused for the body as a whole."""
    count = 0
    for resource in _objects(_parsed(raw, most), "resourceSpans"):
        named = _workflows(resource.get("resource"))
        for scoped in _objects(resource, "scopeSpans"):
            called = _object(scoped, "scope").get("name")
            scope = called if type(called) is str and called in SCOPES else ""
            spans = _list(scoped, "spans")
            count += len(spans)
            if count > most:
                raise OtlpRefused("spans", "max_items")
            for span in spans:
                found = _read(span) if type(span) is dict else span
                if not isinstance(found, Span | OtlpRefused):
                    raise OtlpRefused("spans", "type")
                if scope and isinstance(found, Span):
                    found = replace(found, scope=scope)
                yield of_workflow(found, named)


def _workflows(resource: object) -> list[object]:
    """Return every workflow that a resource names; of what else it says nothing is looked at."""
    pairs = resource.get("attributes") if type(resource) is dict else None
    if type(pairs) is not list:
        return []
    found = [pair.get("value") for pair in pairs if type(pair) is dict and pair.get("key") == WORKFLOW]
    return [value.get("stringValue") if type(value) is dict else None for value in found]


def _parsed(raw: bytes, most: int) -> dict[str, Any]:
    if raw.count(b"{") + raw.count(b"[") + raw.count(b",") > max(MAX_PIECES, most * SPAN_PIECES):
        raise OtlpRefused("body", "max_items")
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise OtlpRefused("body", "encoding") from None
    try:
        found = json.loads(text, object_pairs_hook=_Objects(most), parse_constant=_no_number)
    except OtlpRefused:
        raise
    except RecursionError:
        raise OtlpRefused("body", "depth") from None
    except ValueError:
        raise OtlpRefused("body", "json") from None
    if type(found) is not dict:
        raise OtlpRefused("body", "type")
    return found


class _Objects:
    """Makes the objects of a body while it is parsed; a span is read, and let go, as soon as it is there."""

    __slots__ = ("_left",)

    def __init__(self, most: int) -> None:
        self._left = most

    def __call__(self, pairs: list[tuple[str, Any]]) -> object:
        """Return the object of these members, whose names must differ; a span where it has a span's."""
        if len(pairs) == 2 and pairs[0][0] == "key" and pairs[1][0] == "value":
            return _attribute(pairs)
        found = dict(pairs)
        if len(found) != len(pairs):
            raise OtlpRefused("body", "duplicate_key")
        if "spanId" in found and "startTimeUnixNano" in found:
            self._left -= 1
            if self._left < 0:
                raise OtlpRefused("spans", "max_items")
            return _read(found)
        return found


def _attribute(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an attribute, empty where it is none of the list and so never kept."""
    key, value = pairs[0][1], pairs[1][1]
    if type(value) is dict and ("arrayValue" in value or "kvlistValue" in value):
        _check_nesting(value)
    return dict(pairs) if type(key) is str and key in _KEPT else _LET_GO


def _no_number(_word: str) -> NoReturn:
    raise OtlpRefused("body", "number")


def _list(owner: dict[str, Any], name: str) -> list[Any]:
    """Return a member that is a list, empty where it is absent or null. Raises OtlpRefused."""
    found = owner.get(name)
    if found is None:
        return []
    if type(found) is not list:
        raise OtlpRefused(name, "type")
    return found


def _objects(owner: dict[str, Any], name: str) -> list[dict[str, Any]]:
    found = _list(owner, name)
    for each in found:
        if type(each) is not dict:
            raise OtlpRefused(name, "type")
    return found


def _object(owner: dict[str, Any], name: str) -> dict[str, Any]:
    found = owner.get(name)
    if found is None:
        return {}
    if type(found) is not dict:
        raise OtlpRefused(name, "type")
    return found


def _read(span: dict[str, Any]) -> Span | OtlpRefused:
    try:
        return _span(span)
    except OtlpRefused as refused:
        return OtlpRefused(refused.field, refused.rule)  # without the frames that hold the span


def _span(span: dict[str, Any]) -> Span:
    found = Gathered()
    for pair in _members(span, "attributes"):
        key = pair.get("key")
        form = ALLOWED.get(key) if type(key) is str else None
        if form is not None:
            found.attribute(str(key), form, None if form is Form.PRESENT else _value(pair.get("value")))
    for event in _members(span, "events"):
        name = event.get("name")
        key = EVENTS.get(name) if type(name) is str else None
        if key is not None:
            found.event(str(name), _first(event, key), _dropped(event, "Attributes"))
    found.missing(_trace_state(span), *(_dropped(span, part) for part in ("Attributes", "Events", "Links")))
    name = span.get("name")
    parent = span.get("parentSpanId")
    return made_span(
        ids=(
            _hex(span.get("traceId"), TRACE_BYTES, "trace_id"),
            _hex(span.get("spanId"), SPAN_BYTES, "span_id"),
            b"" if parent is None or parent == "" else _hex(parent, SPAN_BYTES, "parent_span_id"),
        ),
        scope="",
        name=name if type(name) is str else "",
        times=(
            _number(span.get("startTimeUnixNano"), "start_time_unix_nano"),
            _number(span.get("endTimeUnixNano"), "end_time_unix_nano"),
        ),
        status=_object(span, "status").get("code", 0),
        found=found,
        links=tuple(_link(found, each) for each in _members(span, "links")),
        flags=_number(span.get("flags"), "flags"),
    )


def _trace_state(span: dict[str, Any]) -> str:
    found = span.get("traceState")
    if found is not None and type(found) is not str:
        raise OtlpRefused("trace_state", "type")
    return found or ""


def _dropped(owner: dict[str, Any], part: str) -> int:
    return _number(owner.get(f"dropped{part}Count"), f"dropped_{part.lower()}_count")


def _members(owner: dict[str, Any], name: str) -> list[dict[str, Any]]:
    found = _objects(owner, name)
    if len(found) > MAX_MEMBERS:
        raise OtlpRefused(name, "max_items")
    return found


def _link(found: Gathered, link: dict[str, Any]) -> SpanLink:
    trace = _hex(link.get("traceId"), TRACE_BYTES, "links.trace_id")
    span = _hex(link.get("spanId"), SPAN_BYTES, "links.span_id")
    kind = found.link_kind(_first(link, LINK_KIND), _dropped(link, "Attributes"))
    return made_link((trace, span), kind)


def _first(owner: dict[str, Any], key: str) -> object:
    for pair in _members(owner, "attributes"):
        if pair.get("key") == key:
            return _value(pair.get("value"))
    return None


def _value(value: object) -> object:
    """Return what an AnyValue holds, where it is a text, a whole number or a list of texts."""
    if type(value) is not dict:
        return None
    if "stringValue" in value:
        return value["stringValue"]
    if "intValue" in value:
        return _number(value["intValue"], "attributes.value")
    values = _objects(_object(value, "arrayValue"), "values")[:_MAX_VALUES]
    return tuple(text for each in values if type(text := each.get("stringValue")) is str)


def _check_nesting(value: dict[str, Any]) -> None:
    level: list[Any] = [value]
    for _ in range(4 * MAX_NESTING):  # a value, its list's object, the list, and for pairs one more
        below: list[Any] = []
        for each in level:
            members = each.values() if type(each) is dict else each
            below += [member for member in members if type(member) in (dict, list)]
        if not below:
            return
        level = below
    raise OtlpRefused("attributes.value", "depth")


def _hex(text: object, size: int, field_name: str) -> bytes:
    """Return an id's bytes: hex in either case, never base64. Raises OtlpRefused."""
    if type(text) is not str:
        raise OtlpRefused(field_name, "required" if text is None else "type")
    if len(text) != 2 * size:
        raise OtlpRefused(field_name, "length")
    try:
        raw = bytes.fromhex(text)
    except ValueError:
        raise OtlpRefused(field_name, "hex") from None
    if len(raw) != size:  # white space between the digits
        raise OtlpRefused(field_name, "hex")
    return raw


def _number(value: object, field_name: str) -> int:
    """Return a 64-bit number: a text of digits, or a whole number; 0 where absent. Raises OtlpRefused."""
    if value is None:
        return 0
    if type(value) is int:
        return value
    if type(value) is not str:
        raise OtlpRefused(field_name, "type")
    digits = value.removeprefix("-")
    if not 0 < len(digits) <= _MAX_DIGITS or not digits.isascii() or not digits.isdecimal():
        raise OtlpRefused(field_name, "integer")
    return int(value)
