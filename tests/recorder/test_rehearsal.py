"""Applying an edit: nothing is sent, nothing else is written, and whatever the runtime says is a refusal."""

import logging
import operator
import sqlite3
import threading
from contextlib import closing, suppress
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableParallel
from langgraph.config import get_store
from langgraph.graph import END, START, StateGraph, add_messages
from langgraph.store.memory import InMemoryStore
from langgraph.store.sqlite import SqliteStore
from pydantic import BaseModel

from branches.evidence import plain_json
from debugger.recorder import Recorder, branching
from debugger.recorder.conformance.gate import Gate, claims_of
from debugger.recorder.effects import OutsideRun
from tests.patience import PATIENCE_S, STALL_S
from tests.recorder.team import MARKER, World, wrap_the_rest
from tests.recorder.test_editing import recorded, value_target, with_value


class Talk(TypedDict):
    messages: Annotated[list[Any], add_messages]
    limit: Any
    notes: Annotated[list[Any], operator.add]


def two_steps(
    world: World, schema: Any, first: Any, second: Any, router: Any = None, store: Any = None
) -> Any:
    graph: Any = StateGraph(schema)
    graph.add_node("writer", first)
    graph.add_node("publisher", second)
    graph.add_edge(START, "writer")
    if router is None:
        graph.add_edge("writer", "publisher")
    else:
        graph.add_conditional_edges("writer", router, ["publisher"])
    graph.add_edge("publisher", END)
    return graph.compile(checkpointer=world.saver(), store=store)


def write(_: Any) -> dict[str, Any]:
    return {"messages": [AIMessage("draft", id="d-1")], "limit": 1}


def publish(_: Any) -> dict[str, Any]:
    return {"notes": ["published"]}


def question() -> dict[str, Any]:
    return {"messages": [HumanMessage("go", id="h-1")]}


def with_limit(gate: Gate, recorder: Recorder, graph: Any, text: str = "5") -> tuple[str, str]:
    """Record a run and resume a branch behind its writer with another limit: the branch and its word."""
    run = recorded(gate, recorder, graph, question())
    return with_value(gate, recorder, graph, gate.of(run, "checkpoint")[2], "limit", text)


# Sending


def test_a_rehearsal_sends_nothing_while_another_run_is_active(gate: Gate, world: World) -> None:
    """A recorded tool in a router: outside a run it belongs to the one that happens to be active."""
    recorder, sent = world.open(gate.url), []
    go, inside, waits = threading.Event(), threading.Event(), [False]

    def create_ticket(title: str, body: str = "") -> str:
        sent.append(title)
        return "T-1"

    tool = recorder.wrap(create_ticket)

    def router(state: Any) -> str:
        tool(title=f"limit {state['limit']}")
        return "publisher"

    def publish(state: Any) -> dict[str, Any]:
        if waits[0]:
            inside.set()
            go.wait(STALL_S)
        return {"limit": state["limit"]}

    graph = two_steps(world, Talk, write, publish, router)
    run = recorded(gate, recorder, graph, question())
    wrap_the_rest(recorder)
    meant, sealed = gate.edit([(value_target("limit"), "5")], state_key="agent_memory")
    envelope = gate.permit(checkpoint=gate.of(run, "checkpoint")[2], edits=meant)
    gate.edits[claims_of(envelope)["permit"]] = sealed
    gate.redeem_refusals = ["expired"]
    waits[0] = True
    other = recorder.start_run(graph, thread_id="t-2")
    active = threading.Thread(target=other.invoke, args=(question(),))
    active.start()
    assert inside.wait(PATIENCE_S)
    words: list[str] = []
    try:
        resumed = threading.Thread(target=lambda: words.append(branching.resume(recorder, graph, envelope)))
        resumed.start()
        resumed.join(PATIENCE_S)
        assert "limit 5" not in sent
        assert words == ["declined_router_calls_tool"]
    finally:
        go.set()
        active.join(PATIENCE_S)


def swallowing(tool: Any) -> Any:
    def router(state: Any) -> str:
        with suppress(Exception):
            tool(subject=f"limit {state['limit']}")
        return "publisher"

    return router


def in_the_runtimes_threads(tool: Any) -> Any:
    both: Any = RunnableParallel(
        one=lambda state: tool(subject=f"limit {state['limit']}"), other=lambda _: None
    )
    return both | (lambda _: "publisher")


def starting_a_run(recorder: Recorder, begun: list[str]) -> Any:
    built: Any = StateGraph(Talk)
    inner = built.add_node("only", publish).add_edge(START, "only").compile()

    def router(state: Any) -> str:
        if state["limit"] == 5:
            begun.append(recorder.start_run(inner, thread_id="t-9").run)
        return "publisher"

    return router


@pytest.mark.parametrize("way", [swallowing, in_the_runtimes_threads])
def test_it_declines_where_a_router_calls_a_tool_in_any_way(gate: Gate, world: World, way: Any) -> None:
    recorder, sent = world.open(gate.url), []

    def search_notes(subject: str) -> str:
        sent.append(subject)
        return "found"

    graph = two_steps(world, Talk, write, publish, way(recorder.wrap(search_notes)))
    branch, word = with_limit(gate, recorder, graph)
    assert word == "declined_router_calls_tool"
    assert sent == ["limit 1"]  # the run's own; a tool that only reads sends as well
    assert gate.redeem_calls == 0
    assert world.rows(branch) == []


def test_a_raw_thread_of_a_router_sends_nothing_under_another_run(gate: Gate, world: World) -> None:
    recorder, sent, refused = world.open(gate.url), [], []

    def search_notes(subject: str) -> str:
        sent.append(subject)
        return "found"

    tool = recorder.wrap(search_notes)

    def call(subject: str) -> None:
        try:
            tool(subject=subject)
        except OutsideRun:
            refused.append(subject)

    def router(state: Any) -> str:
        raw = threading.Thread(target=call, args=(f"limit {state['limit']}",))
        raw.start()
        raw.join()
        return "publisher"

    graph = two_steps(world, Talk, write, publish, router)
    run = recorded(gate, recorder, graph, question())
    with recorder.running(recorder.start_run(graph, thread_id="t-2").record):
        _, word = with_value(gate, recorder, graph, gate.of(run, "checkpoint")[2], "limit", "5")
    assert sent == ["limit 1"]
    assert set(refused) == {"limit 5"}
    assert not word.startswith("failed_")


def test_a_router_that_begins_a_run_of_its_own_is_declined_and_no_run_is_recorded(
    gate: Gate, world: World
) -> None:
    recorder, begun = world.open(gate.url), list[str]()
    _, word = with_limit(
        gate, recorder, two_steps(world, Talk, write, publish, starting_a_run(recorder, begun))
    )
    assert word == "declined_router_calls_tool"
    assert begun == []


def test_no_callback_of_the_graph_hears_of_a_rehearsal(gate: Gate, world: World) -> None:
    heard: list[Any] = []

    class Ear(BaseCallbackHandler):
        def on_chain_start(self, serialized: Any, inputs: Any, **rest: Any) -> None:
            heard.append(inputs)

    recorder = world.open(gate.url)
    router = in_the_runtimes_threads(lambda subject: subject)
    graph = two_steps(world, Talk, write, publish, router).with_config(callbacks=[Ear()])
    run = recorded(gate, recorder, graph, question())
    assert heard
    heard.clear()
    gate.redeem_refusals = ["expired"]
    _, word = with_value(gate, recorder, graph, gate.of(run, "checkpoint")[2], "limit", "5")
    assert word == "refused_expired"
    assert heard == []


# The long-term store


def stored() -> InMemoryStore:
    store = InMemoryStore()
    store.put(("ways",), "writer", {"to": "publisher"})
    return store


def reading(state: Any) -> str:
    found = get_store().get(("ways",), "writer")
    assert found is not None
    way = str(found.value["to"])
    if state["limit"] == 5:
        found.value["to"] = "nowhere"  # a store in memory would have been changed so
    return way


def writing(state: Any) -> str:
    get_store().put(("seen",), "limit", {"limit": state["limit"]})
    return "publisher"


def writing_unnoticed(state: Any) -> str:
    try:
        return writing(state)
    except RuntimeError:
        return "publisher"


def test_a_router_that_reads_the_store_can_be_asked_again(gate: Gate, world: World) -> None:
    recorder, store = world.open(gate.url), stored()
    graph = two_steps(world, Talk, write, publish, reading, store)
    branch, word = with_limit(gate, recorder, graph)
    assert word == "natural_finish"
    assert graph.get_state({"configurable": {"thread_id": branch}}).values["limit"] == 5
    found = store.get(("ways",), "writer")
    assert found is not None
    assert found.value == {"to": "publisher"}


@pytest.mark.parametrize("router", [writing, writing_unnoticed])
def test_a_router_that_writes_the_store_is_declined_and_nothing_is_written(
    gate: Gate, world: World, router: Any
) -> None:
    recorder, store = world.open(gate.url), stored()
    branch, word = with_limit(gate, recorder, two_steps(world, Talk, write, publish, router, store))
    assert word == "declined_router_writes_store"
    assert gate.redeem_calls == 0
    found = store.get(("seen",), "limit")
    assert found is not None
    assert found.value == {"limit": 1}
    assert world.rows(branch) == []


def test_reading_in_a_rehearsal_does_not_lengthen_the_life_of_what_is_read(
    gate: Gate, world: World, tmp_path: Path
) -> None:
    with closing(
        sqlite3.connect(tmp_path / "long.sqlite", check_same_thread=False, isolation_level=None)
    ) as kept:
        store = SqliteStore(kept, ttl={"default_ttl": 60, "refresh_on_read": True})
        store.setup()
        store.put(("ways",), "writer", {"to": "publisher"})
        recorder = world.open(gate.url)
        graph = two_steps(world, Talk, write, publish, reading, store)
        run = recorded(gate, recorder, graph, question())
        kept.execute("update store set expires_at = '2099-01-01 00:00:00'")
        gate.redeem_refusals = ["expired"]
        _, word = with_value(gate, recorder, graph, gate.of(run, "checkpoint")[2], "limit", "5")
        assert word == "refused_expired"
        assert kept.execute("select expires_at from store").fetchall() == [("2099-01-01 00:00:00",)]


def test_nothing_of_the_asking_is_kept_with_the_edited_checkpoint(gate: Gate, world: World) -> None:
    recorder = world.open(gate.url)
    branch, _ = with_limit(gate, recorder, two_steps(world, Talk, write, publish, reading, stored()))
    assert world.rows(branch) != []
    assert "__pregel_runtime" not in str(world.rows(branch))


# Whatever the runtime raises


@pytest.mark.parametrize("text", [str(2**70), '{"\\ud800": 1}', "[" * 100_000, "1e999", '"\\ud800"'])
def test_a_value_that_the_store_cannot_hold_is_declined(gate: Gate, world: World, text: str) -> None:
    recorder = world.open(gate.url)
    graph = two_steps(world, Talk, lambda state: {**write(state), "limit": None}, publish)
    _, word = with_limit(gate, recorder, graph, text)
    assert word == "declined_value_not_json"
    assert gate.redeem_calls == 0


class Checked(BaseModel):
    messages: Annotated[list[Any], add_messages] = []
    limit: Any = 0
    who: str = ""


class Narrow(Checked):
    limit: int = 0


def test_a_value_that_the_states_model_refuses_is_declined_and_not_raised_with_its_content(
    gate: Gate, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    recorder = world.open(gate.url)
    graph = two_steps(world, Narrow, write, lambda _: {"who": "published"})
    _, word = with_limit(gate, recorder, graph, "5.5")
    assert word == "declined_edit_refused_by_runtime"
    assert gate.declined[-1][1] == "edit_refused_by_runtime"
    assert "5.5" not in caplog.text


@pytest.mark.parametrize("error", [KeyError, RecursionError, OSError, AssertionError, ExceptionGroup])
def test_whatever_a_router_raises_is_a_refusal_without_its_text(
    gate: Gate, world: World, error: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)

    def router(state: Any) -> str:
        if state["limit"] == 5:
            raise error(MARKER, [OSError()]) if error is ExceptionGroup else error(MARKER)
        return "publisher"

    recorder = world.open(gate.url)
    _, word = with_limit(gate, recorder, two_steps(world, Talk, write, publish, router))
    assert word == "declined_edit_refused_by_runtime"
    assert MARKER not in caplog.text
    assert recorder.problems == {"edit_refused_by_runtime"}


def test_what_is_raised_only_after_the_redemption_is_not_restored(gate: Gate, world: World) -> None:
    asked: list[int] = []

    def router(state: Any) -> str:
        asked.append(state["limit"])
        if asked.count(5) > 1:
            raise OSError(MARKER)
        return "publisher"

    recorder = world.open(gate.url)
    graph = two_steps(world, Talk, write, publish, router)
    branch, word = with_limit(gate, recorder, graph)
    assert word == "not_restored"
    assert gate.of(branch, "started") == []
    assert graph.get_state({"configurable": {"thread_id": branch}}).values["limit"] == 1


# One rule for both sides


@pytest.mark.parametrize(
    "text",
    [
        *('{"a": 1, "a": 2}', '[{"a": {"b": 1, "b": 1}}]', "NaN", "-Infinity", "1e999", "[-1e999]"),
        *(str(2**64), str(-(2**63) - 1), "9" * 5000, '{"\\ud800": 1}', '["\\udfff"]', "[" * 66 + "]" * 66),
        *("[" * 100_000, "", "{", "\ufeff1"),
    ],
)
def test_what_a_store_would_not_give_back_is_no_plain_json(text: str) -> None:
    with pytest.raises(ValueError, match=r"^json: (form|plain)$"):
        plain_json.parsed(text)


def test_what_a_store_gives_back_is_plain_json() -> None:
    text = f'{{"a": [{2**64 - 1}, {-(2**63)}, 1.5, 1e300, true, null, "\\ud83d\\ude00"]}}'
    assert plain_json.parsed(text) == {"a": [2**64 - 1, -(2**63), 1.5, 1e300, True, None, "\U0001f600"]}
