"""The SQL probe on real SQLite files: live, locked, changing, of any encoding, and never written."""

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from branches.ports import StateMeasurement, StateProbe, Unsupported
from debugger.adapters.probes import sql
from debugger.adapters.probes.sql import SqlProbe
from tests.adapters.places import MARKER, MOMENT, target
from tests.adapters.wire import leaves_nothing_open
from tests.patience import ends


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "agent work.sqlite"
    with closing(sqlite3.connect(made)) as connection, connection:
        connection.execute("CREATE TABLE ticket (id INTEGER, subject)")
        connection.executemany("INSERT INTO ticket VALUES (?, ?)", [(1, MARKER), (2, "two")])
    return made


def run(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def measured(path: Path, query: str = "SELECT * FROM ticket", **options: Any) -> StateMeasurement:
    url = path.absolute().as_uri().replace("file://", "sqlite://")
    return SqlProbe().measure(target(**{"url": url, "query": query} | options), MOMENT)


def problem(path: Path, query: str = "SELECT * FROM ticket", **options: Any) -> str | None:
    found = measured(path, query, **options)
    assert (found.fingerprint, found.reachable, found.facts) == (None, False, {})
    return found.problem


def test_it_fulfils_its_port_and_has_no_past() -> None:
    probe = SqlProbe()
    assert isinstance(probe, StateProbe)
    for sentence in (probe.limits, probe.remedy):
        assert sentence.endswith(".")
        assert 40 < len(sentence) < 260
    with pytest.raises(Unsupported):
        probe.capture(target(), MOMENT)
    assert probe.measure(target(), MOMENT).problem == "target_unfit"


def test_it_measures_rows_whatever_their_order_and_counts_equal_ones(path: Path) -> None:
    first = measured(path)
    assert first.facts == {"rows": 2}
    assert measured(path, "SELECT * FROM ticket ORDER BY id DESC;") == first
    assert measured(path.parent / "." / path.name) == first
    assert SqlProbe().measure(target(url=f"sqlite:////{path}", query="SELECT * FROM ticket"), MOMENT) == first
    run(path, "INSERT INTO ticket VALUES (2, 'two')")
    assert measured(path).fingerprint != first.fingerprint
    run(path, "DELETE FROM ticket WHERE id = 2", "INSERT INTO ticket VALUES (2, 'two')")
    assert measured(path) == first
    assert MARKER not in repr(first)


def test_it_keeps_types_and_columns_apart(path: Path) -> None:
    values = ["1", "1.0", "'1'", "x'31'", "NULL", "''", "x''", "1e999", "0.1", "'0.1'", "true + 1"]
    seen = {value: measured(path, f"SELECT {value} AS v").fingerprint for value in values}
    assert measured(path, "SELECT true AS v").fingerprint == seen["1"]
    seen["renamed"] = measured(path, "SELECT 1 AS w").fingerprint
    seen["none"] = measured(path, "SELECT 1 AS v WHERE false").fingerprint
    seen["split"] = measured(path, "SELECT 'a' AS v, 'bc' AS v").fingerprint
    seen["split otherwise"] = measured(path, "SELECT 'ab' AS v, 'c' AS v").fingerprint
    assert None not in seen.values()
    assert len(set(seen.values())) == len(seen)


def test_it_is_the_same_in_another_process_and_file(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    with closing(sqlite3.connect(other)) as connection, connection:
        connection.execute("PRAGMA page_size = 512")
        connection.execute("CREATE TABLE ticket (id INTEGER, subject)")
        connection.executemany("INSERT INTO ticket VALUES (?, ?)", [(2, "two"), (1, MARKER)])
    code = f"from tests.adapters.test_sql_sqlite import *\nprint(measured(Path({str(other)!r})).fingerprint)"
    env = {**os.environ, "PYTHONHASHSEED": "7"}
    root = Path(__file__).parents[2]
    said = subprocess.run(
        [sys.executable, "-c", code], cwd=root, env=env, check=True, capture_output=True, text=True
    )
    assert said.stdout.strip() == measured(path).fingerprint


@pytest.mark.parametrize(
    "query",
    [
        *(
            "DELETE FROM ticket",
            "DELETE FROM ticket RETURNING *",
            "DROP TABLE ticket",
            "VACUUM",
            "BEGIN",
            "COMMIT",
        ),
        *("SELECT 1; DELETE FROM ticket", "PRAGMA query_only = OFF", "PRAGMA user_version = 7", "REINDEX"),
        *("ATTACH DATABASE '{other}' AS other", "VACUUM INTO '{other}'", "CREATE TEMP TABLE t (a)"),
        *("SELECT load_extension('x')", "SELECT * FROM pragma_table_info('ticket')", "SAVEPOINT a"),
        *(
            "WITH a AS (SELECT 1) INSERT INTO ticket SELECT 3, 'x'",
            "SELECT * FROM nowhere",
            "not a query",
            "--",
        ),
        *("SELECT ?", "SELECT * FROM ticket ) --", "UPDATE ticket SET id = 1"),
    ],
)
def test_it_lets_no_query_write(path: Path, query: str) -> None:
    other = path.with_name("other.db")
    before = path.read_bytes()
    assert problem(path, query.format(other=other)) in {"not_read_only", "query_failed"}
    assert path.read_bytes() == before
    assert sorted(each.name for each in path.parent.iterdir()) == [path.name]


def test_it_gives_no_digest_of_a_part(path: Path) -> None:
    many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1200) SELECT i FROM n"
    assert measured(path, many, most_rows=1200).facts == {"rows": 1200}
    assert problem(path, many, most_rows=1199) == "too_many_rows"
    assert problem(path, "SELECT zeroblob(100000000) AS v") == "too_large"
    assert problem(path, many.replace("SELECT i FROM", "SELECT zeroblob(1000000) FROM")) == "too_large"


def test_it_ends_a_query_that_does_not(path: Path) -> None:
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
    with ends():
        assert problem(path, endless, timeout_s=0.4) == "timeout"


def test_it_waits_for_no_lock_longer_than_it_may_and_reads_after_it(path: Path) -> None:
    with leaves_nothing_open():
        holder = sqlite3.connect(path, isolation_level=None)
        holder.execute("BEGIN EXCLUSIVE")
        with ends():
            assert problem(path, timeout_s=0.4) == "locked"
        holder.execute("ROLLBACK")
        holder.close()
        assert measured(path).facts == {"rows": 2}


def test_it_sees_one_moment_of_a_live_file_while_rows_move(path: Path) -> None:
    """Rows move between two tables all the time: a cut through two moments would miss or double some."""
    run(path, "PRAGMA journal_mode = WAL", "CREATE TABLE here (n)", "CREATE TABLE there (n)")
    run(
        path,
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 700)"
        " INSERT INTO here SELECT i FROM n",
    )
    code = (
        "import itertools, sqlite3, sys\n"
        "c, told = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=60), False\n"
        "for a, b in itertools.cycle([('here', 'there'), ('there', 'here')]):\n"
        "    c.execute('BEGIN IMMEDIATE')\n"
        "    c.execute(f'INSERT INTO {b} SELECT n FROM {a}'); c.execute(f'DELETE FROM {a}')\n"
        "    c.execute('COMMIT')\n"
        "    told = told or not print(flush=True)\n"
    )
    mover = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE)
    try:
        assert mover.stdout is not None
        assert mover.stdout.readline() == b"\n"  # they move
        query = "SELECT n FROM here UNION ALL SELECT n FROM there"
        seen = [measured(path, query) for _ in range(20)]
    finally:
        mover.kill()  # in the middle of whatever it does
        mover.communicate()
    assert {found.facts.get("rows") for found in seen} == {700}
    assert len({found.fingerprint for found in seen}) == 1
    assert measured(path, query) == seen[0]


def test_it_believes_no_file_that_a_killed_writer_left_half_written(path: Path) -> None:
    """A hot journal has to be undone first, which reading alone cannot do."""
    run(path, "CREATE TABLE big (v)", "PRAGMA journal_mode = DELETE")
    code = (
        "import os, sqlite3, sys\n"
        "c = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "c.execute('PRAGMA cache_size = 5'); c.execute('BEGIN')\n"
        "c.executemany('INSERT INTO big VALUES (?)', [('x' * 900,)] * 2000)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=False)
    assert path.with_name(path.name + "-journal").stat().st_size > 512
    assert problem(path) == "database_unreadable"
    run(path, "SELECT count(*) FROM big")  # whoever may write undoes it
    assert measured(path).facts == {"rows": 2}


def test_it_reads_text_of_no_encoding_and_tells_it_from_bytes(path: Path) -> None:
    seen = [measured(path, f"SELECT {value} AS v") for value in ("CAST(x'ff31' AS TEXT)", "x'ff31'", "x'ff'")]
    assert {found.problem for found in seen} == {None}
    assert len({found.fingerprint for found in seen}) == 3


@pytest.mark.parametrize(
    ("form", "word"),
    [
        ("sqlite://{path}?mode=rwc", "target_unfit"),
        ("sqlite://{path}#a", "target_unfit"),
        ("sqlite:{path}", "target_unfit"),
        ("sqlite:///", "target_unfit"),
        ("sqlite://host{path}", "target_unfit"),
        ("sqlite://{path}%00", "target_unfit"),
        ("sqlite://{path}.gone", "database_absent"),
        ("sqlite://{path}/below", "database_absent"),
        ("sqlite://{folder}", "database_unreadable"),
        ("sqlite:///dev/zero", "database_unreadable"),
        ("sqlite://{folder}/pipe", "database_unreadable"),
        ("sqlite://{folder}/text", "database_unreadable"),
    ],
)
def test_it_opens_only_what_the_target_says_and_what_is_a_database(path: Path, form: str, word: str) -> None:
    os.mkfifo(path.with_name("pipe"))
    path.with_name("text").write_text(MARKER * 100)
    url = form.format(path=str(path).replace(" ", "%20"), folder=path.parent)
    assert problem(path, url=url) == word


def test_it_makes_no_file_where_none_was(path: Path) -> None:
    assert problem(path.with_name("gone.sqlite")) == "database_absent"
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_it_lets_nothing_out_that_a_query_says(path: Path, capfd: Any, caplog: Any) -> None:
    caplog.set_level("DEBUG")
    for query in (
        f"SELECT {MARKER.replace('-', '_')}",
        f"SELECT '{MARKER}' AS '{MARKER}'",
        f"SELECT * FROM '{MARKER}'",
    ):
        assert "CONTENT" not in repr(measured(path, query))
    assert "CONTENT" not in "".join(capfd.readouterr()) + caplog.text


@pytest.fixture
def large(tmp_path: Path) -> Path:
    made = tmp_path / "large.sqlite"
    with closing(sqlite3.connect(made)) as connection, connection:
        connection.execute("CREATE TABLE t (a, b, c)")
        connection.executemany(
            "INSERT INTO t VALUES (?, ?, ?)", ((n, f"row {n}", n / 7) for n in range(100_000))
        )
    return made


def test_a_hundred_thousand_rows_are_measured(large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for limit in ("DEFAULT_SECONDS", "MOST_SECONDS"):
        monkeypatch.setattr(sql, limit, 60)
    with ends():
        assert measured(large, "SELECT * FROM t", most_rows=100_000).facts == {"rows": 100_000}
