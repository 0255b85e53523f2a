"""Imports traces and saved run states of the OpenAI Agents SDK: each trace is one run."""

from collections.abc import Sequence

from branches.evidence.keys import HmacKey
from branches.ports import SourceFile, SourceRead, SourceRefusal
from debugger.adapters.runtimes.openai_agents_files import SDK, Source, read_source
from debugger.adapters.runtimes.openai_agents_receipts import Found, Run
from debugger.adapters.runtimes.openai_agents_spans import Span, newest
from debugger.adapters.runtimes.openai_agents_state import SavedRun
from debugger.adapters.runtimes.openai_agents_writer import Writer


class OpenAIAgentsImporter:
    """Reads what a tracing processor wrote (`{"events": […]}`, a list, or one export a line), and RunStates.

    Spans are put to their trace wherever they stand, also late, twice and in any order. A RunState belongs to
    the run of its trace; where it names none, it is a run of its own.
    """

    versions: tuple[str, ...] = ("0.24.0",)

    def read(self, files: Sequence[SourceFile], key: HmacKey) -> SourceRead:
        """Return a run for each trace; what cannot be taken is refused, and the rest is read."""
        whole = Source()
        for file in files:
            whole.add(read_source(file, key))
        runs = []
        refused = list(whole.refused)
        for found in _runs(whole):
            run, cut = Run(found, Writer(key, found.run)).whole()
            runs.append(run)
            refused += [SourceRefusal(whole.labels.get(found.run, ""), field, rule) for field, rule in cut]
        return SourceRead(tuple(runs), tuple(refused))


def _runs(whole: Source) -> list[Found]:
    """Return what belongs to each run, in an order that does not depend on that of the files."""
    spans: dict[str, dict[str, Span]] = {}
    for span in whole.spans:
        own = spans.setdefault(span.trace, {})
        own[span.id] = newest(own[span.id], span) if span.id in own else span
    states: dict[str, dict[str, SavedRun]] = {}
    for state in whole.states:
        run = state.trace or f"{SDK}\0{state.identity}"
        states.setdefault(run, {})[state.identity] = state
    boundaries = sorted(dict.fromkeys(whole.boundaries), key=repr)
    return [
        Found(
            run=run,
            version=whole.traces.get(run),
            spans=list(spans.get(run, {}).values()),
            has_record=run in whole.traces,
            is_broken=run in whole.broken,
            boundaries=[each for each in boundaries if each.trace == run],
            states=list(states.get(run, {}).values()),
        )
        for run in sorted({*spans, *states, *whole.traces})
    ]
