"""Spans as they are kept until the rest of their trace has come: what is read of them, and nothing else."""

import json
from collections.abc import Iterable, Iterator

from debugger.adapters.runtimes.otlp_attributes import Failure
from debugger.adapters.runtimes.otlp_sampling import Gap
from debugger.adapters.runtimes.otlp_spans import Span, SpanLink, Status


def written(spans: Iterable[Span]) -> bytes:
    """Return spans as bytes; equal spans are equal bytes."""
    rows = [
        [
            *(each.trace, each.span, each.parent, each.scope, each.name, each.start, each.end, each.status),
            dict(each.attributes),
            *(sorted(each.present), sorted(each.failures)),
            [[link.trace, link.span, link.kind] for link in each.links],
            *(sorted(each.gaps), each.flags),
        ]
        for each in spans
    ]
    return json.dumps(rows, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode()


def read(content: bytes) -> Iterator[Span]:
    """Yield the spans that `written` wrote."""
    for row in json.loads(content):
        trace, span, parent, scope, name, start, end, status = row[:8]
        attributes, present, failures, links, gaps, flags = row[8:]
        yield Span(
            trace=trace,
            span=span,
            parent=parent,
            scope=scope,
            name=name,
            start=start,
            end=end,
            status=Status(status),
            attributes={
                key: tuple(value) if type(value) is list else value for key, value in attributes.items()
            },
            present=frozenset(present),
            failures=frozenset(map(Failure, failures)),
            links=tuple(SpanLink(*link) for link in links),
            gaps=frozenset(map(Gap, gaps)),
            flags=flags,
        )
