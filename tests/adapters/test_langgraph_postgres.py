"""The memory probe on a PostgreSQL store that LangGraph itself wrote, and on ids given in clear."""

from typing import Annotated, Any, TypedDict

import pytest
from langgraph.channels.delta import DeltaChannel
from langgraph.graph import END, START, StateGraph

from branches.evidence.keys import is_hmac
from debugger.adapters.probes.langgraph_memory import LangGraphMemoryProbe
from tests.adapters import langgraph_stores
from tests.adapters.langgraph_stores import State, Store, clear, drifted, measured, moment
from tests.adapters.places import KEY, MARKER
from tests.adapters.wire import database

store = langgraph_stores.store
own = langgraph_stores.own


def test_it_measures_a_checkpoint_with_a_part_for_each_channel(store: Store, own: str) -> None:
    found = measured(store, "t-1", own)
    assert is_hmac(found.fingerprint or "")
    assert {KEY.digest("part", name) for name in State.__annotations__} <= found.parts.keys()
    assert LangGraphMemoryProbe().capture(store.target(), moment("t-1", own)) == found
    assert MARKER not in repr(found)


def test_it_finds_the_same_by_ids_in_clear_and_they_go_before_the_moment(store: Store, own: str) -> None:
    found = measured(store, "t-1", own)
    assert clear(store, "t-1", own) == found
    assert clear(store, None, own) == found
    assert measured(store, None, own) == found
    other = moment("t-9", "another")
    assert LangGraphMemoryProbe().measure(store.target(thread_id="t-1", checkpoint_id=own), other) == found
    newest = store.execute("SELECT max(checkpoint_id) AS own FROM checkpoints").fetchone()["own"]
    assert clear(store, "t-1") == measured(store, "t-1", newest)
    assert clear(store, "t-1").fingerprint != found.fingerprint
    assert drifted(found, clear(store, "t-1")) == {"messages", "label", "branch:to:two"}


def test_it_takes_no_subgraphs_checkpoint_for_the_newest(store: Store, own: str) -> None:
    before = clear(store, "t-1")
    store.execute(
        "INSERT INTO checkpoints (thread_id, checkpoint_ns, checkpoint_id, checkpoint)"
        " VALUES ('t-1', 'sub:1', 'ffff', '{}')"
    )
    assert clear(store, "t-1") == before
    assert clear(store, "t-1", "ffff").problem == "checkpoint_absent"
    assert measured(store, "t-1", "ffff").problem == "checkpoint_absent"


def test_equal_states_in_two_databases_and_threads_have_one_fingerprint(store: Store, own: str) -> None:
    store.copy_to(store, "t-1", "br_copy")
    assert measured(store, "br_copy", own) == measured(store, "t-1", own) == measured(store, None, own)
    with database() as name:
        other = Store(name)
        try:
            store.copy_to(other, "t-1", "elsewhere")
            assert clear(other, "elsewhere", own) == clear(store, "t-1", own)
        finally:
            other.connection.close()


def test_the_savers_own_writing_of_one_state_gives_one_fingerprint(store: Store, own: str) -> None:
    """A set has another order of bytes in another process; the state is the same."""
    config: Any = {"configurable": {"thread_id": "t-1", "checkpoint_ns": "", "checkpoint_id": own}}
    kept = store.saver.get_tuple(config)
    assert kept is not None
    turned = {
        **kept.checkpoint,
        "channel_values": {**kept.checkpoint["channel_values"], "seen": {"c", "b", "a"}},
    }
    again: Any = {"configurable": {"thread_id": "again", "checkpoint_ns": ""}}
    store.saver.put(again, turned, kept.metadata, turned["channel_versions"])
    assert clear(store, "again", own) == clear(store, "t-1", own)


CHANGES = {
    "an inline number": (
        "count",
        "UPDATE checkpoints SET checkpoint = jsonb_set(checkpoint, '{channel_values,count}', '2')",
    ),
    "a number of another sort": (
        "count",
        "UPDATE checkpoints SET checkpoint = jsonb_set(checkpoint, '{channel_values,count}', '1.0')",
    ),
    "a text for a number": (
        "count",
        "UPDATE checkpoints SET checkpoint = jsonb_set(checkpoint, '{channel_values,count}', '\"1\"')",
    ),
    "an inline value gone": (
        "flag",
        "UPDATE checkpoints SET checkpoint = checkpoint #- '{channel_values,flag}'",
    ),
    "a blob": ("messages", "UPDATE checkpoint_blobs SET blob = '\\x90' WHERE channel = 'messages'"),
    "a blob's sort": ("seen", "UPDATE checkpoint_blobs SET type = 'json' WHERE channel = 'seen'"),
    "a blob gone": ("messages", "DELETE FROM checkpoint_blobs WHERE channel = 'messages'"),
    "a version": (
        "messages",
        "UPDATE checkpoints SET checkpoint = jsonb_set(checkpoint, '{channel_versions,messages}', '\"9\"')",
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_it_sees(store: Store, own: str, change: str) -> None:
    before = measured(store, "t-1", own)
    part, statement = CHANGES[change]
    where = " AND" if "WHERE" in statement else " WHERE"
    store.execute(statement + where + " thread_id = 't-1'")
    after = measured(store, "t-1", own)
    assert after.fingerprint not in (None, before.fingerprint)
    assert drifted(before, after) == {part}


def test_it_is_not_moved_by_what_the_next_step_writes(store: Store, own: str) -> None:
    before = measured(store, "t-1", own)
    store.execute("DELETE FROM checkpoint_writes")
    store.run("t-2")
    assert measured(store, "t-1", own) == before


def test_it_folds_in_the_ancestors_of_a_channel_that_keeps_differences(store: Store) -> None:
    """The rows by hand: the newest checkpoint holds no value, the log behind it is the state."""
    for number, parent in ((1, None), (2, "c-1"), (3, "c-2")):
        marks = '{"counters_since_delta_snapshot": {"log": 2}}' if number == 3 else "{}"
        store.execute(
            "INSERT INTO checkpoints VALUES ('d', '', %s, %s, null, %s, %s)",
            f"c-{number}",
            parent,
            '{"v": 4, "channel_values": {}, "channel_versions": {"log": "1"}}',
            marks,
        )
        store.execute(
            "INSERT INTO checkpoint_writes VALUES ('d', '', %s, 'task', 0, 'log', 'msgpack', %s, '')",
            f"c-{number}",
            bytes([number]),
        )
    first = clear(store, "d")
    store.copy_to(store, "d", "copy")
    assert clear(store, "copy") == first
    store.execute(
        "UPDATE checkpoint_writes SET blob = '\\x07' WHERE checkpoint_id = 'c-3' AND thread_id = 'd'"
    )
    assert clear(store, "d") == first  # written after it
    store.execute("INSERT INTO checkpoint_blobs VALUES ('d', '', 'log', '1', 'msgpack', '\\x05')")
    seeded = clear(store, "d")
    store.execute(
        "UPDATE checkpoint_writes SET blob = '\\x07' WHERE checkpoint_id = 'c-1' AND thread_id = 'd'"
    )
    changed = clear(store, "d")
    store.execute("DELETE FROM checkpoints WHERE checkpoint_id = 'c-1' AND thread_id = 'd'")
    cut = clear(store, "d")
    seen = [each.fingerprint for each in (first, seeded, changed, cut)]
    assert None not in seen
    assert len(set(seen)) == len(seen)
    store.execute("UPDATE checkpoints SET parent_checkpoint_id = 'c-3' WHERE checkpoint_id = 'c-2'")
    assert clear(store, "d") == cut  # a store that goes in circles is walked once


class Log(TypedDict):
    entries: Annotated[list[str], DeltaChannel(lambda held, writes: held + [x for w in writes for x in w])]
    turn: int


def test_it_sees_an_ancestors_write_of_a_real_channel_of_differences(store: Store) -> None:
    graph: Any = StateGraph(Log)
    for name in ("one", "two", "three"):
        graph.add_node(name, lambda _, name=name: {"entries": [f"{name} {MARKER}"], "turn": 1})
    graph.add_edge(START, "one")
    graph.add_edge("one", "two")
    graph.add_edge("two", "three")
    graph.add_edge("three", END)
    config: Any = {"configurable": {"thread_id": "log"}}
    graph.compile(checkpointer=store.saver).invoke({"entries": [], "turn": 0}, config, durability="sync")
    first = clear(store, "log")
    assert {KEY.digest("part", "turn"), KEY.digest("part", "entries")} <= first.parts.keys()
    store.copy_to(store, "log", "copy")
    assert clear(store, "copy") == first
    changed = store.execute(
        "UPDATE checkpoint_writes SET blob = '\\x91a17a' WHERE thread_id = 'log' AND channel = 'entries'"
        " AND checkpoint_id = (SELECT min(checkpoint_id) FROM checkpoint_writes WHERE channel = 'entries')"
    )
    assert changed.rowcount == 1
    after = clear(store, "log")
    assert after.fingerprint not in (None, first.fingerprint)
    differing = {part for part in first.parts if first.parts[part] != after.parts[part]}
    assert differing == {KEY.digest("part", "entries")}


def test_it_believes_no_copies_that_disagree(store: Store, own: str) -> None:
    store.copy_to(store, "t-1", "br_copy")
    store.execute("UPDATE checkpoint_blobs SET blob = '\\x90' WHERE thread_id = 'br_copy'")
    found = measured(store, None, own)
    assert (found.fingerprint, found.problem) == (None, "checkpoint_ambiguous")
    assert measured(store, "t-1", own).problem is None


@pytest.mark.parametrize(
    ("thread", "checkpoint", "problem"),
    [
        ("t-1", "another", "checkpoint_absent"),
        ("t-2", "another", "checkpoint_absent"),
        ("t-1", None, "no_checkpoint"),
    ],
)
def test_it_says_what_is_not_there(
    store: Store, own: str, thread: str, checkpoint: str | None, problem: str
) -> None:
    found = measured(store, thread, checkpoint)
    assert (found.fingerprint, found.reachable, found.problem) == (None, True, problem)
    if checkpoint is not None:
        assert clear(store, thread, checkpoint).problem == problem
    assert clear(store, "no-such-thread").problem == "checkpoint_absent"
