"""The SQL probe on a PostgreSQL that is locked, slow, silent, cut or busy: how a measurement ends."""

import itertools
import sys
import threading
from typing import Any

import psycopg
import pytest

from branches.ports import StateMeasurement
from debugger.adapters import postgres
from debugger.adapters.probes import sql, sql_rows
from tests.adapters import test_sql_postgres
from tests.adapters.test_sql_postgres import measured, problem
from tests.adapters.wire import POSTGRES, leaves_nothing_open, wire
from tests.patience import PATIENCE_S, comes, ends

name = test_sql_postgres.name
work = test_sql_postgres.work


@pytest.fixture
def at_leisure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the database more time than any target may say."""
    for limit in ("DEFAULT_SECONDS", "MOST_SECONDS"):
        monkeypatch.setattr(sql, limit, 60)


def test_it_gives_no_digest_of_a_part(name: str, work: Any, at_leisure: None) -> None:
    query = "SELECT n FROM generate_series(1, 1200) AS n"
    assert measured(name, query, most_rows=1200).facts == {"rows": 1200}
    assert problem(name, query, most_rows=1199) == "too_many_rows"
    large = "SELECT repeat('x', 1000000) AS v FROM generate_series(1, 20)"
    with ends(PATIENCE_S):
        assert problem(name, large) == "too_large"
        assert problem(name, "SELECT repeat('x', 100000000) AS v") == "too_large"


def test_it_waits_for_no_lock_longer_than_it_may(name: str, work: Any) -> None:
    with psycopg.connect(f"host=127.0.0.1 user=postgres dbname={name}") as holder:
        holder.execute("LOCK TABLE ticket IN ACCESS EXCLUSIVE MODE")
        with ends():
            assert problem(name, timeout_s=1) == "timeout"
    assert measured(name).facts == {"rows": 2}


def test_it_ends_a_query_that_does_not(name: str, work: Any) -> None:
    slow = "SELECT n, pg_sleep(0.01)::text FROM generate_series(1, 50000) AS n"
    for query in ("SELECT pg_sleep(300)", slow):
        with ends():
            assert problem(name, query, timeout_s=0.5) == "timeout"
    left = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'branchgate' AND datname = %s"
    assert comes(lambda: work.execute(left, [name]).fetchone() == (0,))


@pytest.mark.parametrize("most", [0, 20, 400, 900, 1500])
@pytest.mark.parametrize(
    ("then", "words"),
    [("stall", {"timeout", "no_connection"}), ("cut", {"connection_lost", "no_connection"})],
)
def test_it_ends_where_the_server_falls_silent_or_the_wire_is_cut(
    name: str, work: Any, then: str, most: int, words: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    large = "SELECT n, repeat('x', 100) AS v FROM generate_series(1, 900) AS n"
    seconds = {"stall": 1, "cut": 10}[then]
    monkeypatch.setattr(postgres, "CONNECT_S", max(2, seconds))
    with leaves_nothing_open(), ends(), wire(POSTGRES, then=then, most=most) as between:
        assert problem(name, large, port=between.port, timeout_s=seconds) in words


def test_it_says_so_when_the_server_ends_its_connection_in_the_middle(
    name: str, work: Any, at_leisure: None
) -> None:
    found: list[StateMeasurement] = []
    slow = "SELECT n, pg_sleep(0.01)::text FROM generate_series(1, 50000) AS n"
    asking = threading.Thread(target=lambda: found.append(measured(name, slow)))
    asking.start()
    kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'branchgate'"
    kill += " AND datname = %s AND query LIKE '%%generate_series%%' AND pid <> pg_backend_pid()"
    assert comes(lambda: work.execute(kill, [name]).fetchone())
    asking.join()
    assert (found[0].fingerprint, found[0].problem) == (None, "connection_lost")


def test_it_sees_one_moment_while_rows_move(name: str, work: Any) -> None:
    """Rows are moved between two tables all the time: a cut through two moments would miss or double one."""
    work.execute("DROP TABLE IF EXISTS here, there; CREATE TABLE here (n int); CREATE TABLE there (n int)")
    work.execute("INSERT INTO here SELECT generate_series(1, 700)")
    stopped, moved = threading.Event(), threading.Event()

    def move() -> None:
        with psycopg.connect(f"host=127.0.0.1 user=postgres dbname={name}") as mover:
            for source, sink in itertools.cycle([("here", "there"), ("there", "here")]):
                if stopped.is_set():
                    return
                mover.execute(
                    f"WITH gone AS (DELETE FROM {source} RETURNING n) INSERT INTO {sink} SELECT n FROM gone"
                )
                mover.commit()
                moved.set()

    moving = threading.Thread(target=move)
    moving.start()
    try:
        assert moved.wait(PATIENCE_S)
        query = "SELECT n FROM here UNION ALL SELECT n FROM there"
        seen = {
            (found.fingerprint, found.facts["rows"]) for found in (measured(name, query) for _ in range(8))
        }
    finally:
        stopped.set()
        moving.join()
    assert {rows for _, rows in seen} == {700}
    assert len(seen) == 1


def test_it_says_so_where_the_client_library_is_not_installed(name: str, monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    assert problem(name) == "psycopg_missing"


def test_ten_thousand_rows_are_measured(name: str, work: Any, at_leisure: None) -> None:
    query = "SELECT n, 'row ' || n AS label, n * 1.5 AS price, now()::date AS day"
    query += " FROM generate_series(1, 10000) AS n"
    with ends():
        assert measured(name, query).facts == {"rows": 10_000}
    assert sql_rows.MOST_BYTES == 16 * 1024 * 1024
