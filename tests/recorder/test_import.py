"""Importing a thread: by SQL, read-only, nothing executed, nothing of its content."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, TypedDict

import pytest
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt

from branches.evidence import langgraph_store, schema
from branches.evidence.canonical import canonical_bytes
from branches.evidence.kinds.forms import Declared
from branches.evidence.names import cover_name
from debugger.adapters.runtimes.langgraph import LangGraphRuntime
from debugger.recorder.conformance.gate import KEY, Gate
from tests.recorder.team import MARKER, World, ask, build

RUN = "run_" + "b" * 24


CHANNELS = cover_name(KEY, Declared.FACT, "channels")


class Two(TypedDict):
    left: str


class Both(TypedDict):
    left: str
    right: str


def imported(store: Path, thread: str) -> list[dict[str, Any]]:
    receipts = list(LangGraphRuntime().receipts(store, KEY.digest("thread", thread), KEY, RUN))
    for each in receipts:
        schema.check_sent(each, kinds=schema.OUTSIDE_KINDS)
        schema.check_declared(each, {})
    return receipts


def test_it_imports_lineage_and_fingerprints_without_content(gate: Gate, world: World) -> None:
    recorder = world.open(gate.url)
    run = recorder.start_run(build(recorder, world), thread_id="t-1")
    run.invoke(ask())
    assert recorder.flush(60)
    receipts = imported(world.store, "t-1")
    assert MARKER not in json.dumps(receipts)
    assert receipts[0]["kind"] == "run_started"
    assert receipts[0]["body"]["recording"] == "imported"
    own = [each["body"] for each in receipts if each["kind"] == "checkpoint"]
    live = gate.of(run.run, "checkpoint")
    assert [each["checkpoint"] for each in own] == [each["checkpoint"] for each in live]
    assert [each["parent_checkpoint"] for each in own] == [each["parent_checkpoint"] for each in live]
    assert all(each["state"] for each in own[1:])
    assert [each["writer_seq"] for each in receipts] == list(range(1, len(receipts) + 1))
    assert [each["at"] for each in receipts] == sorted(each["at"] for each in receipts)


def test_it_gives_the_same_receipts_again_when_the_thread_has_grown(gate: Gate, world: World) -> None:
    recorder = world.open(gate.url)
    graph = build(recorder, world)
    recorder.start_run(graph, thread_id="t-1").invoke(ask())
    first = imported(world.store, "t-1")
    recorder.start_run(graph, thread_id="t-1").invoke({"ticket": "again"})
    assert imported(world.store, "t-1")[: len(first)] == first


def test_it_lists_threads_by_their_hmac(gate: Gate, world: World) -> None:
    recorder = world.open(gate.url)
    recorder.start_run(build(recorder, world), thread_id="t-1").invoke(ask())
    (thread,) = LangGraphRuntime().threads(world.store, KEY)
    assert thread.external_ref == KEY.digest("thread", "t-1")
    assert thread.checkpoints == thread.forkable == 5


def test_it_changes_nothing_in_the_store(gate: Gate, world: World) -> None:
    recorder = world.open(gate.url)
    recorder.start_run(build(recorder, world), thread_id="t-1").invoke(ask())
    before = world.rows("t-1")
    imported(world.store, "t-1")
    assert world.rows("t-1") == before
    with closing(langgraph_store.connect(world.store)) as connection, pytest.raises(sqlite3.OperationalError):
        connection.execute("DELETE FROM writes")


def test_it_records_interrupts_as_waits_and_errors_as_classes(gate: Gate, world: World) -> None:
    graph: Any = StateGraph(Two)
    graph.add_node("gate", lambda state: {"left": interrupt({"question": MARKER})})
    graph.add_edge(START, "gate")
    graph.compile(checkpointer=world.saver()).invoke({"left": ""}, {"configurable": {"thread_id": "waits"}})

    def broken(state: Two) -> Two:
        raise TimeoutError(MARKER)

    failing: Any = StateGraph(Two)
    failing.add_node("gate", broken)
    failing.add_edge(START, "gate")
    with pytest.raises(TimeoutError):
        failing.compile(checkpointer=world.saver()).invoke(
            {"left": ""}, {"configurable": {"thread_id": "fails"}}
        )
    for thread, cause in (("waits", "approval_requested"), ("fails", "timeout")):
        receipts = imported(world.store, thread)
        assert [each["body"]["stop_cause"] for each in receipts if each["kind"] == "stopped"] == [cause]
        assert MARKER not in json.dumps(receipts)


def wide(world: World, channels: int) -> Any:
    """Return a graph with so many channels, each written once."""
    fields = {f"channel_{n:02d}": str for n in range(channels)}
    graph: Any = StateGraph(TypedDict("Fields", fields))  # type: ignore[misc, operator]
    graph.add_node("fill", lambda state: {name: f"{name} {MARKER}" for name in fields})
    graph.add_edge(START, "fill")
    return graph.compile(checkpointer=world.saver())


def channels_in(checkpoint: dict[str, Any]) -> tuple[int, int]:
    """Return how many channels stand alone, and how many together."""
    counts = [each["facts"].get(CHANNELS) for each in checkpoint["state"].values()]
    together = [count for count in counts if count is not None]
    assert len(together) <= 1
    return len(counts) - len(together), sum(together)


@pytest.mark.parametrize(("channels", "is_split"), [(20, False), (25, True), (40, True)])
def test_it_imports_a_thread_with_more_channels_than_a_receipt_holds(
    gate: Gate, world: World, channels: int, is_split: bool
) -> None:
    graph, config = wide(world, channels), {"configurable": {"thread_id": "t"}}
    graph.invoke({"channel_00": "x"}, config)
    *_, last = receipts = imported(world.store, "t")
    assert len(canonical_bytes(last["body"])) <= schema.MAX_BODY_BYTES
    alone, together = channels_in(last["body"])
    assert (alone + together, together > 0) == (channels, is_split)
    assert alone >= 18
    assert MARKER not in json.dumps(receipts)


def test_it_sees_a_change_in_a_channel_that_no_receipt_names(gate: Gate, world: World) -> None:
    graph, config = wide(world, 40), {"configurable": {"thread_id": "t"}}
    graph.invoke({"channel_00": "x"}, config)
    before = imported(world.store, "t")[-1]["body"]
    graph.update_state(config, {"channel_39": "changed"})
    after = imported(world.store, "t")[-1]["body"]
    changed = [each for name, each in after["state"].items() if before["state"][name] != each]
    assert [each["facts"] for each in changed] == [{CHANNELS: channels_in(after)[1]}]


def stops(world: World, thread: str) -> list[str | None]:
    receipts = imported(world.store, thread)
    assert {each["kind"] for each in receipts[:-1]} == {"run_started", "checkpoint"}
    return [each["body"]["stop_cause"] for each in receipts if each["kind"] == "stopped"]


def test_it_records_no_wait_that_was_answered_and_no_error_that_was_overcome(
    gate: Gate, world: World
) -> None:
    config: Any = {"configurable": {"thread_id": "t"}}
    tries = iter((ValueError(MARKER), None))

    def flaky(state: Two) -> Two:
        interrupt("?")
        if (error := next(tries)) is not None:
            raise error
        return {"left": "done"}

    graph: Any = StateGraph(Two)
    graph.add_node("gate", flaky)
    graph.add_edge(START, "gate")
    compiled = graph.compile(checkpointer=world.saver())
    compiled.invoke({"left": ""}, config)
    assert stops(world, "t") == ["approval_requested"]
    with pytest.raises(ValueError, match=MARKER):
        compiled.invoke(Command(resume="x"), config)
    assert stops(world, "t") == ["provider_error"]
    compiled.invoke(None, config)
    assert stops(world, "t") == []


def test_it_knows_which_of_two_questions_of_a_step_is_still_open(gate: Gate, world: World) -> None:
    config: Any = {"configurable": {"thread_id": "t"}}
    failing = iter((True, False))

    def left(state: Both) -> dict[str, str]:
        first = interrupt("1")
        return {"left": first + interrupt("2")}

    def right(state: Both) -> dict[str, str]:
        if next(failing):
            raise TimeoutError(MARKER)
        return {"right": "done"}

    graph: Any = StateGraph(Both)
    for node in (left, right):
        graph.add_node(node.__name__ + "_side", node)
        graph.add_edge(START, node.__name__ + "_side")
    compiled = graph.compile(checkpointer=world.saver())
    with pytest.raises(TimeoutError):
        compiled.invoke({"left": "", "right": ""}, config)
    assert stops(world, "t") == ["timeout"]
    compiled.invoke(None, config)
    assert stops(world, "t") == ["approval_requested"]
    compiled.invoke(Command(resume="a"), config)
    assert stops(world, "t") == ["approval_requested"]
    compiled.invoke(Command(resume="b"), config)
    assert stops(world, "t") == []


def test_it_refuses_a_fork_inside_a_subgraph_and_offers_the_root(gate: Gate, world: World) -> None:
    inner: Any = StateGraph(Two)
    inner.add_node("deep", lambda state: {"left": interrupt("?")})
    inner.add_edge(START, "deep")
    outer: Any = StateGraph(Two)
    outer.add_node("sub", inner.compile())
    outer.add_edge(START, "sub")
    graph = outer.compile(checkpointer=world.saver())
    config: Any = {"configurable": {"thread_id": "t"}}
    graph.invoke({"left": ""}, config)
    runtime, reference = LangGraphRuntime(), KEY.digest("thread", "t")
    (inside, *_) = refused = runtime.not_forkable(world.store, reference, KEY)
    found = runtime.fork_at(world.store, reference, inside, KEY)
    assert (found.forkable, found.rule) == (False, "checkpoint_in_subgraph")
    roots = [KEY.digest("checkpoint", each.config["configurable"]["checkpoint_id"])
             for each in graph.get_state_history(config)]  # fmt: skip
    assert found.offered == roots[0]
    assert runtime.fork_at(world.store, reference, roots[0], KEY).forkable
    inconsistent = [each["body"]["checkpoint"] for each in imported(world.store, "t")
                    if each["kind"] == "checkpoint" and not each["body"]["consistent"]]  # fmt: skip
    assert inconsistent == refused
    graph.invoke(Command(resume="x"), config)


def test_it_imports_ten_thousand_checkpoints_by_sql(tmp_path: Path) -> None:
    store = tmp_path / "large.sqlite"
    columns = "thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata"
    with closing(sqlite3.connect(store)) as connection:
        connection.execute(
            f"CREATE TABLE checkpoints ({columns}, PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id))"
        )
        connection.execute(
            "CREATE TABLE writes (thread_id, checkpoint_ns, checkpoint_id, task_id, idx, channel, type,"
            " value, PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id, task_id, idx))"
        )
        metadata = b'{"source": "loop", "step": 1}'
        rows = [
            ("t", "", f"{n:08d}", f"{n - 1:08d}" if n else None, "msgpack", b"\x80", metadata)
            for n in range(10_000)
        ]
        connection.executemany("INSERT INTO checkpoints VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
        connection.commit()
    runtime = LangGraphRuntime()
    assert runtime.threads(store, KEY)[0].checkpoints == 10_000
    made: list[str] = []
    with closing(langgraph_store.connect(store)) as connection:
        connection.set_trace_callback(made.append)
        assert sum(1 for _ in langgraph_store.history(connection, "t")) == 10_000
        assert len(made) == 10_000 // langgraph_store.PAGE + 1
        made.clear()
        assert len(langgraph_store.lineage(connection, "t", "00009999")) == 10_000
        assert len(made) == 1
    count = sum(1 for _ in runtime.receipts(store, KEY.digest("thread", "t"), KEY, RUN))
    assert count == 10_001


def test_it_refuses_a_file_that_is_no_such_store(tmp_path: Path) -> None:
    path = tmp_path / "other.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE other (x)")
        connection.commit()
    with pytest.raises(langgraph_store.StoreUnreadable):
        LangGraphRuntime().threads(path, KEY)
