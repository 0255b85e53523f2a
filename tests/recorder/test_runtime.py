"""What LangGraph does at its edges: interrupts, siblings, differences, subgraphs, limits, revised graphs."""

import operator
import sqlite3
from contextlib import closing
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Send, interrupt

from branches.evidence import langgraph_store, schema
from branches.evidence.canonical import canonical_bytes
from debugger.recorder import Recorder, branching
from debugger.recorder.conformance.gate import KEY, Gate, claims_of
from debugger.recorder.gates import OwnGate
from debugger.recorder.stops import StopLog
from debugger.recorder.topology import describe
from tests.recorder.team import World, ask, build, wrap_the_rest


class Two(TypedDict):
    left: str
    right: str


class Log(TypedDict):
    entries: Annotated[list[str], DeltaChannel(lambda held, writes: held + [x for w in writes for x in w])]
    n: int


def resumed(
    recorder: Recorder, gate: Gate, graph: Any, point: dict[str, Any], **bound: Any
) -> tuple[str, str]:
    wrap_the_rest(recorder)
    envelope = gate.permit(checkpoint=point, **bound)
    word = branching.resume(recorder, graph, envelope)
    assert recorder.flush(60)
    assert gate.refused == []
    return claims_of(envelope)["branch"], word


def gated(recorder: Recorder, world: World) -> Any:
    """Return a graph with a step of two: one asks a person, one makes a ticket beside it."""

    def create_ticket(subject: str) -> str:
        return world.deliver("create_ticket", subject=subject)

    def send_mail(recipient: str, subject: str) -> str:
        return world.deliver("send_mail", recipient=recipient, subject=subject)

    ticket, mail = recorder.wrap(create_ticket), recorder.wrap(send_mail)

    def planner(state: Two) -> dict[str, str]:
        answer = interrupt({"owner": "grace", "deadline": "2026-12-01T00:00:00+00:00"})
        return {"left": f"{answer} {mail('ada', answer)}"}

    graph: Any = StateGraph(Two)
    graph.add_node("planner", planner)
    graph.add_node("writer", lambda state: {"right": ticket("beside")})
    graph.add_edge(START, "planner")
    graph.add_edge(START, "writer")
    graph.add_edge("planner", END)
    graph.add_edge("writer", END)
    return graph.compile(checkpointer=world.saver())


def test_it_records_an_interrupt_as_a_wait_and_goes_on_with_the_answer(gate: Gate, world: World) -> None:
    recorder = world.open(gate.url)
    graph = gated(recorder, world)
    run = recorder.start_run(graph, thread_id="t")
    run.invoke({"left": "", "right": ""})
    assert recorder.flush(60)
    (waiting,) = gate.of(run.run, "stopped")
    assert waiting["stop_cause"] == "approval_requested"
    assert waiting["approval"]["owner"].startswith("hmac-sha256:")
    assert waiting["approval"]["deadline"] == "2026-12-01T00:00:00+00:00"
    assert waiting["approval"]["resume_token"].startswith("hmac-sha256:")
    run.invoke(Command(resume="yes"))
    assert recorder.flush(60)
    assert [each["stop_cause"] for each in gate.of(run.run, "stopped")][-1] == "natural_finish"
    assert len(world.delivered("create_ticket")) == 1
    closing_ = gate.of(run.run, "recording_closed")[-1]
    assert closing_["count"] == len(gate.receipts)


def test_it_asks_anew_in_a_branch_and_leaves_the_finished_sibling_alone(gate: Gate, world: World) -> None:
    recorder = world.open(gate.url)
    graph = gated(recorder, world)
    run = recorder.start_run(graph, thread_id="t")
    run.invoke({"left": "", "right": ""})
    run.invoke(Command(resume="yes"))
    assert recorder.flush(60)
    branch, word = resumed(recorder, gate, graph, gate.of(run.run, "checkpoint")[1])
    assert word == "approval_requested"
    assert len(world.delivered("send_mail")) == 1
    assert len(world.delivered("create_ticket")) == 1
    assert gate.of(branch, "effect_intended") == []


def test_it_brings_the_ancestors_of_a_channel_that_keeps_differences(gate: Gate, world: World) -> None:
    recorder = world.open(gate.url)
    graph: Any = StateGraph(Log)
    graph.add_node("writer", lambda state: {"entries": [f"e{state.get('n', 0)}"], "n": state.get("n", 0) + 1})
    graph.add_node("publisher", lambda state: {"n": len(state["entries"]) + 100})
    graph.add_edge(START, "writer")
    graph.add_conditional_edges(
        "writer", lambda state: "writer" if state["n"] < 5 else "publisher", ["writer", "publisher"]
    )
    graph.add_edge("publisher", END)
    compiled = graph.compile(checkpointer=world.saver())
    run = recorder.start_run(compiled, thread_id="t")
    assert run.invoke({"entries": [], "n": 0})["n"] == 105
    assert recorder.flush(60)
    before = world.rows("t")
    branch, word = resumed(recorder, gate, compiled, gate.of(run.run, "checkpoint")[-2])
    assert word == "natural_finish"
    state = compiled.get_state({"configurable": {"thread_id": branch}}).values
    assert state["entries"] == ["e0", "e1", "e2", "e3", "e4"]
    assert state["n"] == 105
    assert world.rows("t") == before


def test_it_sees_a_lost_ancestor_of_a_channel_that_keeps_differences(gate: Gate, world: World) -> None:
    recorder = world.open(gate.url)
    graph: Any = StateGraph(Log)
    graph.add_node("writer", lambda state: {"entries": ["e"], "n": state.get("n", 0) + 1})
    graph.add_edge(START, "writer")
    graph.add_conditional_edges("writer", lambda state: "writer" if state["n"] < 3 else END, ["writer", END])
    compiled = graph.compile(checkpointer=world.saver())
    recorder.start_run(compiled, thread_id="t").invoke({"entries": [], "n": 0})
    head = compiled.get_state({"configurable": {"thread_id": "t"}}).config["configurable"]["checkpoint_id"]
    with closing(sqlite3.connect(world.store)) as connection:
        whole = langgraph_store.memory_fingerprint(connection, KEY, "t", head)
        connection.execute("DELETE FROM writes WHERE channel = 'entries'")
        assert langgraph_store.memory_fingerprint(connection, KEY, "t", head) != whole


def test_it_follows_sends_to_the_agents_they_name(gate: Gate, world: World) -> None:
    recorder = world.open(gate.url)

    class Fan(TypedDict):
        done: Annotated[list[str], operator.add]

    graph: Any = StateGraph(Fan)
    graph.add_node("planner", lambda state: {"done": ["planned"]})
    graph.add_node("writer", lambda state: {"done": [state["part"]]})
    graph.add_edge(START, "planner")
    graph.add_conditional_edges(
        "planner", lambda state: [Send("writer", {"part": p}) for p in "ab"], ["writer"]
    )
    run = recorder.start_run(graph.compile(checkpointer=world.saver()), thread_id="t")
    run.invoke({"done": []})
    assert recorder.flush(60)
    edges = [(each["from"], each["to"]) for each in gate.of(run.run, "interaction")]
    assert edges == [("planner", "writer")] * 2


def test_it_names_the_root_checkpoint_for_a_call_inside_a_subgraph(gate: Gate, world: World) -> None:
    recorder = world.open(gate.url)

    def create_ticket(subject: str) -> str:
        return "done"

    ticket = recorder.wrap(create_ticket)
    inner: Any = StateGraph(dict)
    inner.add_node("deep", lambda state: {"x": ticket("case")})
    inner.add_edge(START, "deep")
    outer: Any = StateGraph(dict)
    outer.add_node("writer", inner.compile())
    outer.add_edge(START, "writer")
    graph = outer.compile(checkpointer=world.saver())
    run = recorder.start_run(graph, thread_id="t")
    run.invoke({"q": 1})
    assert recorder.flush(60)
    (intended,) = gate.of(run.run, "effect_intended")
    assert intended["checkpoint"] in [each["checkpoint"] for each in gate.of(run.run, "checkpoint")]


def test_it_stops_at_the_declared_number_of_steps(gate: Gate, world: World) -> None:
    recorder = world.open(gate.url)
    graph: Any = StateGraph(dict)
    graph.add_node("writer", lambda state: {"n": state.get("n", 0) + 1})
    graph.add_edge(START, "writer")
    graph.add_edge("writer", "writer")
    run = recorder.start_run(graph.compile(checkpointer=world.saver()), thread_id="t")
    run.invoke({"n": 0})
    assert recorder.flush(60)
    (stopped,) = gate.of(run.run, "stopped")
    assert stopped["stop_cause"] == "step_limit"
    assert len(stopped["steps"]) == 12 == stopped["policy"]["conditions"][0]["n"]


@pytest.mark.parametrize(
    ("limit", "tools", "is_claimed"), [(250, [], True), (700, [], False), (60, ["t" * 9] * 3, False)]
)
def test_it_claims_no_step_limit_that_the_receipt_s_steps_do_not_bear_out(
    gate: Gate, world: World, limit: int, tools: list[str], is_claimed: bool
) -> None:
    recorder = world.open(gate.url)
    stops = StopLog(limit)
    for _ in range(limit):
        stops.stepped(tools, ())
    record = recorder.record("run_" + "c" * 24, "run_" + "c" * 24, OwnGate("run", recorder.answers))
    record.emit("stopped", stops.body("step_limit", record, progress=True))
    body = record.draft("stopped", stops.body("step_limit", record, progress=True))["body"]
    assert len(canonical_bytes(body)) <= schema.MAX_BODY_BYTES
    assert (len(body["steps"]) == limit, body["stop_cause"]) == (
        is_claimed,
        "step_limit" if is_claimed else None,
    )
    assert len(stops.body("natural_finish", record, progress=True)["steps"]) <= limit + 1
    assert stops.body("natural_finish", record, progress=True)["stop_cause"] == "natural_finish"
    assert recorder.flush(60)
    assert gate.refused == []


def test_it_takes_tokens_and_a_cut_answer_from_the_provider_s_word(gate: Gate, world: World) -> None:
    recorder = world.open(gate.url)
    message = AIMessage(
        "and then",
        name="writer",
        id="a-1",
        usage_metadata={"input_tokens": 5, "output_tokens": 7, "total_tokens": 12},
        response_metadata={"finish_reason": "length"},
    )
    graph: Any = StateGraph(dict)
    graph.add_node("writer", lambda state: {"messages": [*state["messages"], message]})
    graph.add_edge(START, "writer")
    run = recorder.start_run(graph.compile(checkpointer=world.saver()), thread_id="t")
    run.invoke({"messages": [HumanMessage("go", id="h-1")]})
    assert recorder.flush(60)
    (stopped,) = gate.of(run.run, "stopped")
    assert stopped["stop_cause"] == "output_limit"
    assert stopped["steps"] == [{"tools": [], "tokens": 12}]
    assert gate.of(run.run, "message")[-1]["tokens"] == 7


def test_it_always_runs_with_durability_sync(gate: Gate, world: World) -> None:
    recorder = world.open(gate.url)
    seen: list[int] = []

    def create_ticket(subject: str) -> str:
        with closing(sqlite3.connect(world.store)) as connection:
            seen.append(connection.execute("SELECT count(*) FROM checkpoints").fetchone()[0])
        return "done"

    ticket = recorder.wrap(create_ticket)
    graph: Any = StateGraph(dict)
    graph.add_node("a", lambda state: {"x": 1})
    graph.add_node("b", lambda state: {"x": ticket("case")})
    graph.add_edge(START, "a")
    graph.add_edge("a", "b")
    run = recorder.start_run(graph.compile(checkpointer=world.saver()), thread_id="t")
    run.invoke({"q": 1})
    assert seen == [3]


def test_it_sees_a_changed_node_and_says_where_it_cannot_see(gate: Gate, world: World) -> None:
    recorder = world.open(gate.url)
    first, second = build(recorder, world), build(recorder, world)
    assert describe(first, KEY).digest == describe(second, KEY).digest
    assert describe(first, KEY).unknown == ("publisher",)
    graph: Any = StateGraph(Two)
    graph.add_node("planner", lambda state: {"left": "1"})
    graph.add_edge(START, "planner")
    other: Any = StateGraph(Two)
    other.add_node("planner", lambda state: {"left": "2"})
    other.add_edge(START, "planner")
    assert describe(graph.compile(), KEY).digest != describe(other.compile(), KEY).digest


def test_it_gives_the_context_again_on_a_resume(gate: Gate, world: World) -> None:
    recorder = world.open(gate.url)
    seen: list[Any] = []

    def writer(state: dict[str, Any], runtime: Any) -> dict[str, Any]:
        seen.append(runtime.context)
        return {"x": 1}

    from langgraph.runtime import Runtime

    writer.__annotations__["runtime"] = Runtime[Any]
    graph: Any = StateGraph(dict, context_schema=dict)
    graph.add_node("writer", writer)
    graph.add_edge(START, "writer")
    compiled = graph.compile(checkpointer=world.saver())
    run = recorder.start_run(compiled, thread_id="t")
    run.invoke({"q": 1}, context={"who": "ada"})
    assert recorder.flush(60)
    wrap_the_rest(recorder)
    envelope = gate.permit(checkpoint=gate.of(run.run, "checkpoint")[1])
    branching.resume(recorder, compiled, envelope, context=lambda: {"who": "again"})
    assert seen == [{"who": "ada"}, {"who": "again"}]


@pytest.mark.parametrize("error", [ValueError("x"), KeyboardInterrupt()])
def test_it_closes_the_recording_whatever_ends_the_run(
    gate: Gate, world: World, error: BaseException
) -> None:
    recorder = world.open(gate.url)

    def writer(state: dict[str, Any]) -> dict[str, Any]:
        raise error

    graph: Any = StateGraph(dict)
    graph.add_node("writer", writer)
    graph.add_edge(START, "writer")
    run = recorder.start_run(graph.compile(checkpointer=world.saver()), thread_id="t")
    with pytest.raises(type(error)):
        run.invoke({"q": 1})
    assert recorder.flush(60)
    cause = "user_abort" if isinstance(error, KeyboardInterrupt) else "provider_error"
    assert gate.of(run.run, "stopped")[0]["stop_cause"] == cause
    assert gate.receipts[-1]["kind"] == "recording_closed"


def test_it_goes_on_under_a_started_thread_without_reporting_old_messages(gate: Gate, world: World) -> None:
    recorder = world.open(gate.url)
    graph = build(recorder, world)
    recorder.start_run(graph, thread_id="t-1").invoke(ask())
    second = recorder.start_run(graph, thread_id="t-1")
    second.invoke({"messages": [HumanMessage("more", id="ask-2")]})
    assert recorder.flush(60)
    assert len(gate.of(second.run, "message")) == 3
