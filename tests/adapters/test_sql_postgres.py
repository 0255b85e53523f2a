"""The SQL probe against a real PostgreSQL: what it tells apart, and what it refuses."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from branches.evidence.keys import is_hmac
from branches.ports import StateMeasurement
from debugger.adapters.probes.sql import SqlProbe
from tests.adapters.places import MARKER, MOMENT, target
from tests.adapters.wire import database


@pytest.fixture(scope="module")
def name() -> Iterator[str]:
    with database() as made:
        yield made


@pytest.fixture
def work(name: str) -> Iterator[Any]:
    with psycopg.connect(f"host=127.0.0.1 user=postgres dbname={name}", autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS ticket")
        connection.execute("CREATE TABLE ticket (id int, subject text, price numeric)")
        connection.execute("INSERT INTO ticket VALUES (1, %s, 1.50), (2, 'two', null)", [MARKER])
        yield connection


def measured(
    name: str, query: str = "SELECT * FROM ticket", *, port: int = 5432, **options: Any
) -> StateMeasurement:
    url = f"postgres://postgres@127.0.0.1:{port}/{name}"
    return SqlProbe().measure(target(**{"url": url, "query": query, "allow": "loopback"} | options), MOMENT)


def problem(name: str, query: str = "SELECT * FROM ticket", **options: Any) -> str | None:
    found = measured(name, query, **options)
    assert (found.fingerprint, found.reachable, found.facts) == (None, False, {})
    return found.problem


def test_it_measures_rows_whatever_their_order_and_counts_equal_ones(name: str, work: Any) -> None:
    first = measured(name, "SELECT * FROM ticket ORDER BY id")
    assert first.fingerprint is not None
    assert is_hmac(first.fingerprint)
    assert first.facts == {"rows": 2}
    assert measured(name, "SELECT * FROM ticket ORDER BY id DESC;") == first
    work.execute("INSERT INTO ticket VALUES (2, 'two', null)")
    twice = measured(name)
    assert twice.facts == {"rows": 3}
    work.execute("INSERT INTO ticket VALUES (2, 'two', null)")
    assert len({first.fingerprint, twice.fingerprint, measured(name).fingerprint}) == 3
    work.execute("DELETE FROM ticket WHERE id = 2")
    work.execute("INSERT INTO ticket VALUES (2, 'two', null)")
    assert measured(name) == first
    assert MARKER not in repr(first)


def test_it_keeps_types_apart(name: str, work: Any) -> None:
    values = [
        *("1", "1.0::float8", "1.0", "'1'::text", "true", "null", "null::text is null", "'\\x31'::bytea"),
        *("'2026-01-02'::date", "'2026-01-02'::timestamp", "'2026-01-02T00:00Z'::timestamptz"),
        *(
            "'2026-01-02'::text",
            "''::text",
            "'{1}'::int[]",
            "'{1}'::text",
            "'[1]'::jsonb",
            "'infinity'::date",
        ),
    ]
    seen = {value: measured(name, f"SELECT {value} AS v").fingerprint for value in values}
    assert seen.pop("null::text is null") == seen["true"]
    assert None not in seen.values()
    assert len(set(seen.values())) == len(seen)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1.0::numeric", "1.000::numeric"),
        ("0::numeric", "0.00::numeric"),
        ("7::int8", "7::int2"),
        ("'2026-01-02T01:00+01'::timestamptz", "'2026-01-02T00:00Z'::timestamptz"),
        ("""'{"b": 1, "a": 2}'::jsonb""", """'{"a": 2,  "b": 1}'::jsonb"""),
        ("null::int", "null::text"),
    ],
)
def test_it_takes_equal_values_for_equal(name: str, work: Any, one: str, other: str) -> None:
    assert measured(name, f"SELECT {one} AS v") == measured(name, f"SELECT {other} AS v")


@pytest.mark.parametrize(
    "preference", ["TimeZone = 'Asia/Tokyo'", "DateStyle = 'German'", "bytea_output = 'escape'"]
)
def test_it_is_the_same_whatever_the_database_prefers(name: str, work: Any, preference: str) -> None:
    query = (
        "SELECT now()::date - now()::date AS a, '2026-01-02T00:00Z'::timestamptz AS b, '\\x0001'::bytea AS c"
    )
    before = measured(name, query)
    work.execute(f"ALTER DATABASE {name} SET {preference}")
    try:
        assert measured(name, query) == before
    finally:
        work.execute(f"ALTER DATABASE {name} RESET ALL")


def test_it_gives_equal_states_of_two_databases_one_fingerprint_own_types_too(name: str, work: Any) -> None:
    making = "DROP TYPE IF EXISTS mood CASCADE; CREATE TYPE mood AS ENUM ('calm', 'cross')"
    work.execute(making)
    query = "SELECT 'calm'::mood AS m, ROW(1, 'x')::text AS r"
    with database() as other:
        with psycopg.connect(f"host=127.0.0.1 user=postgres dbname={other}", autocommit=True) as connection:
            connection.execute("CREATE TYPE spacer AS ENUM ('a')")
            connection.execute(making)
        assert measured(other, query) == measured(name, query)
    assert measured(name, "SELECT 'cross'::mood AS m").fingerprint != measured(name, query).fingerprint


@pytest.mark.parametrize(
    "query",
    [
        *("DELETE FROM ticket", "DELETE FROM ticket RETURNING *", "TRUNCATE ticket", "DROP TABLE ticket"),
        "WITH gone AS (DELETE FROM ticket RETURNING *) SELECT * FROM gone",
        *(
            "SELECT 1; DELETE FROM ticket",
            "COMMIT",
            "COMMIT; DELETE FROM ticket",
            "SET TRANSACTION READ WRITE",
        ),
        "SELECT * FROM ticket) AS q; DELETE FROM ticket; SELECT * FROM (SELECT 1",
        "SELECT set_config('transaction_read_only', 'off', false), * FROM ticket",
        *("SELECT * FROM ticket FOR UPDATE", "COPY ticket TO PROGRAM 'true'"),
        *(
            "SELECT nextval('ticket_number')",
            "SELECT 1 INTO ticket_copy",
            "VACUUM ticket",
            "EXPLAIN SELECT 1",
        ),
        "SELECT wipe()",
        *(
            "SELECT * FROM nowhere",
            "SELECT 1 / (id - id) FROM ticket",
            "not a query",
            "--",
            "SELECT %s",
            "SELECT $1",
        ),
    ],
)
def test_it_lets_no_query_write(name: str, work: Any, query: str) -> None:
    work.execute("DROP SEQUENCE IF EXISTS ticket_number; CREATE SEQUENCE ticket_number")
    work.execute(
        "CREATE OR REPLACE FUNCTION wipe() RETURNS int LANGUAGE plpgsql AS"
        " 'BEGIN PERFORM set_config(''transaction_read_only'', ''off'', true);"
        " DELETE FROM ticket; RETURN 1; END'"
    )
    assert problem(name, query) in {"not_read_only", "query_failed"}
    assert work.execute("SELECT count(*) FROM ticket").fetchone() == (2,)
    assert work.execute("SELECT is_called FROM ticket_number").fetchone() == (False,)
    assert work.execute("SELECT to_regclass('ticket_copy')").fetchone() == (None,)


def test_it_leaves_nothing_of_what_a_server_still_lets_it_write(name: str, work: Any) -> None:
    """Before PostgreSQL 16 a read-only transaction may make large objects; it is never committed."""
    measured(name, "SELECT lo_create(424242) AS v")
    assert work.execute("SELECT count(*) FROM pg_largeobject_metadata").fetchone() == (0,)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"allow": None}, "address_refused"),
        ({"url": "postgres:///x?host=/var/run/postgresql"}, "target_unfit"),
        ({"url": "postgres://postgres@%2Fvar%2Frun%2Fpostgresql/x"}, "target_unfit"),
        ({"url": "postgres://postgres@/x"}, "target_unfit"),
        ({"url": "postgres://postgres@127.0.0.1/x?host=10.0.0.1"}, "target_unfit"),
        ({"url": "postgres://postgres@127.0.0.1/x?options=-c%20a%3Db"}, "target_unfit"),
        ({"url": "postgres://postgres@127.0.0.1,10.0.0.1/x"}, "target_unfit"),
        ({"url": "postgres://postgres:secret@127.0.0.1/x"}, "target_unfit"),
        ({"url": "postgres://postgres@127.0.0.1/"}, "target_unfit"),
        ({"url": "postgres://127.0.0.1/x"}, "target_unfit"),
        ({"url": "mysql://postgres@127.0.0.1/x"}, "target_unfit"),
        ({"url": "postgres://postgres@127.0.0.1:1/x"}, "no_connection"),
        ({"url": "postgres://postgres@127.0.0.1/nowhere_at_all"}, "no_connection"),
        ({"url": "postgres://postgres@127.0.0.1/x?sslmode=verify-full"}, "no_connection"),
        ({"password_env": "1x"}, "target_unfit"),
        ({"password_env": "{env:BRANCHGATE_NO_SUCH"}, "target_unfit"),
        ({"password_env": "{env:BRANCHGATE_NO_SUCH}"}, "secret_missing"),
        ({"most_rows": 0}, "target_unfit"),
        ({"most_rows": 10**9}, "target_unfit"),
        ({"timeout_s": 60}, "target_unfit"),
        ({"timeout_s": True}, "target_unfit"),
        ({"query": ""}, "target_unfit"),
        ({"query": "SELECT 1\0"}, "target_unfit"),
        ({"query": "SELECT '\udcff'"}, "target_unfit"),
    ],
)
def test_it_connects_only_as_the_target_says(name: str, options: dict[str, Any], word: str) -> None:
    assert problem(name, **options) == word


def test_it_sends_no_secret_in_clear_to_a_public_address(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRANCHGATE_TEST_SECRET", MARKER)
    for given in ("BRANCHGATE_TEST_SECRET", "{env:BRANCHGATE_TEST_SECRET}"):
        url = "postgres://postgres@8.8.8.8/x"
        assert problem(name, url=url, password_env=given) == "secret_in_clear"
        assert measured(name, "SELECT 1", password_env=given).facts == {"rows": 1}


def test_it_lets_nothing_out_that_a_server_says(name: str, work: Any, capfd: Any, caplog: Any) -> None:
    caplog.set_level("DEBUG")
    for query in (
        f"SELECT '{MARKER}'::int",
        f'SELECT * FROM "{MARKER}"',
        f"SELECT '{MARKER}' AS \"{MARKER}\"",
        f"DO $$ BEGIN RAISE NOTICE '{MARKER}'; END $$",
    ):
        found = measured(name, query)
        assert MARKER not in repr(found)
    assert MARKER not in "".join(capfd.readouterr()) + caplog.text
