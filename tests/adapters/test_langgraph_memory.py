"""The memory probe on a store that LangGraph itself wrote."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from branches.evidence import langgraph_store
from branches.ports import Moment
from debugger.adapters.probes import langgraph_file
from debugger.adapters.probes.approval_queue import LangGraphInterruptsProbe
from debugger.adapters.probes.langgraph_memory import LangGraphMemoryProbe
from tests.adapters.places import KEY, NOW
from tests.adapters.places_runtimes import Memory
from tests.patience import ends


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Memory]:
    made = Memory(tmp_path)
    yield made
    made.close()


def test_it_finds_a_copy_in_a_branchs_own_thread_equal(place: Memory) -> None:
    probe = LangGraphMemoryProbe()
    original = probe.measure(place.target(), place.moment)
    with place.connection as connection:
        langgraph_store.copy(connection, source="t-1", checkpoint=place.own, target="br_copy")
    copied = Moment(KEY.digest("thread", "br_copy"), place.moment.checkpoint, NOW)
    assert probe.measure(place.target(), copied) == original
    anywhere = Moment(None, place.moment.checkpoint, NOW)
    assert probe.measure(place.target(), anywhere) == original
    assert probe.capture(place.target(), place.moment) == original


def test_it_believes_no_copies_that_disagree(place: Memory) -> None:
    with place.connection as connection:
        langgraph_store.copy(connection, source="t-1", checkpoint=place.own, target="br_copy")
    place.change()
    with place.connection as connection:
        connection.execute(
            "UPDATE checkpoints SET checkpoint = x'80' WHERE thread_id = 'br_copy' AND checkpoint_id = ?",
            (place.own,),
        )
    found = LangGraphMemoryProbe().measure(place.target(), Moment(None, place.moment.checkpoint, NOW))
    assert (found.fingerprint, found.problem) == (None, "checkpoint_ambiguous")


@pytest.mark.parametrize(
    ("thread", "checkpoint", "problem"),
    [
        ("t-1", "another", "checkpoint_absent"),
        ("t-2", None, "checkpoint_absent"),
        ("t-1", None, "no_checkpoint"),
    ],
)
def test_it_says_what_is_not_there(place: Memory, thread: str, checkpoint: str | None, problem: str) -> None:
    own = place.moment.checkpoint if thread == "t-2" else checkpoint and KEY.digest("checkpoint", checkpoint)
    moment = Moment(KEY.digest("thread", thread), own, NOW)
    found = LangGraphMemoryProbe().measure(place.target(), moment)
    assert (found.fingerprint, found.problem) == (None, problem)


def test_it_writes_nothing_into_the_store(place: Memory) -> None:
    before = place.store.read_bytes()
    LangGraphMemoryProbe().measure(place.target(), place.moment)
    assert place.store.read_bytes() == before


def test_it_leaves_a_store_that_never_ends(place: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(langgraph_file, "TIMEOUT_S", 0.4)
    with place.connection as connection:
        connection.execute("ALTER TABLE checkpoints RENAME TO kept")
        connection.execute(
            "CREATE VIEW checkpoints AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)"
            " SELECT kept.* FROM kept, n"
        )
    for probe in (LangGraphMemoryProbe(), LangGraphInterruptsProbe()):
        with ends():
            found = probe.measure(place.target(), place.moment)
        assert (found.fingerprint, found.reachable, found.problem) == (None, False, "timeout")
