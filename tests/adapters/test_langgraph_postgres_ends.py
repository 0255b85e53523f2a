"""The memory probe on a PostgreSQL that is locked, silent, cut, large or hostile."""

from pathlib import Path
from typing import Any

import psycopg
import pytest

from debugger.adapters.probes import langgraph_memory
from debugger.adapters.probes.langgraph_memory import LangGraphMemoryProbe
from debugger.adapters.runtimes import langgraph_postgres
from tests.adapters import langgraph_stores
from tests.adapters.langgraph_stores import Store, clear, measured
from tests.adapters.places import KEY, MARKER, MOMENT, target
from tests.adapters.places_runtimes import Memory
from tests.adapters.wire import POSTGRES, database, leaves_nothing_open, wire
from tests.patience import ends

store = langgraph_stores.store
own = langgraph_stores.own


def test_it_takes_a_database_without_the_tables_for_no_empty_store(own: str, store: Store) -> None:
    with database() as name:
        empty = target(url=f"postgres://postgres@127.0.0.1/{name}", allow="loopback", thread_id="t-1")
        found = LangGraphMemoryProbe().measure(empty, MOMENT)
    assert (found.fingerprint, found.reachable, found.problem) == (None, False, "store_unreadable")
    store.execute("ALTER TABLE checkpoint_blobs RENAME COLUMN blob TO bytes")
    assert clear(store, "t-1").problem == "store_unreadable"


def test_it_executes_nothing_that_is_stored_and_shows_nothing_of_it(
    store: Store, own: str, tmp_path: Path, capfd: Any, caplog: Any
) -> None:
    caplog.set_level("DEBUG")
    proof = tmp_path / "executed"
    import ormsgpack

    named = ormsgpack.packb(("os", "system", (f"touch {proof} {MARKER}",)))
    blob = ormsgpack.packb(ormsgpack.Ext(0, named))
    store.execute("UPDATE checkpoint_blobs SET blob = %s WHERE channel = 'messages'", blob)
    found = measured(store, "t-1", own)
    assert found.fingerprint is not None
    assert not proof.exists()
    store.execute("UPDATE checkpoint_blobs SET blob = %s WHERE channel = 'messages'", MARKER.encode())
    assert measured(store, "t-1", own).fingerprint not in (None, found.fingerprint)
    store.execute('ALTER TABLE checkpoint_blobs RENAME TO "' + MARKER + '"')
    assert MARKER not in repr((found, clear(store, "t-1"))) + "".join(capfd.readouterr()) + caplog.text


def test_it_writes_nothing_into_the_store(store: Store, own: str) -> None:
    count = "SELECT sum(n_tup_ins + n_tup_upd + n_tup_del) AS n FROM pg_stat_user_tables"
    store.execute("SELECT pg_stat_force_next_flush()")
    before = store.execute(count).fetchone()["n"]
    measured(store, "t-1", own)
    store.execute("SELECT pg_stat_force_next_flush()")
    assert store.execute(count).fetchone()["n"] == before


def test_it_reads_no_more_than_it_may(store: Store, own: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(langgraph_postgres, "MOST_BYTES", 3000)
    assert measured(store, "t-1", own).problem is None
    store.execute(
        "UPDATE checkpoint_blobs SET blob = decode(repeat('c0', 5000), 'hex') WHERE channel = 'seen'"
    )
    found = measured(store, "t-1", own)
    assert (found.fingerprint, found.reachable, found.problem) == (None, False, "too_large")
    monkeypatch.undo()
    monkeypatch.setattr(langgraph_postgres, "MOST_NAMES", 2)
    assert measured(store, "t-1", own).problem == "too_many_checkpoints"


def test_it_waits_for_no_lock_longer_than_it_may(store: Store, own: str, monkeypatch: Any) -> None:
    with psycopg.connect(f"host=127.0.0.1 user=postgres dbname={store.name}") as holder:
        holder.execute("LOCK TABLE checkpoint_blobs IN ACCESS EXCLUSIVE MODE")
        with monkeypatch.context() as hurried, ends():
            hurried.setattr(langgraph_memory, "TIMEOUT_S", 0.6)
            found = measured(store, "t-1", own)
        assert (found.fingerprint, found.problem) == (None, "timeout")
    assert measured(store, "t-1", own).problem is None


@pytest.mark.parametrize("most", [900, 1800])
@pytest.mark.parametrize(("then", "word"), [("stall", "timeout"), ("cut", "connection_lost")])
def test_it_ends_where_the_server_falls_silent_or_the_wire_is_cut(
    store: Store, own: str, then: str, word: str, most: int, monkeypatch: Any
) -> None:
    if then == "stall":  # after it has connected, however much of that time is over then
        monkeypatch.setattr(langgraph_memory, "TIMEOUT_S", 0.6)
    with leaves_nothing_open(), ends(), wire(POSTGRES, then=then, most=most) as between:
        found = measured(store, "t-1", own, port=between.port)
    assert (found.fingerprint, found.reachable, found.problem) == (None, False, word)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        *(({"allow": None}, "address_refused"), ({"url": "postgres://127.0.0.1/x"}, "target_unfit")),
        *(({"url": "redis://127.0.0.1/0"}, "target_unfit"), ({"thread_id": 7}, "target_unfit")),
        *(
            ({"checkpoint_id": ""}, "target_unfit"),
            ({"password_env": "BRANCHGATE_NO_SUCH"}, "secret_missing"),
        ),
    ],
)
def test_it_connects_only_as_the_target_says(
    store: Store, own: str, options: dict[str, Any], word: str
) -> None:
    found = LangGraphMemoryProbe().measure(store.target(**{"thread_id": "t-1"} | options), MOMENT)
    assert (found.fingerprint, found.reachable, found.problem) == (None, False, word)


def test_sqlite_is_found_by_its_address_and_by_ids_in_clear_too(tmp_path: Path) -> None:
    place = Memory(tmp_path)
    try:
        probe = LangGraphMemoryProbe()
        found = probe.measure(place.target(), place.moment)
        assert {KEY.digest("part", "messages"), KEY.digest("part", "branch:to:two")} <= found.parts.keys()
        url = f"sqlite:///{place.store}"
        assert probe.measure(target(url=url), place.moment) == found
        assert probe.measure(target(url=url, thread_id="t-1", checkpoint_id=place.own), MOMENT) == found
        assert probe.measure(target(store=str(place.store), checkpoint_id=place.own), MOMENT) == found
        newest = probe.measure(target(url=url, thread_id="t-1"), place.moment)
        assert newest.fingerprint not in (None, found.fingerprint)
        assert probe.measure(target(url=url), MOMENT).problem == "no_checkpoint"
        assert probe.measure(target(url=url, thread_id="t-9"), MOMENT).problem == "checkpoint_absent"
        assert (
            probe.measure(target(url=url, thread_id="t-1", checkpoint_id="x"), MOMENT).problem
            == "checkpoint_absent"
        )
    finally:
        place.close()
    gone = LangGraphMemoryProbe().measure(target(url=url + ".gone", thread_id="t-1"), MOMENT)
    assert (gone.fingerprint, gone.reachable, gone.problem) == (None, False, "database_absent")
