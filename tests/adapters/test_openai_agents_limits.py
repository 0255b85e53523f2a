"""Files of the OpenAI Agents SDK that are none, are hostile, or hold more than a receipt can."""

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest

from branches.ports import SourceFile
from tests.adapters.agent_traces import IMPORTER, SAVED, TRACE, Trace, a_state, file_of, finished, saved
from tests.adapters.places import KEY, MARKER
from tests.adapters.source_runs import a_file, bodies, check, everything, read, stop_states
from tests.patience import PATIENCE_S, ends

WHOLE = (SAVED / "trace_max_turns.json").read_bytes()
STATE = (SAVED / "waiting.json").read_bytes()


def refusals(file: SourceFile) -> list[tuple[str, str, str]]:
    """Return what is refused of a file, beside another one that is read all the same."""
    found = read(IMPORTER, file, file_of("trace_stop_at_tools.json"))
    assert MARKER not in everything(found)
    for run in found.runs:
        check(run)
    assert any(bodies(run, "stopped")[:1] for run in found.runs)
    return [(each.where, each.field, each.rule) for each in found.refused]


@pytest.mark.parametrize(
    ("content", "field", "rule"),
    [
        pytest.param(WHOLE[:-300], "(whole)", "json", id="truncated"),
        pytest.param(b"", "(whole)", "json", id="empty"),
        pytest.param(MARKER.encode(), "(whole)", "json", id="text"),
        pytest.param(b"\xff\xfe{}", "(whole)", "encoding", id="not utf-8"),
        pytest.param(WHOLE.replace(b'"sdk"', b'"sdk": 1, "sdk"'), "(whole)", "duplicate_key", id="twice"),
        pytest.param(WHOLE.replace(b'"turn": 1', b'"turn": NaN'), "(whole)", "number", id="NaN"),
        pytest.param(b"[" * 200_000, "(whole)", "nesting", id="deep"),
        pytest.param(b'"' + MARKER.encode() + b'"', "(whole)", "form", id="no object"),
        pytest.param(b'{"a": "CONTENT-MARKER-7f3a"}', "(whole)", "form", id="another object"),
        pytest.param(WHOLE.replace(b'"0.24.0"', b'"0.25.0"'), "version", "version_unknown", id="0.25"),
        pytest.param(WHOLE.replace(b'"0.24.0"', b'"1.0.0"'), "version", "version_unknown", id="1.0"),
        pytest.param(WHOLE.replace(b'"0.24.0"', b'"0.24.0\\n"'), "version", "version_unknown", id="newline"),
        pytest.param(WHOLE.replace(b'"openai-agents"', b'"other"'), "sdk", "unknown", id="other sdk"),
        pytest.param(b'{"events": {"CONTENT-MARKER-7f3a": 1}}', "events", "list", id="events no list"),
        pytest.param(STATE.replace(b'"1.21"', b'"1.20"'), "$schemaVersion", "version_unknown", id="1.20"),
        pytest.param(STATE.replace(b'"1.21"', b'"1.22"'), "$schemaVersion", "version_unknown", id="1.22"),
        pytest.param(STATE.replace(b'"1.21"', b"1.21"), "$schemaVersion", "text", id="number"),
        pytest.param(STATE[:-30], "(whole)", "json", id="truncated state"),
    ],
)
def test_it_refuses_a_file_by_field_and_rule(
    content: bytes, field: str, rule: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    assert refusals(SourceFile("file", content)) == [("file", field, rule)]
    assert MARKER not in caplog.text


@pytest.mark.parametrize(
    ("change", "field", "rule"),
    [
        ({"id": None}, "export.id", "empty"),
        ({"id": [MARKER]}, "export.id", "text"),
        ({"trace_id": ""}, "export.trace_id", "empty"),
        ({"started_at": None}, "export.started_at", "required"),
        ({"started_at": MARKER}, "export.started_at", "timestamp"),
        ({"started_at": "2026-02-30T11:00:00Z"}, "export.started_at", "timestamp"),
        ({"started_at": "0001-01-01T00:00:00+14:00"}, "export.started_at", "timestamp"),
        ({"ended_at": "2026-11-30T11:00:00"}, "export.ended_at", "timestamp"),
        ({"ended_at": 12}, "export.ended_at", "text"),
        ({"span_data": None}, "export.span_data", "object"),
        ({"span_data": {"type": "function", "name": ""}}, "export.span_data.name", "empty"),
        ({"span_data": {"type": "function", "name": {MARKER: 1}}}, "export.span_data.name", "text"),
        ({"error": MARKER}, "export.error", "object"),
        ({"error": {"message": 1}}, "export.error.message", "text"),
        ({"error": {"data": {"max_turns": MARKER}}}, "export.error.data.max_turns", "integer"),
        ({"error": {"data": {"max_turns": 2.0}}}, "export.error.data.max_turns", "integer"),
        ({"error": {"data": {"requested_agents": [1]}}}, "export.error.data.requested_agents.0", "text"),
        ({"object": MARKER}, "export.object", "unknown"),
        ({"parent_id": 5}, "export.parent_id", "text"),
    ],
)
def test_it_refuses_one_span_and_reads_the_others(change: Any, field: str, rule: str) -> None:
    trace = Trace().loop(("lookup", "ok"))
    number = next(index for index, each in enumerate(trace.events) if each["export"].get("id") == "call1")
    trace.events[number]["export"] |= change
    expected = (f"file[{number}]", field, "text" if change == {"id": None} else rule)
    assert refusals(trace.file("file", **finished())) == [expected]
    found = read(IMPORTER, trace.file("file", **finished()))
    # With something missing nothing proves that the loop was done.
    assert stop_states(next(run for run in found.runs if bodies(run, "stopped"))) == ["uncertain"]


@pytest.mark.parametrize(
    ("element", "field", "rule"),
    [
        (MARKER, "(whole)", "object"),
        ({}, "object", "required"),
        ({"event": "span_end"}, "object", "required"),
        ({"event": "span_end", "export": [MARKER]}, "export", "object"),
        ({"event": "span_start", "type": "function"}, "id", "required"),
        ({"event": MARKER, "export": {"object": "trace"}}, "export.id", "required"),
    ],
)
def test_it_refuses_an_event_that_is_none(element: Any, field: str, rule: str) -> None:
    trace = Trace().loop()
    trace.events.append(element)
    assert refusals(trace.file("file")) == [(f"file[{len(trace.events) - 1}]", field, rule)]


@pytest.mark.parametrize(
    ("beside", "field", "rule"),
    [
        ({"hooks": {MARKER: 1}}, "hooks", "list"),
        ({"hooks": [["agent_end", 5]]}, "hooks.0", "list:text"),
        ({"hooks": [[]]}, "hooks.0", "list:text"),
        ({"facts": [MARKER]}, "facts", "object"),
        ({"facts": {"exception": [MARKER]}}, "facts.exception", "text"),
        ({"facts": {MARKER: MARKER * 300_000}}, "facts.*", "max_length"),
    ],
)
def test_it_refuses_what_stands_beside_the_spans_and_keeps_the_spans(
    beside: Any, field: str, rule: str
) -> None:
    assert refusals(Trace().loop().file("file", **beside)) == [("file", field, rule)]


def without(field: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda state: {name: value for name, value in state.items() if name != field}


@pytest.mark.parametrize(
    ("change", "field", "rule"),
    [
        *((without(name), name, "required") for name in ("current_turn", "current_agent", "current_step")),
        *((without(name), name, "required") for name in ("model_responses", "generated_items")),
        (lambda state: {**state, "current_turn": True}, "current_turn", "integer"),
        (lambda state: {**state, "max_turns": MARKER}, "max_turns", "integer"),
        (lambda state: {**state, "trace": {"id": [MARKER]}}, "trace.id", "text"),
        (lambda state: {**state, "current_step": {"type": MARKER, "data": 1}}, None, None),
        (lambda state: {**state, "current_step": [MARKER]}, "current_step", "object"),
        (
            lambda state: {**state, "current_step": {"type": "next_step_interruption", "data": MARKER}},
            "current_step.data",
            "object",
        ),
        (lambda state: {**state, "generated_items": MARKER}, "generated_items", "list"),
        (
            lambda state: {**state, "context": {"tool_invocations": {"c1": {"executed": MARKER}}}},
            "context.tool_invocations.*.executed",
            "flag",
        ),
        (lambda state: {**state, "original_input": MARKER * 300_000}, "original_input", "max_length"),
        (lambda state: {**state, MARKER: "\ud800"}, "*", "unicode"),
    ],
)
def test_it_refuses_a_state_by_field_and_rule(
    change: Callable[[dict[str, Any]], dict[str, Any]], field: str | None, rule: str | None
) -> None:
    expected = [] if field is None else [("file", field, rule)]
    assert refusals(a_file("file", change(a_state()))) == expected


def test_an_attribute_of_10_mb_costs_one_span() -> None:
    trace = Trace().loop(("lookup", MARKER * 600_000))
    (refused,) = refusals(trace.file("file"))
    assert refused[1:] == ("export.span_data.output", "max_length")


def test_a_bad_line_costs_one_line() -> None:
    lines = [json.dumps(each) for each in Trace().loop().events]
    lines[2] = lines[2][:-5] + MARKER
    lines.append("")
    content = "\n".join(lines).encode()
    assert refusals(SourceFile("file", content)) == [("file:3", "(whole)", "json")]


def test_what_is_refused_is_counted_only_so_far() -> None:
    found = refusals(a_file("file", [MARKER] * 5_000))
    assert len(found) == 101
    assert found[-1] == ("file", "(whole)", "refused_too_often")


def test_spans_that_stand_above_each_other_end_somewhere() -> None:
    trace = Trace()
    trace.end(trace.task("a", "b"), trace.task("b", "a"), trace.turn("u", "a", 1, "worker"))
    trace.call("f", "u", "lookup")
    assert refusals(trace.file("file", **finished())) == []


def test_many_spans_are_read_in_time() -> None:
    trace = Trace()
    task, agent = trace.task("t"), trace.agent("a", "t", "worker")
    for number in range(1, 3_000):
        turn = trace.turn(f"u{number}", "a", number, "worker")
        trace.call(f"f{number}", turn["id"], "lookup")
        trace.handoff(f"h{number}", turn["id"], "worker", f"nobody{number}")
    trace.end(agent, task)
    for each in trace.spans():
        each["started_at"] = each["ended_at"] = "2026-11-30T11:00:00Z"
    with ends(PATIENCE_S):
        found = read(IMPORTER, trace.file("file"))
    assert len(found.runs[0].receipts) > 10_000
    assert ("file", "steps", "max_items") in {(e.where, e.field, e.rule) for e in found.refused}


@pytest.mark.parametrize("number", [10, 100, 250])
def test_a_long_loop_keeps_the_number_of_turns_that_its_limit_needs(number: int) -> None:
    trace = Trace()
    task, agent = trace.task("t"), trace.agent("a", "t", "worker")
    for each in range(1, number + 1):
        trace.turn(f"u{each}", "a", each, "worker")
        trace.call(f"f{each}", f"u{each}", "lookup")
    trace.end(agent, error="Max turns exceeded", max_turns=number)
    trace.end(task)
    found = read(IMPORTER, trace.file("file"))
    (run,) = found.runs
    check(run)
    assert stop_states(run) == ["bounded_stop"]
    cut = [(each.where, each.field, each.rule) for each in found.refused]
    assert cut == ([] if number == 10 else [("file", "steps.tools", "max_bytes")])


@pytest.mark.parametrize("name", sorted(path.name for path in SAVED.glob("*.json")))
def test_content_is_nowhere(name: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    found = read(IMPORTER, file_of(name))
    assert MARKER not in everything(found)
    assert MARKER not in caplog.text


def test_names_and_ids_with_content_in_them_are_covered() -> None:
    text = json.dumps(saved("trace_handoff_two.json"))
    for name in ("triage", "billing", "legal", "two", "span_673cc279aea240b186c3811a"):
        text = text.replace(f'"{name}"', f'"{name} {MARKER}"')
    found = read(IMPORTER, SourceFile("file", text.encode()))
    check(found.runs[0])
    assert stop_states(found.runs[0]) == ["false_complete"]
    assert MARKER not in everything(found)
    state = STATE.decode()
    for name in ("billing", "refund", "lookup", "c2"):
        state = state.replace(f'"{name}"', f'"{name} {MARKER}"')
    found = read(IMPORTER, SourceFile("file", state.encode()))
    check(found.runs[0])
    assert stop_states(found.runs[0]) == ["waiting_unrouted"]
    assert MARKER not in everything(found)


def test_a_name_that_poses_as_covered_is_covered_again() -> None:
    pose = KEY.digest("name", "agent\0boss")
    found = read(IMPORTER, Trace().loop(agent=pose).file())
    assert found.runs[0].receipts[-1].agent not in {pose, None}
    assert TRACE not in everything(found)
