"""Imports OpenTelemetry traces: what agents, tools and model calls said of themselves while they ran."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from branches.evidence.keys import HmacKey
from branches.ports import Earlier, SourceFile, SourceRead, SourceRefusal, SourceUnreadable
from debugger.adapters.runtimes.otlp_answers import partial
from debugger.adapters.runtimes.otlp_attributes import WORKFLOW, OtlpRefused
from debugger.adapters.runtimes.otlp_bodies import LIMITS, Body, Limits, SpanRefusal, decoded, guessed
from debugger.adapters.runtimes.otlp_kept import read as kept
from debugger.adapters.runtimes.otlp_kept import written
from debugger.adapters.runtimes.otlp_receipts import Receipts
from debugger.adapters.runtimes.otlp_sampling import Gap
from debugger.adapters.runtimes.otlp_spans import NAMED, Span, Status
from debugger.adapters.runtimes.otlp_tree import Forest, SpanKey

type Found = tuple[str, Span]
"""Where a span was (the file's label and the span's number) and the span."""

# Of copies that differ the least good is taken: what is not known to be so must not look good.
_LEAST_GOOD: Final[Mapping[Status, int]] = {Status.ERROR: 0, Status.UNSET: 1, Status.OK: 2}


@dataclass(frozen=True, slots=True)
class OtlpImporter:
    """Reads OTLP/HTTP request bodies; what it says of them does not depend on their order or division."""

    limits: Limits = LIMITS
    versions: tuple[str, ...] = ("1.45.2",)
    is_published: Callable[[str], bool] | None = None
    """Which workflows a resource may name; without it whoever takes the runs in looks."""

    def knowing(self, is_published: Callable[[str], bool]) -> "OtlpImporter":
        """Return the importer that refuses spans whose resource names another workflow."""
        return replace(self, is_published=is_published)

    def read(self, files: Sequence[SourceFile], key: HmacKey) -> SourceRead:
        """Return the runs in these requests; a body or span that cannot be taken is refused by itself."""
        found: list[Found] = []
        refused: list[SourceRefusal] = []
        for file in files:
            try:
                body = self._body(file)
            except OtlpRefused as whole:
                refused.append(SourceRefusal(file.label, whole.field, whole.rule))
                continue
            found += [(f"{file.label}:{number}", span) for number, span in body.spans]
            refused += [
                SourceRefusal(f"{file.label}:{each.number}", each.field, each.rule) for each in body.refused
            ]
        return _read(found, refused, key)

    def pieces_of(self, file: SourceFile) -> Mapping[str, bytes]:
        """Return the spans of a request by their trace, as they are kept. Raises SourceUnreadable."""
        spans: dict[str, list[Span]] = defaultdict(list)
        try:
            for _, span in self._body(file).spans:
                spans[span.trace].append(span)
        except OtlpRefused as refused:
            raise SourceUnreadable(refused.field, refused.rule) from None
        return {trace: written(found) for trace, found in spans.items()}

    def read_beside(self, file: SourceFile, earlier: Earlier, key: HmacKey) -> SourceRead:
        """Return the runs in a request and in what was kept of its traces; only the request is refused."""
        body = self._body(file)
        found = [(f"{file.label}:{number}", span) for number, span in body.spans]
        refused = [
            SourceRefusal(f"{file.label}:{each.number}", each.field, each.rule) for each in body.refused
        ]
        found += [("earlier", span) for piece in earlier.pieces for span in kept(piece)]
        if earlier.cut:
            found = [
                (where, replace(span, gaps=span.gaps | {Gap.SPANS}) if span.trace in earlier.cut else span)
                for where, span in found
            ]
        return _read(found, refused, key)

    def answer(self, file: SourceFile, refused: Sequence[SourceRefusal]) -> tuple[str, bytes]:
        """Return a full or partial success, in the encoding of the request."""
        told = partial(SourceRead((), tuple(refused)))
        media = file.headers.get("content-type", "").partition(";")[0].strip().lower()
        if media == "application/json":
            return media, told.json()
        return "application/x-protobuf", told.protobuf()

    def _body(self, file: SourceFile) -> Body:
        """Decode a request by its headers; a file that came without any, by how it begins."""
        if file.headers:
            headers = file.headers
            named = headers.get("content-type", ""), headers.get("content-encoding", "")
        else:
            named = guessed(file.content)
        return self._known(decoded(file.content, *named, self.limits))

    def _known(self, body: Body) -> Body:
        """Return a body without the spans of workflows that are not published; those are refused."""
        named = {name for _, span in body.spans if (name := span.text(WORKFLOW)) is not None}
        if self.is_published is None or not named:
            return body
        strange = {name for name in named if not self.is_published(name)}
        refused = [
            SpanRefusal(number, NAMED, "not_published")
            for number, span in body.spans
            if span.text(WORKFLOW) in strange
        ]
        out = {each.number for each in refused}
        kept = tuple(each for each in body.spans if each[0] not in out)
        return Body(kept, (*body.refused, *refused))


def _read(found: Iterable[Found], refused: Iterable[SourceRefusal], key: HmacKey) -> SourceRead:
    spans, doubled = distinct(found)
    return SourceRead(Receipts(key).runs(Forest(spans)), (*refused, *doubled))


def distinct(found: Iterable[Found]) -> tuple[list[Span], list[SourceRefusal]]:
    """Return each span once; one that was sent with other content as well is refused for each of those."""
    first: dict[SpanKey, Found] = {}
    copies: dict[SpanKey, list[Found]] = {}
    for each in found:
        key = each[1].trace, each[1].span
        before = first.setdefault(key, each)
        if before is not each:
            copies.setdefault(key, [before]).append(each)
    kept = {key: span for key, (_, span) in first.items()}
    refused: list[SourceRefusal] = []
    for key, same in copies.items():
        kept[key] = chosen = min((span for _, span in same), key=_order)
        seen = {_order(chosen)}
        for where, span in same:
            if (order := _order(span)) not in seen:
                seen.add(order)
                refused.append(SourceRefusal(where, "span_id", "conflict"))
    return list(kept.values()), refused


def _order(span: Span) -> tuple[int, int, int, str]:
    parts = (
        span.parent,
        span.scope,
        span.name,
        sorted(span.attributes.items(), key=repr),
        sorted(span.present),
        sorted(span.failures),
        span.links,
        sorted(span.gaps),
        span.flags,
    )
    return _LEAST_GOOD[span.status], span.start, span.end, repr(parts)
