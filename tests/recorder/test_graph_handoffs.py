"""Hand-overs that a graph's own steps show: plain edges, commands, retries, interrupts, branches, sends."""

import operator
from collections.abc import Iterator
from typing import Annotated, Any, TypedDict

import pytest
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Send, interrupt

from debugger.recorder import Recorder, branching
from debugger.recorder.conformance.gate import Gate, claims_of
from tests.recorder.handoff_bench import HANDING, told, verdicts
from tests.recorder.team import World, wrap_the_rest

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate(HANDING)
    yield gate
    gate.close()


class Talk(TypedDict):
    said: Annotated[list[str], operator.add]


def compiled(world: World, *edges: tuple[Any, Any], **nodes: Any) -> Any:
    graph: Any = StateGraph(Talk)
    for name, node in nodes.items():
        graph.add_node(name, node)
    for source, receiver in edges:
        graph.add_edge(source, receiver)
    return graph.compile(checkpointer=world.saver())


def says(name: str) -> Any:
    return lambda _: {"said": [name]}


def plain(world: World, **changed: Any) -> Any:
    """Return planner, writer, publisher in a row."""
    nodes = {name: says(name) for name in ("planner", "writer", "publisher")} | changed
    edges = ((START, "planner"), ("planner", "writer"), ("writer", "publisher"), ("publisher", END))
    return compiled(world, *edges, **nodes)


def recorded(recorder: Recorder, gate: Gate, graph: Any, given: Any = None) -> Any:
    run = recorder.start_run(graph, thread_id="t-1")
    run.invoke({"said": []} if given is None else given)
    settled(recorder, gate)
    return run


def settled(recorder: Recorder, gate: Gate) -> None:
    assert recorder.flush(60)
    assert gate.refused == []


def ids(gate: Gate, run: str, member: str) -> list[str]:
    """Return the operations or handoffs of a run, each once, in their order."""
    return list(dict.fromkeys(each[member] for each in gate.of(run, "handoff")))


WHOLE = [("planner", "delegated"), ("writer", "accepted"), ("writer", "completed")]


def test_a_plain_edge_of_the_kind_is_a_hand_over_and_one_of_another_kind_is_none(
    gate: Gate, world: World
) -> None:
    recorder = world.open(gate.url)
    run = recorded(recorder, gate, plain(world))
    assert told(gate, run.run) == WHOLE
    assert verdicts(gate, run.run) == [("false_success", ["unverified"])]


def test_a_command_that_goes_to_an_agent_is_a_hand_over_and_each_way_is_an_operation(
    gate: Gate, world: World
) -> None:
    def planner(state: Talk) -> Command[Any]:
        return Command(goto=END if state["said"] else "writer")

    def writer(_: Talk) -> Command[Any]:
        return Command(goto="planner", update={"said": ["written"]})

    recorder = world.open(gate.url)
    run = recorded(recorder, gate, compiled(world, (START, "planner"), planner=planner, writer=writer))
    back = [("writer", "delegated"), ("planner", "accepted"), ("planner", "completed")]
    assert told(gate, run.run) == WHOLE + back
    assert len(ids(gate, run.run, "operation")) == 2


def test_the_same_pair_again_after_it_was_done_is_another_operation(gate: Gate, world: World) -> None:
    def planner(state: Talk) -> Command[Any]:
        return Command(goto=END if len(state["said"]) > 1 else "writer")

    def writer(_: Talk) -> Command[Any]:
        return Command(goto="planner", update={"said": ["written"]})

    recorder = world.open(gate.url)
    run = recorded(recorder, gate, compiled(world, (START, "planner"), planner=planner, writer=writer))
    assert len(ids(gate, run.run, "operation")) == 4
    assert len(ids(gate, run.run, "handoff")) == 4
    assert verdicts(gate, run.run) == [("false_success", ["unverified"])] * 4


def test_a_step_that_failed_and_is_tried_again_is_a_new_attempt_at_the_same_operation(
    gate: Gate, world: World
) -> None:
    left = [ConnectionError("away")]

    def writer(_: Talk) -> dict[str, Any]:
        if left:
            raise left.pop()
        return {"said": ["written"]}

    recorder = world.open(gate.url)
    run = recorder.start_run(plain(world, writer=writer), thread_id="t-1")
    with pytest.raises(ConnectionError):
        run.invoke({"said": []})
    run.invoke(None)
    settled(recorder, gate)
    assert told(gate, run.run) == [*WHOLE[:2], ("planner", "released"), *WHOLE]
    assert len(ids(gate, run.run, "operation")) == 1
    assert len(ids(gate, run.run, "handoff")) == 2
    assert verdicts(gate, run.run) == [("false_success", ["unverified"])]


def test_what_was_beside_a_step_that_failed_is_given_up_with_it(gate: Gate, world: World) -> None:
    def planner(_: Talk) -> Command[Any]:
        return Command(goto=[Send("writer", {"said": ["a"]}), Send("writer", {"said": ["b"]})])

    failing = ["b"]

    def writer(state: Talk) -> dict[str, Any]:
        if state["said"] == failing[:1]:
            failing.clear()
            raise ConnectionError("away")
        return {"said": ["written"]}

    recorder = world.open(gate.url)
    graph = compiled(world, (START, "planner"), planner=planner, writer=writer)
    run = recorder.start_run(graph, thread_id="t-1")
    with pytest.raises(ConnectionError):
        run.invoke({"said": []})
    run.invoke(None)
    settled(recorder, gate)
    assert len(ids(gate, run.run, "operation")) == 2
    assert verdicts(gate, run.run) == [("false_success", ["unverified"])] * 2


def test_an_interrupt_is_a_wait_for_an_approval_and_its_answer_progress(gate: Gate, world: World) -> None:
    def writer(_: Talk) -> dict[str, Any]:
        return {"said": [interrupt({"owner": "grace", "deadline": "2999-12-01T00:00:00+00:00"})]}

    recorder = world.open(gate.url)
    run = recorded(recorder, gate, plain(world, writer=writer))
    assert verdicts(gate, run.run) == [("waiting", ["dependency:approval"])]
    assert gate.of(run.run, "handoff")[-1]["deadline"] == "2999-12-01T00:00:00+00:00"
    run.invoke(Command(resume="yes"))
    settled(recorder, gate)
    assert told(gate, run.run) == [
        *WHOLE[:2], ("writer", "waiting"), ("writer", "progress"), ("writer", "completed"),
    ]  # fmt: skip


def test_a_branch_goes_on_with_the_operation_under_a_handoff_of_its_own(gate: Gate, world: World) -> None:
    recorder = world.open(gate.url)
    graph = plain(world)
    run = recorded(recorder, gate, graph)
    wrap_the_rest(recorder)
    # The checkpoints: input, start, after planner, after writer, after publisher.
    before_writer, after_writer = gate.of(run.run, "checkpoint")[2:4]
    envelope = gate.permit(checkpoint=before_writer)
    assert branching.resume(recorder, graph, envelope) == "natural_finish"
    settled(recorder, gate)
    branch = claims_of(envelope)["branch"]
    assert told(gate, branch) == WHOLE
    assert ids(gate, branch, "operation") == ids(gate, run.run, "operation")
    assert not set(ids(gate, branch, "handoff")) & set(ids(gate, run.run, "handoff"))
    envelope = gate.permit(checkpoint=after_writer)
    assert branching.resume(recorder, graph, envelope) == "natural_finish"
    settled(recorder, gate)
    assert told(gate, claims_of(envelope)["branch"]) == []


@pytest.mark.parametrize("is_made_anew", [False, True])
def test_what_nobody_took_before_a_stop_is_taken_afterwards_in_the_attempt_that_is_open(
    gate: Gate, world: World, is_made_anew: bool
) -> None:
    recorder = world.open(gate.url)
    graph: Any = StateGraph(Talk)
    for name in ("planner", "writer"):
        graph.add_node(name, says(name))
    graph.add_edge(START, "planner")
    graph.add_edge("planner", "writer")
    run = recorded(recorder, gate, graph.compile(checkpointer=world.saver(), interrupt_before=["writer"]))
    assert verdicts(gate, run.run) == [("delegated", [])]
    if is_made_anew:
        work = run.record.handoffs.known(ids(gate, run.run, "operation")[0])
        assert work is not None
        work.delegate("writer", by="planner")
    run.invoke(None)
    settled(recorder, gate)
    again = [("planner", "released"), ("planner", "delegated")] if is_made_anew else []
    assert told(gate, run.run) == [WHOLE[0], *again, *WHOLE[1:]]
    assert verdicts(gate, run.run) == [("false_success", ["unverified"])]
