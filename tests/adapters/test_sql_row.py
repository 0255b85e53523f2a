"""The row destination and verifier against a SQLite file and a PostgreSQL server."""

import socket
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from branches.ports import (
    Answer,
    Baseline,
    Check,
    DestinationQuery,
    ListsArrivals,
    OutcomeVerifier,
    Question,
    Target,
)
from debugger.adapters.destinations import sql_rows
from debugger.adapters.destinations.sql_row import SqlRowDestination, SqlRowVerifier
from tests.adapters.places import KEY, MARKER, NOW, target
from tests.adapters.talks import OPERATION, OTHER, drips, hurry, nothing_of, says, server, stalls
from tests.adapters.test_http_json import payload
from tests.patience import STALL_S, comes, ends

ADMIN = "host=127.0.0.1 port=5432 user=postgres connect_timeout=60"
COLUMNS = "operation_key text, subject text, amount integer, done boolean, number integer, at text"
LATEST = "SELECT * FROM orders ORDER BY number DESC"


class Database:
    """A table of orders, in either database."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.options = options

    def execute(self, statement: str, *values: Any) -> None:
        raise NotImplementedError

    def add(self, key: str | None = OPERATION, **changes: Any) -> None:
        row = {"subject": MARKER, "amount": 7, "done": True, "number": 3, "at": NOW.isoformat(), **changes}
        self.execute("INSERT INTO orders VALUES (?, ?, ?, ?, ?, ?)", key, *row.values())

    def target(self, **changes: Any) -> Target:
        options = {
            **self.options,
            "query": "SELECT * FROM orders WHERE operation_key = :operation_key",
            "payload": ["subject", "amount"],
            "version": "number",
            "ref": "number",
            "latest_query": LATEST,
            "list_query": "SELECT operation_key, at, number AS ref FROM orders WHERE at >= :since",
            "expected": {"order": {"amount": 7, "subject": MARKER}},
            **changes,
        }
        return target(**{name: value for name, value in options.items() if value is not None})


class Sqlite(Database):
    def __init__(self, folder: Path) -> None:
        self.path = folder / "orders.sqlite"
        super().__init__({"url": f"sqlite://{self.path}"})
        self.execute(f"CREATE TABLE orders ({COLUMNS})")

    def execute(self, statement: str, *values: Any) -> None:
        with closing(sqlite3.connect(self.path)) as connection, connection:
            connection.execute(statement, values)


class Postgresql(Database):
    def __init__(self, name: str) -> None:
        self.dsn = f"{ADMIN} dbname={name}"
        super().__init__({"url": f"postgresql://postgres@127.0.0.1:5432/{name}", "allow": "loopback"})
        self.execute(f"CREATE TABLE orders ({COLUMNS})")

    def execute(self, statement: str, *values: Any) -> None:
        with psycopg.connect(self.dsn) as connection:
            connection.execute(statement.replace("?", "%s").encode(), values)


@pytest.fixture(scope="module")
def postgresql_name() -> Iterator[str]:
    name = f"orders_{uuid4().hex}"
    try:
        admin = psycopg.connect(f"{ADMIN} dbname=postgres", autocommit=True)
    except psycopg.OperationalError:
        pytest.skip("no PostgreSQL server at 127.0.0.1:5432")
    with admin:
        admin.execute(f"CREATE DATABASE {name}")
        yield name
        admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def postgresql(postgresql_name: str) -> Iterator[Postgresql]:
    made = Postgresql(postgresql_name)
    yield made
    made.execute("DROP TABLE orders")


@pytest.fixture(params=["sqlite", "postgresql"])
def orders(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    return Sqlite(tmp_path) if request.param == "sqlite" else request.getfixturevalue("postgresql")


def ask(place: Target, sent: str | None = None) -> Any:
    return SqlRowDestination().ask(place, Question(OPERATION, "order", sent))


def check(
    place: Target, base: str | None, keys: frozenset[str] = frozenset(), expected: str = "order"
) -> Any:
    return SqlRowVerifier().check(place, expected, base, keys)


def test_it_fulfils_its_ports() -> None:
    assert isinstance(SqlRowDestination(), DestinationQuery)
    assert isinstance(SqlRowDestination(), ListsArrivals)
    assert isinstance(SqlRowVerifier(), OutcomeVerifier)
    assert SqlRowDestination.limits.endswith(".")


def test_it_finds_the_row_of_an_operation(orders: Database) -> None:
    orders.add(OTHER)
    assert ask(orders.target()).answer is Answer.ABSENT
    orders.add()
    sent = payload({"subject": MARKER, "amount": 7}, "order")
    found = ask(orders.target(), sent)
    assert (found.answer, found.fingerprint, found.version) == (Answer.PRESENT, sent, "3")
    assert found.ref == KEY.digest("ref", "3")
    assert nothing_of(found, MARKER, OPERATION)
    assert ask(orders.target(), payload({"subject": MARKER, "amount": 8}, "order")).answer is Answer.CHANGED


def test_both_databases_give_a_row_one_fingerprint(tmp_path: Path, postgresql: Postgresql) -> None:
    places = [Sqlite(tmp_path), postgresql]
    for each in places:
        each.add()
    query = "SELECT operation_key, subject, amount, at FROM orders WHERE operation_key = :operation_key"
    first, second = (ask(each.target(payload=None, query=query)).fingerprint for each in places)
    assert first == second


def test_two_rows_of_one_key_are_no_answer(orders: Database) -> None:
    orders.add()
    orders.add(number=4)
    assert (ask(orders.target()).answer, ask(orders.target()).problem) == (Answer.UNKNOWN, "ambiguous")


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"query": "SELECT * FROM orders"}, "target_unfit"),
        ({"query": 3}, "target_unfit"),
        ({"payload": {"order": "subject"}}, "target_unfit"),
        ({"query": "SELECT * FROM nowhere WHERE operation_key = :operation_key"}, "query_failed"),
        ({"query": "DELETE FROM orders WHERE operation_key = :operation_key"}, "query_failed"),
        ({"query": "SELECT 1; DELETE FROM orders WHERE operation_key = :operation_key"}, "query_failed"),
        ({"payload": ["nothing"]}, "field_missing"),
    ],
)
def test_it_says_unknown_of_a_query_that_does_not_read_one_row(
    orders: Database, changes: dict[str, Any], problem: str
) -> None:
    orders.add()
    found = ask(orders.target(**changes))
    assert (found.answer, found.problem) == (Answer.UNKNOWN, problem)
    assert ask(orders.target()).answer is Answer.PRESENT


def test_it_writes_nothing_whatever_the_query_says(orders: Database, tmp_path: Path) -> None:
    orders.add()
    writing = [
        "WITH gone AS (DELETE FROM orders RETURNING *) SELECT * FROM gone WHERE '' <> :operation_key",
        f"ATTACH '{tmp_path}/other.sqlite' AS other -- :operation_key",
        "PRAGMA user_version = 7 -- :operation_key",
        "SELECT load_extension('evil') WHERE '' <> :operation_key",
        "SELECT set_config('role', 'none', false), nextval('orders_s') WHERE '' <> :operation_key",
    ]
    for query in writing:
        assert ask(orders.target(query=query, payload=None)).answer is Answer.UNKNOWN, query
    assert not (tmp_path / "other.sqlite").exists()
    assert ask(orders.target()).answer is Answer.PRESENT


def test_a_row_larger_than_what_is_read_is_no_answer(orders: Database) -> None:
    orders.add(subject="x" * 70_000)
    assert ask(orders.target()).problem == "too_large"


def test_it_takes_percent_signs_and_casts_as_they_are_written(orders: Database) -> None:
    orders.add(subject="100%s")
    query = "SELECT *, 7 % 4 AS rest FROM orders WHERE operation_key = :operation_key AND subject LIKE '100%'"
    found = ask(orders.target(query=query, payload=["rest"]), payload({"rest": 3}, "order"))
    assert found.answer is Answer.PRESENT


def test_a_query_that_runs_on_is_ended(orders: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch, 0.5)
    endless = (
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)"
        " SELECT count(*) FROM n WHERE '' <> :operation_key"
    )
    with ends():
        found = ask(orders.target(query=endless, payload=None))
    assert (found.answer, found.problem) == (Answer.UNKNOWN, "timeout")


def test_it_lists_what_arrived_with_its_key_or_none(orders: Database) -> None:
    destination = SqlRowDestination()
    orders.add()
    orders.add(MARKER, number=4)
    orders.add(None, number=5, at=(NOW - timedelta(days=1)).isoformat())
    listed = destination.arrivals(orders.target(), NOW)
    assert listed is not None
    assert [(each.operation_key, each.at) for each in listed] == [(OPERATION, NOW), (None, NOW)]
    assert listed[0].ref == KEY.digest("ref", "3")
    assert MARKER not in repr(listed)
    assert destination.arrivals(orders.target(list_query=None), NOW) is None
    assert [destination.lists(orders.target(**each)) for each in ({}, {"list_query": None})] == [True, False]
    assert destination.arrivals(orders.target(list_query="SELECT 1 FROM nowhere"), NOW) is None


def test_a_list_that_is_too_long_is_none(orders: Database) -> None:
    many = (
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 1001)"
        " SELECT x AS ref FROM n WHERE '' <> :since"
    )
    assert SqlRowDestination().arrivals(orders.target(list_query=many), NOW) is None
    fewer = SqlRowDestination().arrivals(orders.target(list_query=f"{many} AND x < 1001"), NOW)
    assert fewer is not None
    assert len(fewer) == 1000


def test_it_passes_only_a_newer_row_of_this_run_that_fits(orders: Database) -> None:
    verifier = SqlRowVerifier()
    assert verifier.baseline(orders.target(), "order") == Baseline(None, reachable=True)
    assert check(orders.target(), None).problem == "nothing_there"
    orders.add(number=3)
    assert verifier.baseline(orders.target(), "order") == Baseline("3", reachable=True)
    assert check(orders.target(), "3").problem == "none_newer"
    orders.add(OTHER, number=4)
    passed = check(orders.target(), "3")
    assert (passed.check, passed.fresh, passed.version) == (Check.PASSED, True, "4")
    keyed = orders.target(operation_key="operation_key")
    assert check(keyed, "3", frozenset({OPERATION})).problem == "none_newer"
    assert check(keyed, "2", frozenset({OPERATION})).version == "3"
    theirs = check(keyed, "3", frozenset({"x"}))
    assert (theirs.check, theirs.fresh, theirs.problem) == (Check.FAILED, False, "another_operation")
    orders.add(number=5, amount=8)
    failed = check(orders.target(), "3")
    assert (failed.check, failed.difference) == (Check.FAILED, (KEY.digest("name", "amount"),))


def test_it_passes_nothing_that_was_not_declared_or_cannot_be_ordered(orders: Database) -> None:
    orders.add()
    assert check(orders.target(), None, expected="memo").problem == "target_unfit"
    assert check(orders.target(version="subject"), "3").problem in {"version_unordered", "version_unreadable"}
    assert check(orders.target(latest_query="SELECT 1 FROM nowhere"), None).check is Check.UNREACHABLE
    assert (
        SqlRowVerifier().baseline(orders.target(version="nothing"), "order").problem == "version_unreadable"
    )


def test_a_sqlite_file_that_is_gone_no_database_or_locked_is_unknown(tmp_path: Path) -> None:
    orders = Sqlite(tmp_path)
    assert ask(orders.target(url="orders.sqlite")).problem == "target_unfit"
    assert ask(orders.target(url=f"sqlite://{tmp_path}/gone")).problem == "database_absent"
    assert not (tmp_path / "gone").exists()
    with closing(sqlite3.connect(orders.path)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        assert ask(orders.target()).problem == "query_failed"
    orders.path.write_bytes(b"SQLite format 3\0" + MARKER.encode() * 100)
    assert ask(orders.target()).answer is Answer.UNKNOWN


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("postgresql:///a", "target_unfit"),
        ("postgresql://u@%2Fvar%2Frun/a", "target_unfit"),
        ("postgresql://u@127.0.0.1,127.0.0.2/a", "target_unfit"),
        ("postgresql://u@127.0.0.1/a?hostaddr=10.0.0.1", "target_unfit"),
        ("postgresql://u:pw@127.0.0.1/a", "target_unfit"),
        ("mysql://u@127.0.0.1/a", "target_unfit"),
        ("postgresql://u@127.0.0.1:9/a", "no_connection"),
        (f"postgresql://postgres@127.0.0.1/{MARKER}", "no_connection"),
        ("postgresql://u@10.0.0.1/a", "address_refused"),
    ],
)
def test_it_says_unknown_of_a_server_it_may_not_or_cannot_reach(
    tmp_path: Path, url: str, problem: str
) -> None:
    found = ask(Sqlite(tmp_path).target(url=url, allow="loopback"))
    assert (found.answer, found.problem) == (Answer.UNKNOWN, problem)
    assert nothing_of(found, MARKER)


@pytest.mark.parametrize("talk", [says(b""), says(b"garbage"), stalls(), stalls(b"R"), drips(b"N")])
def test_a_server_that_stalls_or_talks_nonsense_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, talk: Any
) -> None:
    hurry(monkeypatch)
    with server(talk) as port:
        url = f"postgresql://a@127.0.0.1:{port}/a?sslmode=disable"
        with ends():
            found = ask(Sqlite(tmp_path).target(url=url, allow="loopback"))
    assert (found.answer, found.problem) == (Answer.UNKNOWN, "no_connection")


class Line:
    """A line to the real server that can be held or cut once the query is under way."""

    def __init__(self, *, closes: bool) -> None:
        self.closes = closes
        self.seen = b""

    def __call__(self, near: socket.socket) -> None:
        with socket.create_connection(("127.0.0.1", 5432)) as far:
            threading.Thread(target=self._back, args=(far, near), daemon=True).start()
            while sent := near.recv(65536):
                self.seen += sent
                if b"row_to_json" in sent:
                    if not self.closes:
                        near.settimeout(STALL_S)
                        near.recv(65536)  # nothing, until whoever asked goes away
                    return
                far.sendall(sent)

    def _back(self, far: socket.socket, near: socket.socket) -> None:
        with suppress(OSError):
            while answered := far.recv(65536):
                near.sendall(answered)


@pytest.mark.parametrize(("closes", "problem"), [(True, "connection_lost"), (False, "timeout")])
def test_a_connection_cut_or_held_in_the_middle_of_a_query_is_unknown(
    postgresql: Postgresql, monkeypatch: pytest.MonkeyPatch, closes: bool, problem: str
) -> None:
    if not closes:
        monkeypatch.setattr(sql_rows, "QUERY_S", 5.0)  # by then it has asked
    line = Line(closes=closes)
    with server(line) as port, ends():
        found = ask(postgresql.target(url=postgresql.options["url"].replace("5432", str(port))))
    assert (found.answer, found.problem) == (Answer.UNKNOWN, problem)
    assert b"READ ONLY" in line.seen


def test_a_row_that_a_policy_hides_is_not_absent(postgresql: Postgresql) -> None:
    role = f"reader_{uuid4().hex[:8]}"
    postgresql.add()
    postgresql.execute(f"CREATE ROLE {role} LOGIN")
    try:
        postgresql.execute(f"GRANT SELECT ON orders TO {role}")
        postgresql.execute("ALTER TABLE orders ENABLE ROW LEVEL SECURITY")
        found = ask(postgresql.target(url=postgresql.options["url"].replace("postgres@", f"{role}@")))
        assert (found.answer, found.problem) == (Answer.UNKNOWN, "query_failed")
    finally:
        postgresql.execute(f"DROP OWNED BY {role}")
        postgresql.execute(f"DROP ROLE {role}")


def test_it_leaves_no_connection_behind(postgresql: Postgresql) -> None:
    ours = (
        "SELECT array_agg(pid) FROM pg_stat_activity WHERE application_name = 'branchgate'"
        " AND datname = current_database() AND backend_start > now() - interval '1 minute'"
    )
    with psycopg.connect(postgresql.dsn, autocommit=True) as connection:
        before = connection.execute(ours).fetchone()
        for _ in range(3):
            ask(postgresql.target())
            ask(postgresql.target(query="SELECT 1 FROM nowhere WHERE '' <> :operation_key"))
        assert before is not None
        assert comes(lambda: _pids(connection.execute(ours).fetchone()) <= _pids(before))


def _pids(row: Any) -> set[int]:
    return set(row[0] or [])


def test_times_come_as_the_database_writes_them(postgresql: Postgresql) -> None:
    postgresql.add()
    query = "SELECT operation_key, timestamptz '2026-11-30 12:00+00' AS at FROM orders WHERE '' <> :since"
    listed = SqlRowDestination().arrivals(postgresql.target(list_query=query), NOW)
    assert listed is not None
    assert [each.at for each in listed] == [datetime(2026, 11, 30, 12, 0, tzinfo=UTC)]


def test_no_variable_of_the_environment_leads_elsewhere(
    postgresql: Postgresql, monkeypatch: pytest.MonkeyPatch
) -> None:
    postgresql.add()
    with monkeypatch.context() as there:
        for name, value in {"PGHOSTADDR": "10.0.0.1", "PGPORT": "9", "PGDATABASE": "none"}.items():
            there.setenv(name, value)
        found = ask(postgresql.target())
    assert found.answer is Answer.PRESENT
