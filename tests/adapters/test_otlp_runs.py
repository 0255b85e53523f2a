"""Which run a span is of, who worked, and who passed work to whom, by every convention."""

from typing import Any

import pytest

from branches.evidence.domains import THREAD
from tests.adapters.otlp_requests import (
    ERROR,
    OK,
    Sent,
    agent,
    bodies,
    chat,
    edges,
    inference,
    node,
    read_spans,
    receipts,
    stop,
    tool,
    workflow,
)
from tests.adapters.places import KEY, MARKER


@pytest.mark.parametrize(
    "key",
    ["gen_ai.conversation.id", "session.id", "traceloop.association.properties.session_id"],
)
def test_a_run_is_its_conversation_and_else_its_trace(key: str) -> None:
    named = read_spans(agent(1, attributes={key: "c-1"}), agent(2, trace=2, attributes={key: "c-1"}))
    assert [each.external_ref for each in named.runs] == [KEY.digest(THREAD, "c-1")]
    unnamed = read_spans(agent(1), agent(2, trace=2))
    assert [each.external_ref for each in unnamed.runs] == [
        KEY.digest(THREAD, f"{1:032x}"),
        KEY.digest(THREAD, f"{2:032x}"),
    ]


def test_a_langgraph_thread_is_a_run_where_no_session_is_named() -> None:
    found = read_spans(inference(1, attributes={"metadata": '{"langgraph_step": 1, "thread_id": "t-1"}'}))
    assert [each.external_ref for each in found.runs] == [KEY.digest(THREAD, "t-1")]
    foreign = read_spans(inference(1, attributes={"metadata": '{"thread_id": "t-1"}'}))
    assert [each.external_ref for each in foreign.runs] == [KEY.digest(THREAD, f"{1:032x}")]


def test_a_span_is_of_the_conversation_nearest_above_it() -> None:
    named = {"gen_ai.conversation.id": "inner"}
    found = read_spans(
        workflow(1, attributes={"gen_ai.conversation.id": "outer"}),
        agent(2, 1, attributes=named),
        tool(3, 2),
        tool(4, 1, "outside"),
    )
    by_run = {
        run.external_ref: [each.body["tool"] for each in run.receipts if each.kind == "effect_intended"]
        for run in found.runs
    }
    assert by_run == {KEY.digest(THREAD, "outer"): ["outside"], KEY.digest(THREAD, "inner"): ["refund"]}
    assert len(bodies(found, "stopped")) == 2  # each conversation has an end of its own


def test_spans_above_the_only_conversation_of_a_trace_are_of_it_too() -> None:
    found = read_spans(workflow(1), agent(2, 1, attributes={"session.id": "c-1"}), tool(3, 1))
    assert [each.external_ref for each in found.runs] == [KEY.digest(THREAD, "c-1")]


def test_spans_of_no_convention_are_no_run() -> None:
    assert read_spans(Sent(1, name="GET /"), Sent(2, 1, {"gen_ai.operation.name": "embeddings"})).runs == ()


# Who, by each convention


@pytest.mark.parametrize(
    ("attributes", "name", "expected"),
    [
        ({"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a"}, "x", "a"),
        ({"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.id": "id-1"}, "x", "id-1"),
        ({"gen_ai.operation.name": "invoke_agent"}, "invoke_agent b", "b"),
        ({"openinference.span.kind": "AGENT", "agent.name": "a"}, "x", "a"),
        ({"openinference.span.kind": "AGENT", "graph.node.id": "n"}, "x", "n"),
        ({"openinference.span.kind": "AGENT"}, "named", "named"),
        ({"traceloop.span.kind": "agent", "traceloop.entity.name": "e"}, "e.agent", "e"),
    ],
)
def test_an_agent_is_named_by_every_convention(attributes: Any, name: str, expected: str) -> None:
    found = read_spans(workflow(1), Sent(2, 1, attributes, name), tool(3, 2))
    assert [each.agent for each in receipts(found, "effect_intended")] == [expected]


@pytest.mark.parametrize(
    "attributes",
    [
        {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "refund"},
        {"gen_ai.system": "openai", "gen_ai.tool.name": "refund"},
        {"openinference.span.kind": "TOOL", "tool.name": "refund"},
        {"traceloop.span.kind": "tool", "traceloop.entity.name": "refund"},
        {"tool.name": "refund"},
    ],
)
def test_a_tools_call_is_an_effect_by_every_convention(attributes: Any) -> None:
    (intended,) = bodies(read_spans(workflow(1), Sent(2, 1, attributes, "x")), "effect_intended")
    assert intended["tool"] == "refund"
    assert (intended["key_strength"], intended["effect_class"]) == ("weak", "unknown")


@pytest.mark.parametrize(
    "attributes",
    [
        {"gen_ai.operation.name": "chat"},
        {"gen_ai.operation.name": "generate_content", "gen_ai.provider.name": "x"},
        {"gen_ai.system": "openai", "gen_ai.request.model": "m"},
        {"openinference.span.kind": "LLM"},
        {"llm.request.type": "chat"},
    ],
)
def test_a_model_call_is_progress_by_every_convention(attributes: Any) -> None:
    assert bodies(read_spans(workflow(1), Sent(2, 1, attributes)), "progress") == [{"measure": "message"}]
    assert bodies(read_spans(workflow(1), Sent(2, 1, attributes, status=ERROR)), "progress") == []
    assert bodies(read_spans(workflow(1), Sent(2, 1, attributes, end=None)), "progress") == []


@pytest.mark.parametrize(
    "names",
    [
        ("gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens"),
        ("gen_ai.usage.prompt_tokens", "gen_ai.usage.completion_tokens"),
        ("llm.token_count.prompt", "llm.token_count.completion"),
        ("llm.usage.prompt_tokens", "llm.usage.completion_tokens"),
    ],
)
def test_tokens_are_counted_in_every_convention(names: tuple[str, str]) -> None:
    found = stop(agent(1, end=9), chat(2, 1, attributes=dict(zip(names, (11, 3), strict=True))))
    assert found["steps"] == [{"tools": [], "tokens": 14}]
    assert stop(agent(1), chat(2, 1))["steps"] == [{"tools": [], "tokens": None}]
    vast = chat(2, 1, attributes=dict.fromkeys(names, 2**53 - 1))
    assert stop(agent(1), vast)["steps"] == [{"tools": [], "tokens": 2**53 - 1}]


# Edges


def test_a_link_of_a_known_kind_is_an_edge_from_the_linked_spans_agent() -> None:
    spans = [workflow(1), agent(2, 1, "triage"), tool(3, 2, "transfer")]
    for kind, expected in (("handoff", "handoff"), ("return", "return"), (MARKER, "link")):
        linked = agent(4, 1, start=2, end=3, links=[(1, 3, kind)], status=OK)
        assert edges(read_spans(*spans, linked)) == [("triage", "billing", expected, "ok")]
    for kind in ("branch_of", "resume_of", "retry_of"):
        assert edges(read_spans(*spans, agent(4, 1, links=[(1, 3, kind)]))) == []
    assert edges(read_spans(*spans, agent(4, 1, links=[(1, 77, "handoff")]))) == []


def test_an_agent_under_another_is_an_edge_also_through_tools_and_other_spans() -> None:
    spans = [agent(1, name="lead"), tool(2, 1, "ask_scout"), Sent(3, 2, name="POST /")]
    found = read_spans(*spans, agent(4, 3, "scout", status=ERROR), agent(5, 1, "lead"))
    assert edges(found) == [("lead", "scout", "invoke", "error")]


def test_a_node_that_names_the_one_before_it_is_a_handoff() -> None:
    before = inference(1, kind="AGENT", attributes={"graph.node.id": "n1", "agent.name": "triage"}, parent=9)
    after = {"graph.node.id": "n2", "agent.name": "billing", "graph.node.parent_id": "n1"}
    found = read_spans(workflow(9), before, inference(2, 9, "AGENT", attributes=after))
    assert edges(found) == [("triage", "billing", "handoff", "ok")]


def test_of_several_signs_of_one_hand_over_there_is_one_edge() -> None:
    attributes = {"graph.node.parent_id": "lead"}
    found = read_spans(
        agent(1, name="lead"), agent(2, 1, "scout", links=[(1, 1, "delegate")], attributes=attributes)
    )
    assert edges(found) == [("lead", "scout", "delegate", "unset")]


def test_a_graphs_steps_are_edges_only_where_one_node_went_before() -> None:
    root = inference(1, name="graph", end=9)
    first, second = node(2, 1, "plan", 1), node(3, 1, "left", 2, start=1, end=2)
    fanned = node(4, 1, "right", 2, start=1, end=2)
    joined = node(5, 1, "join", 3, start=3, end=4)
    assert edges(read_spans(root, first, second)) == [("plan", "left", "step", "ok")]
    assert edges(read_spans(root, first, second, fanned, joined)) == [
        ("plan", "left", "step", "ok"),
        ("plan", "right", "step", "ok"),
    ]
    again = node(6, 1, "left", 2, "3", start=2, end=3)  # the same task, tried a second time
    assert ("left", "join", "step", "ok") in edges(read_spans(root, first, second, again, joined))
    other_graph = node(7, 8, "left", 2)
    assert edges(read_spans(root, first, inference(8, name="other"), other_graph)) == []


def test_a_runnable_inside_a_node_is_not_the_node() -> None:
    inner = node(3, 2, "plan", 1, "2")
    assert {
        each.agent for each in receipts(read_spans(inference(1), node(2, 1, "plan", 1), inner), "progress")
    } == set()
    found = read_spans(inference(1), node(2, 1, "plan", 1), inner, tool(4, 3))
    assert [each.agent for each in receipts(found, "effect_intended")] == ["plan"]
    assert edges(found) == []
