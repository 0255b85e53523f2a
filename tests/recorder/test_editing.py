"""Editing one earlier message in place: what would silently do something else is refused by name."""

import operator
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import END, START, StateGraph, add_messages
from langgraph.types import Command

from debugger.recorder import Recorder, branching
from debugger.recorder.conformance.gate import KEY, Gate, claims_of
from tests.recorder.team import World, ask, build, wrap_the_rest


class Appending(TypedDict):
    messages: Annotated[list[Any], operator.add]


class Talk(TypedDict):
    messages: Annotated[list[Any], add_messages]
    seen: list[str]


def recorded(gate: Gate, recorder: Recorder, graph: Any, question: Any) -> str:
    run = recorder.start_run(graph, thread_id="t-1")
    run.invoke(question)
    assert recorder.flush(60)
    return run.run


def edited(
    gate: Gate,
    recorder: Recorder,
    graph: Any,
    point: dict[str, Any],
    edits: list[tuple[str, str]],
    **bound: Any,
) -> tuple[str, str]:
    """Resume a branch with edits (target, text); returns the branch and its word."""
    wrap_the_rest(recorder)
    meant, sealed = gate.edit(edits)
    envelope = gate.permit(checkpoint=point, edits=meant, **bound)
    gate.edits[claims_of(envelope)["permit"]] = sealed
    word = branching.resume(recorder, graph, envelope)
    assert recorder.flush(60)
    assert gate.refused == []
    return claims_of(envelope)["branch"], word


def target(gate: Gate, run: str, position: int) -> str:
    return gate.of(run, "message")[position]["message"]


def test_it_replaces_the_text_in_place_and_keeps_name_and_id(gate: Gate, world: World) -> None:
    recorder = world.open(gate.url)
    graph = build(recorder, world)
    run = recorded(gate, recorder, graph, ask())
    before = world.rows("t-1")
    plan = target(gate, run, 1)
    branch, word = edited(gate, recorder, graph, gate.of(run, "checkpoint")[2], [(plan, "a better plan")])
    assert word == "natural_finish"
    held = graph.get_state({"configurable": {"thread_id": branch}}).values["messages"]
    assert [each.content for each in held][1] == "a better plan"
    assert held[1].name == "planner"
    assert len(held) == 3
    assert world.delivered("create_ticket")[-1]["body"] == "about a better plan"
    assert world.rows("t-1") == before
    again = [each for each in gate.of(branch, "message") if each["message"] == plan]
    assert [each["content"] for each in again] == [KEY.digest("content", "a better plan")]
    update = gate.of(branch, "checkpoint")[0]
    assert update["parent_checkpoint"] == gate.of(run, "checkpoint")[2]["checkpoint"]


def test_it_counts_the_edited_step_s_calls_as_the_parent_s_own(gate: Gate, world: World) -> None:
    recorder = world.open(gate.url)
    graph = build(recorder, world)
    run = recorded(gate, recorder, graph, ask())
    ticket = gate.of(run, "effect_intended")[0]
    branch, word = edited(
        gate,
        recorder,
        graph,
        gate.of(run, "checkpoint")[2],
        [(target(gate, run, 1), "another plan")],
        operations={ticket["operation_key"]: {"do": "reuse", "payload": ticket["payload"]}},
    )
    assert word == "approval_requested"
    assert [each["operation_key"] for each in gate.of(branch, "effect_held")] == [ticket["operation_key"]]
    assert len(world.delivered("create_ticket")) == 1


@pytest.mark.parametrize(
    ("point", "aim", "rule"),
    [(2, "absent", "message_absent"), (0, "input", "edit_at_input"), (2, "later", "message_absent")],
)
def test_it_refuses_an_edit_that_would_append_or_lose_input(
    gate: Gate, world: World, point: int, aim: str, rule: str
) -> None:
    recorder = world.open(gate.url)
    graph = build(recorder, world)
    run = recorded(gate, recorder, graph, ask())
    aims = {
        "absent": KEY.digest("message", "no such id"),
        "input": target(gate, run, 0),
        "later": target(gate, run, 2),
    }
    _, word = edited(gate, recorder, graph, gate.of(run, "checkpoint")[point], [(aims[aim], "x")])
    assert word == f"declined_{rule}"
    assert gate.redeem_calls == 0


def test_it_refuses_an_edit_in_a_channel_that_appends(gate: Gate, world: World) -> None:
    recorder = world.open(gate.url)
    graph: Any = StateGraph(Appending)
    graph.add_node("writer", lambda state: {"messages": [AIMessage("draft", id="d-1")]})
    graph.add_node("publisher", lambda state: {"messages": [AIMessage("final", id="f-1")]})
    graph.add_edge(START, "writer")
    graph.add_edge("writer", "publisher")
    graph.add_edge("publisher", END)
    compiled = graph.compile(checkpointer=world.saver())
    run = recorded(gate, recorder, compiled, {"messages": [HumanMessage("go", id="h-1")]})
    draft = KEY.digest("message", "d-1")
    _, word = edited(gate, recorder, compiled, gate.of(run, "checkpoint")[2], [(draft, "better")])
    assert word == "declined_channel_appends"


def test_it_refuses_an_edit_whose_text_is_not_what_was_approved(gate: Gate, world: World) -> None:
    recorder = world.open(gate.url)
    graph = build(recorder, world)
    run = recorded(gate, recorder, graph, ask())
    meant, _ = gate.edit([(target(gate, run, 1), "approved")])
    _, sealed = gate.edit([(target(gate, run, 1), "smuggled")])
    envelope = gate.permit(checkpoint=gate.of(run, "checkpoint")[2], edits=meant)
    gate.edits[claims_of(envelope)["permit"]] = [{**sealed[0], "edit": meant[0]["edit"]}]
    assert branching.resume(recorder, graph, envelope) == "declined_edit_digest"


def two_steps(world: World, first: Any, **options: Any) -> Any:
    graph: Any = StateGraph(Talk)
    graph.add_node("writer", first, **options)
    graph.add_node("publisher", lambda state: {"seen": [each.content for each in state["messages"]]})
    graph.add_edge(START, "writer")
    graph.add_edge("publisher", END)
    return graph


def test_it_keeps_the_next_step_after_a_node_that_routes_by_command(gate: Gate, world: World) -> None:
    recorder = world.open(gate.url)

    def writer(state: Talk) -> Command[Any]:
        return Command(update={"messages": [AIMessage("draft", id="d-1")]}, goto="publisher")

    graph = two_steps(world, writer, destinations=("publisher",)).compile(checkpointer=world.saver())
    run = recorded(gate, recorder, graph, {"messages": [HumanMessage("go", id="h-1")], "seen": []})
    draft = KEY.digest("message", "d-1")
    branch, word = edited(gate, recorder, graph, gate.of(run, "checkpoint")[2], [(draft, "better")])
    assert word == "natural_finish"
    assert graph.get_state({"configurable": {"thread_id": branch}}).values["seen"] == ["go", "better"]


def test_it_edits_after_two_nodes_that_ran_at_once(gate: Gate, world: World) -> None:
    recorder = world.open(gate.url)
    graph: Any = StateGraph(Talk)
    graph.add_node("left", lambda state: {"messages": [AIMessage("l", id="l-1")]})
    graph.add_node("right", lambda state: {"messages": [AIMessage("r", id="r-1")]})
    graph.add_node("publisher", lambda state: {"seen": [each.content for each in state["messages"]]})
    graph.add_edge(START, "left")
    graph.add_edge(START, "right")
    graph.add_edge(["left", "right"], "publisher")
    graph.add_edge("publisher", END)
    compiled = graph.compile(checkpointer=world.saver())
    run = recorded(gate, recorder, compiled, {"messages": [HumanMessage("go", id="h-1")], "seen": []})
    left = KEY.digest("message", "l-1")
    branch, word = edited(gate, recorder, compiled, gate.of(run, "checkpoint")[2], [(left, "better")])
    assert word == "natural_finish"
    assert compiled.get_state({"configurable": {"thread_id": branch}}).values["seen"] == ["go", "better", "r"]


def routed(world: World, router: Any) -> Any:
    graph: Any = StateGraph(Talk)
    graph.add_node("writer", lambda state: {"messages": [AIMessage("publish it", id="d-1")]})
    graph.add_node("publisher", lambda state: {"seen": ["published"]})
    graph.add_node("bin", lambda state: {"seen": ["binned"]})
    graph.add_edge(START, "writer")
    graph.add_conditional_edges("writer", router, ["publisher", "bin"])
    return graph.compile(checkpointer=world.saver())


def test_it_leaves_the_permit_unused_when_the_router_would_now_go_elsewhere(gate: Gate, world: World) -> None:
    recorder = world.open(gate.url)
    compiled = routed(
        world, lambda state: "publisher" if "publish" in state["messages"][-1].content else "bin"
    )
    run = recorded(gate, recorder, compiled, {"messages": [HumanMessage("go", id="h-1")], "seen": []})
    draft = KEY.digest("message", "d-1")
    branch, word = edited(gate, recorder, compiled, gate.of(run, "checkpoint")[2], [(draft, "burn it")])
    assert word == "declined_edit_next"
    assert gate.redeem_calls == 0
    assert world.rows(branch) == world.rows("no such thread")


def test_it_does_not_start_when_the_router_goes_elsewhere_after_all(gate: Gate, world: World) -> None:
    recorder = world.open(gate.url)
    asked = []

    def fickle(state: Talk) -> str:
        asked.append(len(state["messages"]))
        return "publisher" if len(asked) <= 2 else "bin"  # the run's own step, then the rehearsal

    compiled = routed(world, fickle)
    run = recorded(gate, recorder, compiled, {"messages": [HumanMessage("go", id="h-1")], "seen": []})
    draft = KEY.digest("message", "d-1")
    branch, word = edited(gate, recorder, compiled, gate.of(run, "checkpoint")[2], [(draft, "burn it")])
    assert word == "not_restored"
    assert gate.of(branch, "started") == []
    assert gate.of(branch, "restored")[0]["state"]["agent_memory"]["result"] == "not_restored"
    assert compiled.get_state({"configurable": {"thread_id": branch}}).values["seen"] == []


# State values


def value_target(channel: str) -> str:
    return KEY.digest("channel", channel)


def with_value(
    gate: Gate, recorder: Recorder, graph: Any, point: dict[str, Any], channel: str, text: str, **bound: Any
) -> tuple[str, str]:
    """Resume a branch with one edit of a state value; returns the branch and its word."""
    wrap_the_rest(recorder)
    meant, sealed = gate.edit(
        [(value_target(channel), text)], state_key=bound.pop("state_key", "agent_memory")
    )
    envelope = gate.permit(checkpoint=point, edits=meant, **bound)
    gate.edits[claims_of(envelope)["permit"]] = sealed
    word = branching.resume(recorder, graph, envelope)
    assert recorder.flush(60)
    assert gate.refused == []
    return claims_of(envelope)["branch"], word


class Counted(TypedDict):
    messages: Annotated[list[Any], add_messages]
    limit: int
    notes: Annotated[list[str], operator.add]
    route: str
    pair: Any
    wrote: str


def counting(world: World) -> Any:
    """A writer that sets every value, then a publisher that says what it found; `route` steers."""
    graph: Any = StateGraph(Counted)

    def writer(state: Counted) -> dict[str, Any]:
        return {
            "messages": [AIMessage("draft", id="d-1")],
            "limit": 3,
            "notes": ["one"],
            "route": "publisher",
            "pair": {1, 2},
        }

    graph.add_node("writer", writer)
    graph.add_node(
        "publisher", lambda state: {"wrote": f"{state['limit']} {state['notes']} {sorted(state['pair'])}"}
    )
    graph.add_node("burner", lambda state: {"wrote": "burnt"})
    graph.add_edge(START, "writer")
    graph.add_conditional_edges("writer", lambda state: state["route"], ["publisher", "burner"])
    return graph.compile(checkpointer=world.saver())


def counted(gate: Gate, world: World) -> tuple[Recorder, Any, dict[str, Any]]:
    recorder = world.open(gate.url)
    graph = counting(world)
    run = recorded(gate, recorder, graph, {"messages": [HumanMessage("go", id="h-1")]})
    return recorder, graph, gate.of(run, "checkpoint")[2]


@pytest.mark.parametrize(
    ("channel", "text", "wrote"),
    [("limit", "5", "5 ['one'] [1, 2]"), ("notes", '["two", "three"]', "3 ['two', 'three'] [1, 2]")],
)
def test_it_puts_a_value_in_the_place_of_the_old_one_also_where_a_reducer_would_append(
    gate: Gate, world: World, channel: str, text: str, wrote: str
) -> None:
    recorder, graph, point = counted(gate, world)
    before = world.rows("t-1")
    branch, word = with_value(gate, recorder, graph, point, channel, text)
    assert word == "natural_finish"
    assert graph.get_state({"configurable": {"thread_id": branch}}).values["wrote"] == wrote
    assert world.rows("t-1") == before


@pytest.mark.parametrize(
    ("channel", "text", "rule"),
    [
        ("absent", "1", "value_absent"),
        ("messages", "[]", "value_is_messages"),
        ("pair", "[1, 2]", "value_not_json"),
        ("limit", "{", "value_not_json"),
        ("limit", "NaN", "value_not_json"),
        ("limit", '{"a": 1, "a": 2}', "value_not_json"),
        ("limit", '"5"', "value_of_another_kind"),
        ("limit", "true", "value_of_another_kind"),
        ("route", '"burner"', "edit_next"),
    ],
)
def test_it_refuses_before_the_permit_is_used_a_value_that_would_do_something_else(
    gate: Gate, world: World, channel: str, text: str, rule: str
) -> None:
    recorder, graph, point = counted(gate, world)
    branch, word = with_value(gate, recorder, graph, point, channel, text)
    assert word == f"declined_{rule}"
    assert gate.redeem_calls == 0
    assert world.rows(branch) == world.rows("no such thread")


@pytest.mark.parametrize("state_key", ["workspace", "undeclared"])
def test_it_refuses_a_value_of_a_key_that_is_not_the_agents_memory(
    gate: Gate, world: World, state_key: str
) -> None:
    recorder, graph, point = counted(gate, world)
    _, word = with_value(gate, recorder, graph, point, "limit", "5", state_key=state_key)
    assert word == "declined_state_key_not_editable"


def test_it_refuses_an_edit_whose_state_key_is_not_the_bound_one(gate: Gate, world: World) -> None:
    recorder, graph, point = counted(gate, world)
    wrap_the_rest(recorder)
    meant, sealed = gate.edit([(value_target("limit"), "5")], state_key="agent_memory")
    envelope = gate.permit(checkpoint=point, edits=meant)
    gate.edits[claims_of(envelope)["permit"]] = [{**sealed[0], "state_key": None}]
    assert branching.resume(recorder, graph, envelope) == "declined_edits_differ"
