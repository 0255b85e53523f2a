"""A run that was recorded turn by turn, and an import of the same run as the SDK itself makes it."""

import asyncio
import json
from typing import Any

import pytest
from agents import MaxTurnsExceeded, RunConfig, Runner, add_trace_processor

from branches.ports import SourceFile, SourceRun
from debugger.adapters.runtimes.openai_agents import OpenAIAgentsImporter
from debugger.recorder.conformance.gate import KEY
from debugger.recorder.openai_agents.spans import SpanProcessor
from tests.recorder.openai_agents.crew import MARKER, Answer, Bench, calls, says

HANDOVER = [calls("transfer_to_billing", "h1")]
LOOK = [calls("look_up", "c1", order="7")]


class Exporting(SpanProcessor):
    """Keeps what the SDK exports."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[dict[str, Any]] = []

    def on_trace_start(self, trace: Any) -> None:
        self.events.append({"event": "trace_start", "export": trace.export()})

    def on_span_start(self, span: Any) -> None:
        """Nothing: the end says it all."""

    def on_span_end(self, span: Any) -> None:
        self.events.append({"event": "span_end", "export": span.export()})


def imported(bench: Bench, script: list[Answer], max_turns: int, trace: str) -> SourceRun:
    """Make the run as the SDK does, in one go, and import its trace."""
    exporting = Exporting()
    add_trace_processor(exporting)
    facts: dict[str, Any] = {}
    config = RunConfig(trace_id=trace)
    with bench.recorder.running(bench.record(bench.crew()).record):
        try:
            run = Runner.run(bench.crew(*script), f"help {MARKER}", max_turns=max_turns, run_config=config)
            facts["final"] = asyncio.run(run).final_output
        except MaxTurnsExceeded:
            facts["exception"] = "MaxTurnsExceeded"
    return read_from(exporting, facts)


def read_from(exporting: Exporting, facts: dict[str, Any]) -> SourceRun:
    """Import what was exported; only of the run whose trace it is."""
    file = {"sdk": "openai-agents", "version": "0.24.0", "events": exporting.events, "facts": facts}
    found = OpenAIAgentsImporter().read([SourceFile("trace.json", json.dumps(file).encode())], KEY)
    assert found.refused == ()
    (read,) = found.runs
    return read


@pytest.mark.parametrize(
    ("script", "max_turns"),
    [
        ([HANDOVER, LOOK, [says()]], 10),
        ([[*HANDOVER, calls("transfer_to_legal", "h2")], [says()]], 10),
        ([HANDOVER, LOOK, [calls("look_up", "c2", order="8")]], 3),
    ],
    ids=["handed over", "two at once", "limit"],
)
def test_both_say_the_same_of_edges_hand_overs_and_the_stop(
    bench: Bench, script: list[Answer], max_turns: int
) -> None:
    run = bench.record(bench.crew(*script))
    try:
        asyncio.run(run.start(f"help {MARKER}", max_turns=max_turns))
    except MaxTurnsExceeded:
        assert max_turns == 3
    live = {kind: bench.bodies(kind, run.run) for kind in ("interaction", "handoff", "stopped")}
    read = imported(bench, script, max_turns, run.trace)
    other = {kind: [each.body for each in read.receipts if each.kind == kind] for kind in live}
    assert read.external_ref == run.external_ref
    for kind, members in (("interaction", ("from", "to", "status")), ("handoff", ("event",))):
        assert [[b[m] for m in members] for b in live[kind]] == [[b[m] for m in members] for b in other[kind]]
    (one,), (two,) = live["stopped"], other["stopped"]
    for member in ("stop_cause", "loop", "tool_failed"):
        assert one[member] == two[member]
    assert [step["tools"] for step in one["steps"]] == [step["tools"] for step in two["steps"]]


async def turn_by_turn(agent: Any, turns: int, config: RunConfig) -> Any:
    """Run without a recorder: cancelled after each turn, and resumed from its state, in one trace."""
    given: Any = f"help {MARKER}"
    for _ in range(turns):
        result = Runner.run_streamed(agent, given, run_config=config)
        async for _ in result.stream_events():
            result.cancel(mode="after_turn")
        given = result.to_state()
    return result


def edges_and_events(read: SourceRun) -> tuple[list[str], list[str]]:
    of_kind = {kind: [e.body for e in read.receipts if e.kind == kind] for kind in ("interaction", "handoff")}
    edges = [f"{body['from']}>{body['to']} {body['status']}" for body in of_kind["interaction"]]
    return edges, [body["event"] for body in of_kind["handoff"]]


@pytest.mark.parametrize(
    ("script", "edges", "events"),
    [
        ([HANDOVER], ["triage>billing unset"], ["delegated"]),
        ([HANDOVER, LOOK], ["triage>billing ok"], ["delegated", "accepted"]),
        ([HANDOVER, LOOK, [says()]], ["triage>billing ok"], ["delegated", "accepted"]),
        (
            [[*HANDOVER, calls("transfer_to_legal", "h2")], [says()]],
            ["triage>billing error", "triage>legal error", "triage>billing ok"],
            ["delegated", "released", "delegated", "accepted"],
        ),
    ],
    ids=["not resumed", "resumed", "resumed to its end", "two at once"],
)
def test_a_hand_over_that_was_cancelled_after_its_turn_is_taken_where_the_run_goes_on(
    bench: Bench, script: list[Answer], edges: list[str], events: list[str]
) -> None:
    exporting = Exporting()
    add_trace_processor(exporting)
    with bench.recorder.running(bench.record(bench.crew()).record):
        config = RunConfig(trace_id="trace_" + "7" * 32)
        asyncio.run(turn_by_turn(bench.crew(*script), len(script), config))
    assert edges_and_events(read_from(exporting, {})) == (edges, events)


def test_another_agent_that_goes_on_has_not_taken_a_hand_over(bench: Bench) -> None:
    exporting = Exporting()
    add_trace_processor(exporting)
    bench.run(bench.crew(HANDOVER, [says()]))
    agents = [e["export"]["span_data"] for e in exporting.events if e["export"]["object"] == "trace.span"]
    for each in agents:
        if (each["type"], each.get("name")) == ("agent", "billing"):
            each["name"] = "legal"
    assert edges_and_events(read_from(exporting, {})) == (["triage>billing unset"], ["delegated"])


def test_a_live_recording_s_own_trace_imports_with_the_edges_that_were_recorded(bench: Bench) -> None:
    exporting = Exporting()
    add_trace_processor(exporting)
    run = bench.run(bench.crew(HANDOVER, LOOK, [says()]))
    edges, events = edges_and_events(read_from(exporting, {}))
    assert edges == [f"{b['from']}>{b['to']} {b['status']}" for b in bench.bodies("interaction", run.run)]
    assert edges == ["triage>billing ok"]
    recorded = [body["event"] for body in bench.bodies("handoff", run.run)]
    # That a loop finished is nothing that a trace alone can prove.
    assert events == [event for event in recorded if event != "completed"] == ["delegated", "accepted"]
