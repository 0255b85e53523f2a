"""Sorts what stands in files of the OpenAI Agents SDK: spans, traces, saved run states, and the rest."""

import re
from dataclasses import dataclass, field
from typing import Any, Final

from branches.evidence.keys import HmacKey
from branches.ports import SourceFile, SourceRefusal
from debugger.adapters.runtimes.openai_agents_evidence import Evidence, read_evidence
from debugger.adapters.runtimes.openai_agents_spans import KNOWN, Sort, Span, read_span
from debugger.adapters.runtimes.openai_agents_state import SavedRun, read_state
from debugger.adapters.runtimes.source_json import WHOLE, Fields, Unfit, check_bounds, parsed, parsed_text

SDK: Final = "openai-agents"
MOST_REFUSED: Final = 100
"""Of one file; that there are more is said once."""
# Before 1.0 the spans may change with every minor version.
_VERSION: Final = re.compile(r"0\.24\.[0-9]{1,4}")


@dataclass(frozen=True, slots=True)
class Boundary:
    """What was seen where the runner was called, and the tasks whose end it may be."""

    trace: str
    tasks: frozenset[str]
    begun: tuple[str, ...]
    """Ids of the calls of functions that began; the spans of some may be missing."""
    evidence: Evidence


@dataclass(slots=True)
class Source:
    """Everything that was found in one file, and later in all."""

    spans: list[Span] = field(default_factory=list)
    traces: dict[str, str | None] = field(default_factory=dict)
    """Trace → version of the SDK, for every trace whose own record is here."""
    broken: set[str] = field(default_factory=set)
    """Traces of which something had to be refused."""
    boundaries: list[Boundary] = field(default_factory=list)
    states: list[SavedRun] = field(default_factory=list)
    refused: list[SourceRefusal] = field(default_factory=list)
    labels: dict[str, str] = field(default_factory=dict)
    """Trace → the label of a file that it stands in."""

    def add(self, other: "Source") -> None:
        """Take what another file held."""
        self.spans += other.spans
        for trace, version in other.traces.items():
            self.traces[trace] = max(filter(None, (version, self.traces.get(trace))), default=None)
        self.broken |= other.broken
        self.boundaries += other.boundaries
        self.states += other.states
        self.refused += other.refused
        for trace, label in other.labels.items():
            self.labels[trace] = min(label, self.labels.get(trace, label))


def read_source(file: SourceFile, key: HmacKey) -> Source:
    """Return what is in a file; what cannot be taken is among the refused."""
    found = _Reading(file.label, key)
    try:
        whole = parsed(file.content)
    except Unfit as error:
        lines = _lines(file.content) if error.rule == "json" else []
        if not lines:
            found.refuse(file.label, error)
        for number, line in lines:
            found.line(f"{file.label}:{number}", line)
    else:
        found.document(file.label, whole)
    return found.finished()


def _lines(content: bytes) -> list[tuple[int, str]]:
    """Return the lines of a file with one document a line; none where the first line is not one."""
    lines = [(number, text) for number, text in enumerate(content.decode().split("\n"), 1) if text.strip()]
    try:
        return lines if isinstance(parsed_text(lines[0][1]), dict) else []
    except (Unfit, IndexError):
        return []


class _Reading:
    """Walks one file."""

    def __init__(self, label: str, key: HmacKey) -> None:
        self._label = label
        self._key = key
        self._found = Source()
        self._begun: list[str] = []
        self._evidence: Evidence | None = None
        self._version: str | None = None
        self._is_broken = False

    def finished(self) -> Source:
        """Return everything, with what stood beside the spans put to the one trace that it can be of.

        That is the one that begins or ends here, for late spans of others may stand among its own. A run that
        was resumed does not begin again: then all spans must be of one trace.
        """
        found = self._found
        states = {state.trace or f"{SDK}\0{state.identity}" for state in found.states}
        own = {span.trace for span in found.spans} | set(found.traces)
        found.labels = dict.fromkeys(own | states, self._label)
        found.traces = dict.fromkeys(found.traces, self._version)
        if self._is_broken:
            found.broken |= own
        meant = set(found.traces) or own
        if self._evidence is not None and len(meant) == 1:
            (trace,) = meant
            tasks = frozenset(s.id for s in found.spans if s.trace == trace and s.sort == Sort.TASK)
            found.boundaries.append(Boundary(trace, tasks, tuple(self._begun), self._evidence))
        return found

    def refuse(self, where: str, error: Unfit) -> None:
        refused = self._found.refused
        if len(refused) < MOST_REFUSED:
            refused.append(SourceRefusal(where, error.field, error.rule))
        elif len(refused) == MOST_REFUSED:
            refused.append(SourceRefusal(self._label, WHOLE, "refused_too_often"))

    def line(self, where: str, text: str) -> None:
        try:
            value = parsed_text(text)
        except Unfit as error:
            self._is_broken = True
            self.refuse(where, error)
        else:
            self.document(where, value)

    def document(self, where: str, value: Any) -> None:
        """Take a whole document."""
        try:
            if isinstance(value, list):
                self._elements(where, value)
            elif isinstance(value, dict) and "$schemaVersion" in value:
                self._found.states.append(read_state(value, self._key))
            elif isinstance(value, dict) and "events" in value:
                self._wrapped(where, Fields(value))
            elif isinstance(value, dict) and isinstance(value.get("data"), list):
                self._elements(where, value["data"])
            elif isinstance(value, dict) and value.keys() & {"object", "event"}:
                self._element(where, value)
            else:
                raise Unfit(WHOLE, "form")
        except Unfit as error:
            self.refuse(where, error)

    def _wrapped(self, where: str, file: Fields) -> None:
        """Take a file that says which SDK wrote it, and perhaps how the call ended."""
        if file.maybe_text("sdk") not in {None, SDK}:
            raise Unfit("sdk", "unknown")
        self._version = file.maybe_text("version")
        if self._version is not None and _VERSION.fullmatch(self._version) is None:
            raise Unfit("version", "version_unknown")
        events = [event for _, event in file.items("events")]
        try:
            self._evidence = read_evidence(file)
        except Unfit as error:
            self.refuse(where, error)
        self._elements(where, events)

    def _elements(self, where: str, elements: list[Any]) -> None:
        for index, element in enumerate(elements):
            self._element(f"{where}[{index}]", element)

    def _element(self, where: str, element: Any) -> None:
        """Take one event of a tracing processor, or the bare export of a trace or a span."""
        try:
            check_bounds(element, "", KNOWN)
            event = Fields(element)
            if "export" not in event and event.maybe_text("event") == "span_start":
                if event.maybe_text("type") == Sort.FUNCTION:
                    self._begun.append(event.text("id"))
                return
            self._export(event.fields("export") if "export" in event else event)
        except Unfit as error:
            self._break(element)
            self.refuse(where, error)

    def _export(self, export: Fields) -> None:
        match export.text("object"):
            case "trace":
                self._found.traces[export.text("id")] = None
            case "trace.span":
                self._found.spans.append(read_span(export, self._key))
            case _:
                raise Unfit(export.at("object"), "unknown")

    def _break(self, element: Any) -> None:
        """Remember which trace is no longer whole; all of the file's where that cannot be told."""
        export = element.get("export", element) if isinstance(element, dict) else None
        trace = export.get("trace_id") if isinstance(export, dict) else None
        if isinstance(trace, str) and trace:
            self._found.broken.add(trace)
        else:
            self._is_broken = True
