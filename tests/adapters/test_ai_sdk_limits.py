"""What does not fit: loops too long for a receipt, and files that hold no loop or something hostile."""

import copy
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from branches.ports import SourceFile
from tests.adapters.ai_sdk_loops import (
    IMPORTER,
    SAVED,
    a_loop,
    a_step,
    fired,
    refusal_of,
    run_of,
    saved,
    stop,
)
from tests.adapters.places import KEY, MARKER
from tests.adapters.source_runs import a_file, check, everything, read, stop_states, stop_verdict


def long_loop(number: int, **changes: Any) -> dict[str, Any]:
    steps = [a_step(each, "search", "fetch") for each in range(1, number + 1)]
    limit = [fired("isStepCount", number, {"n": number})]
    return a_loop(*steps, finish="tool-calls", conditions=limit, **changes)


@pytest.mark.parametrize("number", [20, 60, 150, 280])
def test_a_long_loop_keeps_the_number_of_steps_that_its_limit_needs(number: int) -> None:
    found = read(IMPORTER, a_file("loop.json", long_loop(number)))
    (run,) = found.runs
    check(run)
    assert len(stop(run)["steps"]) == number
    assert stop_states(run) == ["bounded_stop"]
    assert stop(run)["steps"][-1]["tools"] == ["search", "fetch"]
    cut = [(each.field, each.rule) for each in found.refused]
    assert cut == ([] if number == 20 else [("steps.tools", "max_bytes")])


def test_a_loop_too_long_for_a_receipt_says_so_and_proves_no_limit() -> None:
    found = read(IMPORTER, a_file("loop.json", long_loop(600)))
    (run,) = found.runs
    check(run)
    assert ("loop.json", "steps", "max_items") in {(e.where, e.field, e.rule) for e in found.refused}
    assert stop(run)["stop_cause"] is None
    assert stop_states(run) == ["uncertain"]


def test_a_long_loop_that_finished_still_says_so() -> None:
    steps = [a_step(each, "search") for each in range(1, 600)]
    found = read(IMPORTER, a_file("loop.json", a_loop(*steps, a_step(600))))
    check(found.runs[0])
    assert stop_states(found.runs[0]) == ["false_complete"]
    assert ("steps", "max_items") in {(each.field, each.rule) for each in found.refused}


def test_a_token_budget_keeps_the_tokens_that_it_needs() -> None:
    usage = {"total": 1_000_000}
    steps = [a_step(each, "search", usage=usage) for each in range(1, 201)]
    budget = [fired("custom:tokenBudget", 200, {"max_total": 200_000_000})]
    found = read(IMPORTER, a_file("loop.json", a_loop(*steps, finish="tool-calls", conditions=budget)))
    check(found.runs[0])
    assert stop_states(found.runs[0]) == ["bounded_stop"]


def test_a_last_step_with_many_tools_keeps_the_one_that_ended_the_loop() -> None:
    step = a_step(1, *(f"tool{each}" for each in range(100)), "finish")
    end = [fired("hasToolCall", 1, {"tools": ["finish"]})]
    found = read(IMPORTER, a_file("loop.json", a_loop(step, finish="tool-calls", conditions=end)))
    check(found.runs[0])
    assert stop_verdict(stop(found.runs[0])).state == "false_complete"
    assert stop(found.runs[0])["steps"][0]["tools"][0] == "finish"


def broken() -> Iterator[Any]:
    whole = (SAVED / "01_natural_finish.json").read_bytes()
    loop = saved("01_natural_finish.json")
    yield pytest.param(whole[:-40], "(whole)", "json", id="truncated")
    yield pytest.param(b"", "(whole)", "json", id="empty")
    yield pytest.param(b"\xff\xfe{}", "(whole)", "encoding", id="not utf-8")
    yield pytest.param(whole.replace(b'"n": 1', b'"n": 1, "n": 1'), "(whole)", "duplicate_key", id="twice")
    yield pytest.param(whole.replace(b'"n": 5', b'"n": NaN'), "(whole)", "number", id="NaN")
    yield pytest.param(whole.replace(b'"n": 5', b'"n": 1e999'), "(whole)", "number", id="too great")
    yield pytest.param(b"[" * 200_000, "(whole)", "nesting", id="deep")
    yield pytest.param({**loop, "x": nest(70)}, "(whole)", "nesting", id="rather deep")
    yield pytest.param({**loop, "scenario": "\ud800"}, "scenario", "unicode", id="surrogate")
    yield pytest.param([loop], "(whole)", "object", id="list")
    yield pytest.param({"schema": MARKER}, "schema", "unknown", id="schema only")
    for field in ("schema", "runtime", "stop_conditions", "steps", "end"):
        yield pytest.param({n: v for n, v in loop.items() if n != field}, field, "required", id=f"no {field}")
    for path, value, field, rule in [
        (("steps", 0, "n"), "1", "steps.0.n", "integer"),
        (("steps", 0, "n"), True, "steps.0.n", "integer"),
        (("steps", 0, "n"), 1.0, "steps.0.n", "integer"),
        (("steps", 0, "n"), 0, "steps.0.n", "range"),
        (("steps", 0, "n"), 2, "steps.1.n", "unique"),
        (("steps", 0), MARKER, "steps.0", "object"),
        (("steps",), {MARKER: MARKER}, "steps", "list"),
        (("steps", 0, "tool_calls"), [{}], "steps.0.tool_calls.0.tool", "required"),
        (("steps", 0, "tool_calls"), [{"tool": ""}], "steps.0.tool_calls.0.tool", "empty"),
        (("steps", 0, "tool_calls"), [{"tool": [MARKER]}], "steps.0.tool_calls.0.tool", "text"),
        (("steps", 0, "usage", "total"), -1, "steps.0.usage.total", "range"),
        (("steps", 0, "usage", "total"), 2**60, "steps.0.usage.total", "range"),
        (("stop_conditions", 0, "params", "n"), 0, "stop_conditions.0.params.n", "range"),
        (("stop_conditions", 0, "params", "n"), MARKER, "stop_conditions.0.params.n", "integer"),
        (
            ("stop_conditions", 0, "evaluations", 0, "result"),
            1,
            "stop_conditions.0.evaluations.0.result",
            "flag",
        ),
        (("end", "kind"), None, "end.kind", "text"),
        (("end", "error"), MARKER, "end.error", "object"),
        (("agent", "tools", 0, "has_execute"), MARKER, "agent.tools.0.has_execute", "flag"),
        (("agent",), MARKER, "agent", "object"),
    ]:
        yield pytest.param(changed(loop, path, value), field, rule, id=f"{field} {rule} {value!r:.12}")


def nest(depth: int) -> Any:
    value: Any = MARKER
    for _ in range(depth):
        value = [value]
    return value


def changed(loop: Any, path: tuple[Any, ...], value: Any) -> Any:
    loop = copy.deepcopy(loop)
    at = loop
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    return loop


@pytest.mark.parametrize(("value", "field", "rule"), list(broken()))
def test_it_refuses_what_cannot_be_taken_by_field_and_rule(
    value: Any, field: str, rule: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    assert refusal_of(value) == ("loop.json", field, rule)
    assert MARKER not in caplog.text


def test_it_refuses_what_is_too_large() -> None:
    loop = {**saved("01_natural_finish.json"), MARKER: MARKER * 700_000}
    assert refusal_of(loop) == ("loop.json", "*", "max_length")
    assert refusal_of(b" " * (33 * 1024 * 1024)) == ("loop.json", "(whole)", "too_large")


def test_more_conditions_than_a_receipt_holds_are_refused() -> None:
    many = [{"name": "isStepCount", "params": {"n": each}} for each in range(1, 18)]
    assert refusal_of(a_loop(a_step(1), conditions=many))[1:] == ("stop_conditions", "max_items")


def test_names_are_covered_and_content_is_nowhere() -> None:
    text = json.dumps(saved("07_approval_routed.json"))
    for name in ("refund", "agent-1", "approver-1", "mock-1", "07_approval_routed", "tool-calls"):
        text = text.replace(f'"{name}"', f'"{name} {MARKER}"')
    found = read(IMPORTER, SourceFile("loop.json", text.encode()))
    check(found.runs[0])
    assert stop_states(found.runs[0]) == ["waiting"]
    assert MARKER not in everything(found)


def test_a_name_that_poses_as_covered_is_covered_again() -> None:
    pose = KEY.digest("name", "tool\0search")
    loop = json.loads(json.dumps(saved("01_natural_finish.json")).replace('"search"', f'"{pose}"'))
    (tool,) = stop(run_of(loop))["steps"][0]["tools"]
    assert tool.startswith("hmac-sha256:")
    assert tool != pose
