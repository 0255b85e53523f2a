"""Tool calls in traces: effects, answers that never read as better than they are, and questions to people."""

import json
from typing import Any

import pytest

from tests.adapters.otlp_requests import (
    AGENTS_SDK,
    ERROR,
    JSON,
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
    tool,
)
from tests.adapters.places import KEY, MARKER


def tools(*spans: Sent, scope: str = "") -> list[tuple[str, str | None]]:
    found = read_spans(*spans, scope=scope)
    answers = {body["operation_key"]: body["answer"] for body in bodies(found, "effect_answered")}
    return [(body["tool"], answers.get(body["operation_key"])) for body in bodies(found, "effect_intended")]


@pytest.mark.parametrize(
    ("span", "answer"),
    [
        (tool(2, 1), "acknowledged"),
        (tool(2, 1, status=OK), "acknowledged"),
        (tool(2, 1, status=ERROR), "failed"),
        (tool(2, 1, status=ERROR, exceptions=["app.PaymentError"]), "failed"),
        (tool(2, 1, attributes={"error.type": "500"}), "failed"),
        (tool(2, 1, status=ERROR, attributes={"error.type": "timeout"}), "no_answer"),
        (tool(2, 1, status=ERROR, exceptions=["asyncio.exceptions.CancelledError"]), "no_answer"),
        (tool(2, 1, end=None), None),
    ],
)
def test_silence_and_errors_of_a_call_never_read_as_done(span: Sent, answer: str | None) -> None:
    assert tools(agent(1, end=9), span) == [("refund", answer)]


def test_a_calls_own_id_makes_its_operation_and_payload() -> None:
    named = {"gen_ai.tool.call.id": "call_1"}
    found = read_spans(agent(1), tool(2, 1, attributes=named), tool(3, 1, attributes=named, start=2, end=3))
    first, second = bodies(found, "effect_intended")
    assert first == second
    assert first["payload"] == KEY.digest("payload", "call_1")
    assert "call_1" not in repr(found)
    apart = bodies(read_spans(agent(1), tool(2, 1), tool(3, 1)), "effect_intended")
    assert apart[0]["operation_key"] != apart[1]["operation_key"]
    elsewhere = tool(2, 1, attributes=named), agent(1, attributes={"session.id": "branch"})
    assert bodies(read_spans(*elsewhere), "effect_intended")[0]["operation_key"] != first["operation_key"]


def test_a_call_that_asks_a_person_is_no_effect() -> None:
    asking = tool(3, 2, status=OK, exceptions=["langgraph.errors.GraphInterrupt"])
    waiting = node(2, 1, "tools", 1, exceptions=["langgraph.errors.GraphInterrupt"])
    assert tools(inference(1), waiting, asking) == []
    assert tools(inference(1), waiting, asking, tool(4, 2, "lookup")) == [("lookup", "acknowledged")]


def sdk_call(span: int, parent: int, **rest: Any) -> Sent:
    filled = rest.pop("filled", ("input.value",))
    attributes = {"tool.name": "refund", **dict.fromkeys(filled, MARKER)}
    return inference(span, parent, "TOOL", "refund", attributes=attributes, **rest)


def sdk_run(*spans: Sent) -> tuple[Sent, ...]:
    billing = inference(2, 1, "AGENT", "billing", attributes={"agent.name": "billing"}, end=8)
    return inference(1, 0, "AGENT", "support", end=9), billing, inference(3, 2, name="turn", end=2), *spans


def test_an_agents_sdk_call_without_output_waits_only_in_the_last_round() -> None:
    run = sdk_run(sdk_call(4, 3))
    assert tools(*run, scope=AGENTS_SDK) == []
    assert cause(*run, scope=AGENTS_SDK) == ("approval_requested", "ended")
    later = *run, inference(5, 2, name="turn", start=3, end=4)
    assert tools(*later, scope=AGENTS_SDK) == [("refund", "no_answer")]  # it returned nothing
    assert cause(*later, scope=AGENTS_SDK) == ("natural_finish", "claimed")


def test_an_agents_sdk_call_whose_content_was_withheld_is_an_effect_nobody_answered() -> None:
    assert tools(*sdk_run(sdk_call(4, 3, filled=())), scope=AGENTS_SDK) == [("refund", "no_answer")]
    assert tools(*sdk_run(sdk_call(4, 3, status=ERROR)), scope=AGENTS_SDK) == [("refund", "failed")]
    assert tools(*sdk_run(sdk_call(4, 3)), scope="another") == [("refund", "acknowledged")]


def test_a_span_sent_twice_counts_once_and_with_other_content_is_refused() -> None:
    one, other = agent(1, status=OK), agent(1, status=ERROR)
    assert read_spans(one, one) == read_spans(one)
    found = read_spans(one, other, one, other)
    assert [(each.where, each.field, each.rule) for each in found.refused] == [
        ("request:1", "span_id", "conflict")
    ]
    assert found.runs == read_spans(other).runs  # the less good one stands


def test_a_late_span_gives_what_was_known_the_same_place() -> None:
    early = agent(1, end=9, status=OK), tool(2, 1), chat(3, 1)
    late = tool(4, 1, "late", start=3, end=4, status=ERROR)
    before, after = read_spans(*early), read_spans(*early, late)
    places = {(each.kind, each.place): each for each in before.runs[0].receipts if each.kind != "stopped"}
    assert places.items() <= {(each.kind, each.place): each for each in after.runs[0].receipts}.items()
    # The end is told anew, and not as if the first telling had been otherwise.
    assert receipts(before, "stopped")[0].place != receipts(after, "stopped")[0].place
    assert bodies(after, "stopped")[0]["tool_failed"] is True


def test_a_claim_of_complete_evidence_changes_nothing() -> None:
    content = json.dumps(
        {
            "resourceSpans": [
                {
                    "resource": {
                        "attributes": [{"key": "branchgate.evidence", "value": {"stringValue": "complete"}}]
                    },
                    "scopeSpans": [
                        {
                            "spans": [
                                {
                                    "traceId": "a" * 32,
                                    "spanId": "b" * 16,
                                    "startTimeUnixNano": 1,
                                    "attributes": [
                                        {"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}}
                                    ],
                                }
                            ]
                        }
                    ],
                }
            ]
        }
    )
    (started,) = bodies(read(request(content.encode(), JSON)), "run_started")
    assert started["recording"] == "imported"


def test_a_chain_of_spans_as_deep_as_a_request_allows_is_read() -> None:
    spans = [agent(1, status=OK, end=2), *(agent(n, n - 1, f"a{n % 7}") for n in range(2, 15_000))]
    found = read(request(as_protobuf(spans)))
    assert len(bodies(found, "interaction")) == 14_998
    assert len(bodies(found, "stopped")) == 1
