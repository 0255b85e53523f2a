"""After everything else: what people and agents said is in no file, row, key or line of the product."""

import base64
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis
from psycopg import sql

from debugger.demo.script import MARKER
from debugger.demo.walker import Walk
from tests.browser.journey import Journey
from tests.browser.visits import Visit
from tests.leaks import forms, opened
from tests.worlds import DemoProcess

FORMS = forms(MARKER)


def holds(found: bytes) -> bool:
    return any(form in found for form in FORMS)


def outside_the_demo(var: Path) -> Iterator[Path]:
    for path in var.rglob("*"):
        if path.is_file() and path.relative_to(var).parts[0] != "demo":
            yield path


def sessions(demo: DemoProcess) -> list[str]:
    question = "SELECT session_data FROM django_session"
    if url := demo.env.get("DATABASE_URL"):
        with psycopg.connect(url) as server:
            return [row[0] for row in server.execute(question)]
    with closing(sqlite3.connect(demo.var / "branchgate.sqlite3")) as file:
        return [row[0] for row in file.execute(question)]


@pytest.fixture
def used(journey: Journey, unsettled: Walk, visit: Visit) -> DemoProcess:
    """The world after its content was asked for: on the pages that show it, it is there."""
    page = visit("ada")
    shown = []
    for listed, label in (("", "New text"), ("?key=agent_memory", "New value")):
        page.goto(f"/branches/{unsettled.branch}/edit/{listed}")
        for link in page.get_by_role("link", name="Choose").all():
            href = link.get_attribute("href") or ""
            if ("value=" in href) != (label == "New value"):
                continue
            target = visit("ada")
            target.goto(f"/branches/{unsettled.branch}/edit/{href}")
            shown += [label] * (MARKER in target.get_by_label(label).input_value())
    assert set(shown) == {"New text", "New value"}, "not shown, so that its absence elsewhere says nothing"
    return journey.demo


def test_its_search_would_find_the_marker() -> None:
    for text in (MARKER, f"a{MARKER}", f"ab {MARKER} c"):
        for coded in (text.encode(), base64.b64encode(text.encode()), text.encode().hex().encode()):
            assert holds(coded)
    assert not holds(base64.b64encode(b"nothing of the sort, whatever it says"))


def test_it_keeps_no_content_in_any_file_and_prints_none(used: DemoProcess) -> None:
    files = list(outside_the_demo(used.var))
    assert {"master-key"} <= {path.name for path in files}
    if "DATABASE_URL" not in used.env:
        assert {"branchgate.sqlite3", "branchgate.sqlite3-wal"} <= {path.name for path in files}
    # A broker's file may be taken between the listing and the reading; then it holds nothing any more.
    assert [path for path in files if path.exists() and holds(path.read_bytes())] == []
    assert not holds(used.output().encode())
    assert sessions(used)
    assert not any(holds(opened(session)) for session in sessions(used))


def test_it_keeps_no_content_in_any_row_and_in_no_key_of_the_broker(used: DemoProcess) -> None:
    rows = list(every_row(used))
    assert len({table for table, _ in rows}) > 20
    assert {table for table, row in rows if holds(row)} == set()
    assert list(keys_that_leak(used.env.get("CELERY_BROKER_URL", ""))) == []


def every_row(demo: DemoProcess) -> Iterator[tuple[str, bytes]]:
    """Yield each row of each table with all its columns; PostgreSQL writes bytes as hexadecimal."""
    if url := demo.env.get("DATABASE_URL"):
        with psycopg.connect(url) as server:
            tables = server.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
            for (name,) in tables:
                every = sql.SQL("SELECT t::text FROM {} AS t").format(sql.Identifier(name))
                yield from ((name, text.encode()) for (text,) in server.execute(every))
        return
    with closing(sqlite3.connect(demo.var / "branchgate.sqlite3")) as file:
        tables = file.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        for (name,) in tables:
            for row in file.execute(f'SELECT * FROM "{name}"'):
                yield name, b" ".join(part if isinstance(part, bytes) else str(part).encode() for part in row)


def keys_that_leak(url: str) -> Iterator[str]:
    if not url.startswith("redis"):
        return
    with redis.Redis.from_url(url) as store:
        for key in store.scan_iter():
            if holds(key) or any(holds(part) for part in _parts(store, key)):
                yield key.decode(errors="replace")


def _parts(store: Any, key: bytes) -> list[bytes]:
    """Return everything under a key, whatever its type; a key may expire while it is looked at."""
    match store.type(key):
        case b"string":
            return [store.get(key) or b""]
        case b"list":
            return list(store.lrange(key, 0, -1))
        case b"set":
            return list(store.smembers(key))
        case b"hash":
            return [part for pair in store.hgetall(key).items() for part in pair]
        case b"zset":
            return list(store.zrange(key, 0, -1))
        case b"stream":
            return [part for _, pair in store.xrange(key) for both in pair.items() for part in both]
    return []


def test_it_stops_with_everything_it_started_and_leaves_no_content_behind(used: DemoProcess) -> None:
    assert used.stop() == 0
    assert len(used.children) >= 4, "web, worker, desk and recorder"
    assert used.left() == []
    assert [path for path in outside_the_demo(used.var) if holds(path.read_bytes())] == []
    assert not holds(used.output().encode())
