"""What is kept of a span: identity, times, status and the attributes of a closed list, never content."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from debugger.adapters.runtimes.otlp_attributes import (
    WORKFLOW,
    Failure,
    Gathered,
    Kept,
    OtlpRefused,
    is_text,
)
from debugger.adapters.runtimes.otlp_sampling import KEPT_FLAGS, Gap, denies_sampling

MAX_TIME: Final = 2**63 - 1
TRACE_BYTES: Final = 16
SPAN_BYTES: Final = 8
NAMED: Final = f"resource.{WORKFLOW}"
"""The field of a refusal for the workflow that a resource names."""

OPENAI_AGENTS: Final = "openinference.instrumentation.openai_agents"
SCOPES: Final = frozenset({OPENAI_AGENTS})
"""Instrumentations whose spans are read in a way of their own."""


class Status(StrEnum):
    """A span's status, by its number on the wire."""

    UNSET = "unset"
    OK = "ok"
    ERROR = "error"


STATUSES: Final = (Status.UNSET, Status.OK, Status.ERROR)


@dataclass(frozen=True, slots=True)
class SpanLink:
    """A link to another span, and its kind where that is a word of the closed list (else ``link``)."""

    trace: str
    span: str
    kind: str


@dataclass(frozen=True, slots=True)
class Span:
    """One span; ids in hex, times in nanoseconds since 1970, ``end`` 0 where it has not ended."""

    trace: str
    span: str
    parent: str | None
    scope: str
    """The instrumentation's name where its spans are read in a way of their own, else empty."""
    name: str = field(repr=False)
    start: int
    end: int
    status: Status
    attributes: Mapping[str, Kept] = field(repr=False)
    present: frozenset[str]
    failures: frozenset[Failure]
    links: tuple[SpanLink, ...] = field(repr=False)
    gaps: frozenset[Gap]
    """What it says itself is not there."""
    flags: int
    """The trace flags of the W3C, and whether its parent is of another program; 0 where not said."""

    def text(self, *keys: str) -> str | None:
        """Return the first of these attributes that is there."""
        for key in keys:
            value = self.attributes.get(key)
            if type(value) is str:
                return value
        return None

    @property
    def waits(self) -> bool:
        """Whether it stopped for a person; an error beside the interrupt is an error."""
        if Failure.INTERRUPT not in self.failures:
            return False
        return self.status is not Status.ERROR or len(self.failures) == 1

    @property
    def failed(self) -> bool:
        """Whether it says that it failed; an interrupt is no failure, whatever the status."""
        if self.waits:
            return False
        return self.status is Status.ERROR or (self.status is Status.UNSET and "error.type" in self.present)


def made_span(
    *,
    ids: tuple[bytes, bytes, bytes],
    scope: str,
    name: str,
    times: tuple[int, int],
    status: object,
    found: Gathered,
    links: tuple[SpanLink, ...],
    flags: int,
) -> Span:
    """Return the span that these parts make; ids as bytes. Raises OtlpRefused."""
    trace, span, parent = ids
    start, end = times
    if not 0 < start <= MAX_TIME:
        raise OtlpRefused("start_time_unix_nano", "range")
    if end > MAX_TIME:
        raise OtlpRefused("end_time_unix_nano", "range")
    if 0 < end < start:
        raise OtlpRefused("end_time_unix_nano", "before_start")
    if type(status) is not int or not 0 <= status < len(STATUSES):
        raise OtlpRefused("status.code", "enum")
    if parent == span and any(parent):
        raise OtlpRefused("parent_span_id", "self")
    if denies_sampling(flags):
        found.gaps.add(Gap.SAMPLED)
    return Span(
        trace=_id(trace, TRACE_BYTES, "trace_id"),
        span=_id(span, SPAN_BYTES, "span_id"),
        # Some senders write a parent that is not there as zeros.
        parent=_id(parent, SPAN_BYTES, "parent_span_id") if any(parent) else None,
        scope=scope if scope in SCOPES else "",
        name=name if is_text(name) else "",
        start=start,
        end=end,
        status=STATUSES[status],
        attributes=found.kept(),
        present=frozenset(found.present),
        failures=frozenset(found.failures),
        links=links,
        gaps=frozenset(found.gaps),
        flags=flags & KEPT_FLAGS,
    )


def of_workflow(span: Span | OtlpRefused, named: Sequence[object]) -> Span | OtlpRefused:
    """Return a span with the workflow that its resource names, or what is wrong with that name.

    `named`: the values of all the resource's attributes of that key; a name is one text.
    """
    if isinstance(span, OtlpRefused) or not named:
        return span
    if len(named) > 1:
        return OtlpRefused(NAMED, "duplicate_key")
    (name,) = named
    if type(name) is not str:
        return OtlpRefused(NAMED, "type")
    if not is_text(name):
        return OtlpRefused(NAMED, "length")
    return replace(span, attributes={**span.attributes, WORKFLOW: name})


def made_link(ids: tuple[bytes, bytes], kind: str) -> SpanLink:
    """Return a link; ids as bytes. Raises OtlpRefused."""
    trace, span = ids
    return SpanLink(_id(trace, TRACE_BYTES, "links.trace_id"), _id(span, SPAN_BYTES, "links.span_id"), kind)


def _id(raw: bytes, size: int, field_name: str) -> str:
    if len(raw) != size:
        raise OtlpRefused(field_name, "length")
    if not any(raw):
        raise OtlpRefused(field_name, "zero")
    return raw.hex()
