"""Places in databases and queues: rows in SQLite and PostgreSQL, a list and a stream in Redis."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from branches.ports import Target
from debugger.adapters import postgres, redis_wire
from tests.adapters.places import MARKER, Place, target
from tests.adapters.wire import POSTGRES, REDIS, REDIS_DATABASE, Wire, database, wire

ROWS = [(1, MARKER), (2, "two"), (3, None)]
QUERY = "SELECT id, subject FROM ticket"


class Rows(Place):
    """A table of tickets."""

    probe = "sql"

    def fill(self, rows: list[tuple[int, str | None]]) -> None:
        raise NotImplementedError

    def change(self) -> None:
        self.fill([*ROWS[:-1], (3, f"three {MARKER}")])

    def change_back(self) -> None:
        self.fill(ROWS)

    def turn(self) -> None:
        self.fill(ROWS[::-1])


class SqliteRows(Rows):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.path = folder / f"{MARKER}.sqlite"
        with closing(sqlite3.connect(self.path)) as connection, connection:
            connection.execute("CREATE TABLE ticket (id INTEGER, subject TEXT)")
        self.fill(ROWS)

    def target(self) -> Target:
        return target(url=f"sqlite://{self.path}", query=QUERY)

    def fill(self, rows: list[tuple[int, str | None]]) -> None:
        with closing(sqlite3.connect(self.path)) as connection, connection:
            connection.execute("DELETE FROM ticket")
            connection.executemany("INSERT INTO ticket VALUES (?, ?)", rows)

    def take_away(self) -> None:
        self.path.unlink()

    @contextmanager
    def stalling(self, patch: pytest.MonkeyPatch) -> Iterator[Target]:
        with closing(sqlite3.connect(self.path)) as holder:
            holder.execute("BEGIN EXCLUSIVE")
            yield target(**{**self.target().options, "timeout_s": 0.4})


class PostgresRows(Rows):
    """Behind a wire that can be cut."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        import psycopg

        self.name = self.held.enter_context(database())
        at = f"host=127.0.0.1 user=postgres dbname={self.name}"
        self.connection = self.held.enter_context(psycopg.connect(at, autocommit=True))
        self.connection.execute("CREATE TABLE ticket (id int, subject text)")
        self.wire = Wire(POSTGRES)
        self.port = self.wire.port
        self.held.callback(self.wire.close)
        self.fill(ROWS)

    def target(self) -> Target:
        return self.at(self.port)

    def at(self, port: int, **options: Any) -> Target:
        url = f"postgres://postgres@127.0.0.1:{port}/{self.name}"
        return target(**{"url": url, "query": QUERY, "allow": "loopback"} | options)

    def fill(self, rows: list[tuple[int, str | None]]) -> None:
        self.connection.execute("TRUNCATE ticket")
        for row in rows:
            self.connection.execute("INSERT INTO ticket VALUES (%s, %s)", row)

    def take_away(self) -> None:
        self.wire.close()

    @contextmanager
    def stalling(self, patch: pytest.MonkeyPatch) -> Iterator[Target]:
        patch.setattr(postgres, "CONNECT_S", 2)
        with wire(POSTGRES, then="stall", most=900) as between:
            yield self.at(between.port, timeout_s=1)


class Redis(Place):
    """A key of its own, behind a wire that can be cut."""

    probe = "queue"
    drifts = frozenset({"entries"})

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        client = pytest.importorskip("redis", reason="needs redis")
        self.name = f"branchgate:contract:{MARKER}:{uuid4().hex}"
        self.server: Any = self.held.enter_context(client.Redis(*REDIS, db=REDIS_DATABASE, socket_timeout=60))
        try:
            self.server.ping()
        except client.ConnectionError:
            pytest.skip("no Redis on 127.0.0.1:6379")
        self.held.callback(self.server.delete, self.name)
        self.wire = Wire(REDIS)
        self.port = self.wire.port
        self.held.callback(self.wire.close)
        self.fill()

    def fill(self, *, turned: bool = False) -> None:
        raise NotImplementedError

    def target(self) -> Target:
        return self.at(self.port)

    def at(self, port: int) -> Target:
        url = f"redis://127.0.0.1:{port}/{REDIS_DATABASE}"
        return target(url=url, name=self.name, allow="loopback")

    def turn(self) -> None:
        self.server.delete(self.name)
        self.fill(turned=True)

    def take_away(self) -> None:
        self.wire.close()

    @contextmanager
    def stalling(self, patch: pytest.MonkeyPatch) -> Iterator[Target]:
        patch.setattr(redis_wire, "READ_S", 0.8)
        with wire(REDIS, then="stall", most=12) as between:
            yield self.at(between.port)


class RedisList(Redis):
    order_counts = True

    def fill(self, *, turned: bool = False) -> None:
        entries = [f"one {MARKER}", "two", "three"]
        self.server.rpush(self.name, *(reversed(entries) if turned else entries))

    def change(self) -> None:
        self.server.rpush(self.name, f"four {MARKER}")

    def change_back(self) -> None:
        self.server.rpop(self.name)


class RedisStream(Redis):
    """Three entries and two groups, of which consumers hold some."""

    def fill(self, *, turned: bool = False) -> None:
        for number in range(1, 4):
            self.server.xadd(self.name, {"task": f"{MARKER}-{number}"}, id=f"{number}-0")
        groups = {"workers": ("first", "second"), f"group-{MARKER}": ("third",)}
        for group, consumers in sorted(groups.items(), reverse=turned):
            self.server.xgroup_create(self.name, group, id="0")
            for consumer in reversed(consumers) if turned else consumers:
                self.server.xgroup_createconsumer(self.name, group, consumer)
        self.server.xreadgroup("workers", "first", {self.name: ">"}, count=1)
        self.server.xreadgroup("workers", "second", {self.name: ">"}, count=1)

    def change(self) -> None:
        self.server.xadd(self.name, {"task": f"{MARKER}-4"}, id="4-0")

    def change_back(self) -> None:
        self.server.xdel(self.name, "4-0")
