"""Mailboxes, databases and folders where operations leave something."""

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from branches.ports import Target
from debugger.adapters.destinations import sql_rows
from tests.adapters import test_file_destination, test_imap, test_sql_row
from tests.adapters.mail_server import PASSWORD, USER, MailServer
from tests.adapters.places import MARKER
from tests.adapters.places_left import TOOL, Place
from tests.adapters.talks import NAMED, OPERATION, blurts, hurry, says, server, stalls
from tests.adapters.test_http_json import payload
from tests.adapters.wire import POSTGRES, database, wire

DIGEST = f"sha256:{sha256(test_file_destination.REPORT).hexdigest()}"


class Mailbox(Place):
    kind = "imap"
    expected = "to_ada"

    def __init__(self, folder: Path, request: pytest.FixtureRequest) -> None:
        super().__init__(folder, request)
        self.server: MailServer = request.getfixturevalue("mail_server")
        self.server.empty("INBOX")
        self.patch.setenv("MAIL_USER", USER)
        self.patch.setenv("MAIL_PASSWORD", PASSWORD)

    def target(self, **changes: Any) -> Target:
        return test_imap.place(**{"port": self.server.plain, "payload": ["subject"], **changes})

    @property
    def sent(self) -> str:
        return payload({"subject": MARKER}, TOOL)

    def put(self, key: str = OPERATION) -> None:
        self.server.put(test_imap.mail(f"<{key.replace(':', '-')}@agents.example.org>"))

    def put_other(self) -> None:
        self.server.empty("INBOX")
        identity = f"<{OPERATION.replace(':', '-')}@agents.example.org>"
        self.server.put(test_imap.mail(identity, "eve@example.org", subject=f"other {MARKER}"))

    def gone(self) -> Iterator[tuple[str, Target]]:
        yield "no mailbox", self.target(mailbox=[MARKER])
        for name, said in {"nonsense": b"garbage\r\n", "nothing": b"", "goodbye": b"* BYE later\r\n"}.items():
            with server(blurts(said)) as port:
                yield name, self.target(port=port)
        yield "nobody", self.target(port=9)
        self.patch.setenv("MAIL_PASSWORD", "wrong")
        yield "another password", self.target()

    @contextmanager
    def stalling(self) -> Iterator[Target]:
        hurry(self.patch)
        with server(stalls(b"* OK here\r\n")) as port:
            yield self.target(port=port)


class Rows(Place):
    """Orders in a database; `orders` adds them."""

    kind = "sql_row"
    expected = "order"
    orders: test_sql_row.Database
    number = 0

    def target(self, **changes: Any) -> Target:
        return self.orders.target(**{"operation_key": "operation_key", **changes})

    @property
    def sent(self) -> str:
        return payload({"subject": MARKER, "amount": 7}, TOOL)

    def put(self, key: str = OPERATION, **changes: Any) -> None:
        self.number += 1
        self.orders.add(key, at=datetime.now(UTC).isoformat(), number=self.number, **changes)

    def put_other(self) -> None:
        self.orders.execute("DELETE FROM orders")
        self.put(amount=8)


class SqliteRows(Rows):
    def __init__(self, folder: Path, request: pytest.FixtureRequest) -> None:
        super().__init__(folder, request)
        self.orders = self.sqlite = test_sql_row.Sqlite(folder)

    def gone(self) -> Iterator[tuple[str, Target]]:
        yield "no such file", self.target(url=f"sqlite://{self.folder}/none")
        with self.stalling():
            yield "locked", self.target()
        self.sqlite.path.write_bytes(b"SQLite format 3\0" + MARKER.encode() * 100)
        yield "nonsense", self.target()
        self.sqlite.path.unlink()
        yield "nothing", self.target()

    @contextmanager
    def stalling(self) -> Iterator[Target]:
        self.patch.setattr(sql_rows, "_BUSY_S", 0.3)
        with closing(sqlite3.connect(self.sqlite.path)) as holder:
            holder.execute("BEGIN EXCLUSIVE")
            yield self.target()


class PostgresRows(Rows):
    def __init__(self, folder: Path, request: pytest.FixtureRequest) -> None:
        super().__init__(folder, request)
        self.name = self.held.enter_context(database())
        self.orders = test_sql_row.Postgresql(self.name)

    def at(self, port: int) -> Target:
        url = f"postgresql://postgres@127.0.0.1:{port}/{self.name}?sslmode=disable"
        return self.target(url=url)

    def gone(self) -> Iterator[tuple[str, Target]]:
        for name, said in {"nonsense": b"garbage", "nothing": b""}.items():
            with server(says(said)) as port:
                yield name, self.at(port)
        with wire(POSTGRES, then="cut", most=600) as between:
            yield "cut off", self.at(between.port)
        yield "nobody", self.at(9)
        self.orders.execute("DROP TABLE orders")
        yield "no table", self.target()

    @contextmanager
    def stalling(self) -> Iterator[Target]:
        hurry(self.patch)
        with wire(POSTGRES, then="stall", most=600) as between:
            yield self.at(between.port)


class Folder(Place):
    kind = "file"
    expected = "report"
    name = NAMED

    def __init__(self, folder: Path, request: pytest.FixtureRequest) -> None:
        super().__init__(folder, request)
        self.root = test_file_destination.Folder(folder / "root")

    def target(self, **changes: Any) -> Target:
        options: dict[str, Any] = {"payload": ["title"], "fields": {"title": "json.title"}}
        options |= {"witness": "reports", "expected": {"report": {"min_bytes": 10, "digest": DIGEST}}}
        (self.root.root / "reports").mkdir(exist_ok=True)
        return self.root.target(**{**options, **changes})

    @property
    def sent(self) -> str:
        return payload({"title": MARKER}, TOOL)

    def put(self, key: str = OPERATION) -> None:
        self.root.write(name=key.replace(":", "-"))

    def put_other(self) -> None:
        self.root.write(json.dumps({"title": f"other {MARKER}"}).encode())

    def gone(self) -> Iterator[tuple[str, Target]]:
        yield "no such root", self.target(root=str(self.folder / "none"))
        yield "an empty folder in its place", self.target(witness=".mounted")
        (self.folder / "file").write_text(MARKER)
        yield "a file for a root", self.target(root=str(self.folder / "file"))

    def half(self) -> Iterator[tuple[str, Target]]:
        path = self.root.write()
        path.unlink()
        path.mkdir()
        yield "a folder under its name", self.target()
        path.rmdir()
        path.write_text(f"no JSON {MARKER}")
        yield "nonsense", self.target()

    @contextmanager
    def stalling(self) -> Iterator[Target]:
        path = self.root.write(name=self.name)
        path.unlink()
        os.mkfifo(path)
        yield self.target()


class OneFile(Folder):
    """One file that is written anew each time, under whatever key."""

    has_key = False
    name = "latest"

    def target(self, **changes: Any) -> Target:
        return super().target(**{"path": "reports/latest.json", **changes})

    def older(self) -> None:
        self.root.write(json.dumps({"title": f"older {MARKER}"}).encode(), name="latest")

    def put(self, key: str = OPERATION) -> None:
        self.root.write(name="latest")

    def put_other(self) -> None:
        self.root.write(json.dumps({"title": f"other {MARKER}"}).encode(), name="latest")


class Document(Folder):
    """A report in Markdown, with its sections and its sources or without."""

    kind = "document"
    expected = "done"

    def target(self, **changes: Any) -> Target:
        terms = {"done": {"sections": ["Summary", f"Sums {MARKER}"], "sources": ["SRC-1"]}}
        return super().target(**{"format": "markdown", "expected": terms, **changes})

    def put(self, key: str = OPERATION) -> None:
        report = f"# Summary\n\nIt rose [SRC-1].\n\n# Sums {MARKER}\n\n7\n"
        self.root.write(report.encode(), name=key.replace(":", "-"))

    def put_other(self) -> None:
        self.root.write(f"# Summary\n\n{MARKER}\n".encode())
