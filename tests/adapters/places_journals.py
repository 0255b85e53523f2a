"""Approval queues by their journals: lines of JSON, and a table."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from branches.ports import Target
from debugger.adapters.probes import approval_journal
from tests.adapters.places import MARKER, NOW, PipedPlace, Place, target


class Queue(PipedPlace):
    probe = "approval_journal"
    drifts = frozenset({"pending", "resolved"})

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.path = folder / "queue.jsonl"
        self.path.write_text("")
        self.add(-30, f"ask-{MARKER}-1", "requested")
        self.add(-20, "ask-2", "requested")
        self.add(-10, "ask-2", "approved")

    def add(self, minutes: int, request: str, event: str) -> None:
        at = (NOW + timedelta(minutes=minutes)).isoformat()
        with self.path.open("a") as file:
            file.write(json.dumps({"at": at, "request": request, "event": event}) + "\n")

    def target(self) -> Target:
        return target(path=str(self.path))

    def change(self) -> None:
        self.kept = self.path.read_bytes()
        self.add(5, f"ask-{MARKER}-1", "rejected")

    def change_back(self) -> None:
        self.path.write_bytes(self.kept)

    def turn(self) -> None:
        entries = [json.loads(line) for line in self.path.read_text().splitlines()][::-1]
        turned = [dict(reversed(entry.items())) for entry in entries]
        self.path.write_text("".join(json.dumps(entry, indent=None) + "\n" for entry in turned))

    def take_away(self) -> None:
        self.path.unlink()


class SqliteQueue(Queue):
    def __init__(self, folder: Path) -> None:
        folder = folder / "sqlite"
        folder.mkdir()
        with closing(sqlite3.connect(folder / "queue.jsonl")) as connection, connection:
            connection.execute("CREATE TABLE journal (at TEXT, request TEXT, event TEXT)")
        self.kept = b""
        Place.__init__(self, folder)
        self.path = folder / "queue.jsonl"
        self.add(-30, f"ask-{MARKER}-1", "requested")

    def add(self, minutes: int, request: str, event: str) -> None:
        at = (NOW + timedelta(minutes=minutes)).isoformat()
        with closing(sqlite3.connect(self.path)) as connection, connection:
            connection.execute("INSERT INTO journal VALUES (?, ?, ?)", (at, request, event))

    def turn(self) -> None:
        with closing(sqlite3.connect(self.path)) as connection, connection:
            turn_table(connection, "journal")

    @contextmanager
    def stalling(self, patch: pytest.MonkeyPatch) -> Iterator[Target]:
        patch.setattr(approval_journal, "_BUSY_S", 0.3)
        with closing(sqlite3.connect(self.path)) as holder:
            holder.execute("BEGIN EXCLUSIVE")
            yield self.target()


class LongQueue(Queue):
    """With so many requests that two processes hardly hold them in one order by chance."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        for number in range(8):
            self.add(number - 60, f"ask-{MARKER}-long-{number}", "requested")


class LongSqliteQueue(SqliteQueue):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        for number in range(8):
            self.add(number - 60, f"ask-{MARKER}-long-{number}", "requested")


def turn_table(connection: sqlite3.Connection, name: str) -> None:
    """Put a table's rows in again, the last one first."""
    rows = connection.execute(f"SELECT * FROM {name} ORDER BY rowid DESC").fetchall()
    connection.execute(f"DELETE FROM {name}")
    holes = ", ".join("?" * len(rows[0]))
    connection.executemany(f"INSERT INTO {name} VALUES ({holes})", rows)
