"""Why a run stopped: only what a span says of itself is a claim, and silence is nothing."""

from typing import Any

import pytest

from tests.adapters.otlp_requests import (
    ERROR,
    OK,
    Sent,
    agent,
    as_protobuf,
    bodies,
    cause,
    chat,
    inference,
    node,
    read,
    read_spans,
    receipts,
    request,
    stop,
    tool,
    workflow,
)
from tests.adapters.places import KEY, MARKER


def test_only_a_status_of_its_own_makes_an_end_a_claim() -> None:
    assert cause(agent(1, status=OK)) == ("natural_finish", "claimed")
    assert cause(agent(1)) == ("natural_finish", "ended")
    assert cause(workflow(1, status=OK), agent(2, 1)) == ("natural_finish", "claimed")


def test_nothing_is_said_of_an_end_that_was_not_seen() -> None:
    assert bodies(read_spans(agent(1, end=None)), "stopped") == []
    assert bodies(read_spans(agent(2, 1, status=OK)), "stopped") == []  # what it hangs below is not here
    assert bodies(read_spans(tool(2, 1), chat(3, 1)), "stopped") == []
    assert bodies(read_spans(agent(1, 2, status=OK), agent(2, 1, status=OK)), "stopped") == []  # a circle


def test_a_run_below_a_web_request_ends_with_its_outermost_agent() -> None:
    found = read_spans(
        Sent(9, name="POST /", end=5), agent(1, 9, status=OK), agent(2, 9, "other", start=2, end=3)
    )
    assert [each.agent for each in receipts(found, "stopped")] == ["billing", "other"]


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        ((agent(1, status=ERROR), tool(2, 1, status=ERROR)), "tool_error"),
        ((agent(1, status=ERROR), tool(2, 1, status=ERROR, exceptions=["TimeoutError"])), "tool_error"),
        ((agent(1, status=ERROR), chat(2, 1, status=ERROR)), "provider_error"),
        ((agent(1, status=ERROR), chat(2, 1, status=ERROR, exceptions=["APITimeout"])), "provider_error"),
        ((agent(1, status=ERROR, exceptions=["RuntimeError"]),), "provider_error"),
        ((agent(1, status=ERROR, exceptions=["TimeoutError"]),), "timeout"),
        ((agent(1, status=ERROR, exceptions=["asyncio.CancelledError"]),), "user_abort"),
        ((agent(1, status=ERROR, attributes={"error.type": "MaxTurnsExceeded"}),), "step_limit"),
        ((agent(1, status=ERROR, exceptions=["langgraph.errors.GraphRecursionError"]),), "step_limit"),
        ((workflow(1, status=ERROR), agent(2, 1, status=ERROR), tool(3, 2, status=ERROR)), "tool_error"),
        ((workflow(1), agent(2, 1, status=ERROR), tool(3, 2, status=ERROR)), "tool_error"),
        ((workflow(1), agent(2, 1, status=ERROR)), "provider_error"),
        ((agent(1), chat(2, 1, status=ERROR)), "provider_error"),
        ((agent(1, attributes={"error.type": "x"}),), "provider_error"),
        ((agent(1, status=OK), chat(2, 1, status=ERROR), chat(3, 1, start=2, end=3)), "natural_finish"),
    ],
)  # fmt: skip
def test_an_error_is_laid_where_it_happened(spans: tuple[Sent, ...], expected: str) -> None:
    assert cause(*spans)[0] == expected


def test_a_loop_cut_off_from_above_blames_no_tool() -> None:
    cut = tool(2, 1, status=ERROR, exceptions=["CancelledError"])
    for own, expected in (("TimeoutError", "timeout"), ("CancelledError", "user_abort")):
        found = stop(agent(1, status=ERROR, exceptions=[own]), cut)
        assert (found["stop_cause"], found["tool_failed"]) == (expected, False)


def test_a_step_limit_shows_also_where_the_end_looks_normal() -> None:
    limited = agent(2, 1, exceptions=["agents.exceptions.MaxTurnsExceeded"])
    assert cause(workflow(1, status=OK), limited) == ("step_limit", "ended")
    inside = agent(3, 2, exceptions=["agents.exceptions.MaxTurnsExceeded"])
    assert cause(agent(1, name="lead", status=OK), tool(2, 1, "ask"), inside) == ("natural_finish", "claimed")


def test_an_error_below_an_end_without_a_status_is_made_good_by_a_later_success() -> None:
    failed = agent(2, 1, status=ERROR)
    assert cause(workflow(1, end=9), failed, agent(3, 1, start=2, end=3)) == ("natural_finish", "ended")
    assert cause(workflow(1, end=9), failed, agent(3, 1, "other", start=2, end=3))[0] == "provider_error"
    assert cause(agent(1, name="lead", end=9), failed) == ("natural_finish", "ended")  # the lead went on


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({"gen_ai.response.finish_reasons": ["length"]}, "output_limit"),
        ({"gen_ai.response.finish_reasons": ["MAX_TOKENS"]}, "output_limit"),
        ({"gen_ai.response.finish_reasons": ["content_filter"]}, "provider_error"),
        ({"gen_ai.response.finish_reasons": ["stop"]}, "natural_finish"),
        ({"gen_ai.completion.0.finish_reason": "length"}, "output_limit"),
        ({}, "natural_finish"),
    ],
)
def test_the_last_model_call_says_whether_the_answer_was_cut(attributes: Any, expected: str) -> None:
    assert cause(agent(1, status=OK), chat(2, 1, attributes=attributes))[0] == expected
    last = chat(3, 1, start=2, end=3, attributes={"gen_ai.response.finish_reasons": ["stop"]})
    assert cause(agent(1, status=OK, end=9), chat(2, 1, attributes=attributes), last)[0] == "natural_finish"


def test_the_older_events_say_why_a_model_finished() -> None:
    choice = ("gen_ai.choice", {"finish_reason": "length", "message": MARKER})
    old = Sent(2, 1, {"gen_ai.system": "openai", "gen_ai.request.model": "m"}, events=[choice])
    assert cause(agent(1, status=OK), old) == ("output_limit", "ended")


def test_a_tool_that_failed_counts_unless_it_succeeded_later() -> None:
    failed = tool(2, 1, status=ERROR)
    assert stop(agent(1, status=OK), failed)["tool_failed"] is True
    assert stop(agent(1, status=OK, end=9), failed, tool(3, 1, start=2, end=3))["tool_failed"] is False
    assert (
        stop(agent(1, status=OK, end=9), failed, tool(3, 1, "other", start=2, end=3))["tool_failed"] is True
    )
    assert stop(agent(1, end=9), tool(3, 1), tool(4, 1, status=ERROR, start=2, end=3))["tool_failed"] is True


def test_an_interrupt_waits_whatever_the_status_and_never_claims() -> None:
    for status in (0, OK, ERROR):
        waiting = node(2, 1, "billing", 1, "task-1", status=status, exceptions=["x.GraphInterrupt"])
        found = stop(inference(1, end=9), waiting)
        assert (found["stop_cause"], found["loop"]) == ("approval_requested", "ended")
        assert found["approval"]["resume_token"] == KEY.digest("ref", "task-1")
    own = inference(1, exceptions=["langgraph.errors.NodeInterrupt"], status=ERROR)
    assert cause(own) == ("approval_requested", "ended")


def test_an_error_beside_an_interrupt_is_an_error() -> None:
    waiting = node(2, 1, "billing", 1, exceptions=["x.GraphInterrupt"])
    assert (
        cause(inference(1, status=ERROR), waiting, node(3, 1, "bad", 1, status=ERROR))[0] == "provider_error"
    )
    both = node(2, 1, "billing", 1, status=ERROR, exceptions=["x.GraphInterrupt", "RuntimeError"])
    assert cause(inference(1, status=ERROR), both)[0] == "provider_error"


def test_a_task_that_ran_again_and_did_not_ask_is_answered() -> None:
    waiting = node(2, 1, "billing", 1, "task-1", exceptions=["x.GraphInterrupt"])
    answered = node(3, 1, "billing", 1, "task-1", start=2, end=3)
    assert cause(inference(1, end=9), waiting, answered) == ("natural_finish", "claimed")
    other = node(3, 1, "billing", 1, "task-2", start=2, end=3)
    assert cause(inference(1, end=9), waiting, other) == ("approval_requested", "ended")


def test_passing_control_to_the_graph_above_is_no_failure() -> None:
    handed = node(2, 1, "billing", 1, exceptions=["langgraph.errors.ParentCommand"])
    assert cause(inference(1), handed) == ("natural_finish", "claimed")


def test_steps_are_the_model_calls_each_with_the_tools_after_it() -> None:
    spans = [agent(1, end=20, status=OK)]
    spans += [chat(10 + n, 1, start=2 * n, end=2 * n + 1) for n in range(3)]
    spans += [tool(20 + n, 1, f"t{n}", start=2 * n + 1, end=2 * n + 2) for n in range(2)]
    found = stop(*spans)
    assert [each["tools"] for each in found["steps"]] == [["t0"], ["t1"], []]


def test_a_long_loop_keeps_its_newest_steps_within_a_receipts_size() -> None:
    name = "long" * 23
    spans = [agent(1, end=9_000, status=OK)]
    for n in range(600):
        spans.append(chat(1_000 + n, 1, start=2 * n, end=2 * n + 1))
        spans += [
            tool(5_000 + 3 * n + m, 1, f"{'long' * 23}{n}", start=2 * n + 1, end=2 * n + 2) for m in range(3)
        ]
    found = read(request(as_protobuf(spans)))
    (body,) = bodies(found, "stopped")
    assert 15 < len(body["steps"]) < 30
    assert body["steps"][-1]["tools"] == [f"{name}599"] * 3
