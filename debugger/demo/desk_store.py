"""What the desk keeps: tickets, mail, drafts, publications and reports in a SQLite file of its own."""

import json
import sqlite3
import threading
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

SECTIONS: Final = ("notices", "reports")
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS kept (
  number INTEGER PRIMARY KEY AUTOINCREMENT, sort TEXT NOT NULL, key TEXT NOT NULL, content TEXT NOT NULL,
  at TEXT NOT NULL, UNIQUE (sort, key)
);
CREATE TABLE IF NOT EXISTS reports (
  version INTEGER PRIMARY KEY AUTOINCREMENT, draft TEXT UNIQUE, content TEXT NOT NULL, at TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS sessions (cookie TEXT PRIMARY KEY, is_live INTEGER NOT NULL);
"""


class Conflict(Exception):
    """The key stands for something else already."""


class SectionUnknown(Exception):
    """The draft names a section that the desk does not have."""


class DraftUnknown(Exception):
    """There is no such draft."""


class DeskStore:
    """The desk's memory; safe to use from several threads."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._guard = threading.RLock()
        self._connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None, timeout=10)
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.executescript(_SCHEMA)

    def close(self) -> None:
        """Let go of the file."""
        with self._guard:
            self._connection.close()

    def keep(self, sort: str, key: str, content: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
        """Keep something under its key once; returns it and whether it is new. Raises Conflict."""
        text = json.dumps(content, sort_keys=True, ensure_ascii=False)
        with self._guard:
            known = self._row(sort, key)
            if known is None:
                self._connection.execute(
                    "INSERT INTO kept (sort, key, content, at) VALUES (?, ?, ?, ?)", (sort, key, text, _now())
                )
                known = self._row(sort, key)
                assert known is not None  # noqa: S101 - it was just written, under the lock
                return _shown(sort, key, known), True
        if known[1] != text:
            raise Conflict
        return _shown(sort, key, known), False

    def find(self, sort: str, key: str) -> dict[str, Any] | None:
        """Return what is kept under a key."""
        with self._guard:
            known = self._row(sort, key)
        return None if known is None else _shown(sort, key, known)

    def listed(self, *sorts: str) -> list[dict[str, Any]]:
        """Return the key, number and time of everything kept of some sorts, without what it says."""
        holes = ", ".join("?" * len(sorts))
        with self._guard:
            found = self._connection.execute(
                f"SELECT key, number, at FROM kept WHERE sort IN ({holes}) ORDER BY number",  # noqa: S608 - marks only
                sorts,
            ).fetchall()
        return [{"key": key, "number": number, "at": at} for key, number, at in found]

    def ask_to_publish(self, draft: str, key: str) -> tuple[dict[str, Any], bool]:
        """Note that a draft shall be published. Raises DraftUnknown, SectionUnknown, Conflict."""
        found = self.find("draft", draft)
        if found is None:
            raise DraftUnknown
        if found["section"] not in SECTIONS:
            raise SectionUnknown
        return self.keep("publication", key, {"draft": draft})

    def publish_due(self, delay_s: float) -> int:
        """Publish every draft that was asked for long enough ago; returns how many."""
        oldest = (datetime.now(UTC) - timedelta(seconds=delay_s)).isoformat()
        with self._guard:
            due = self._connection.execute(
                "SELECT content FROM kept WHERE sort = 'publication' AND at <= ? AND"
                " json_extract(content, '$.draft') NOT IN (SELECT draft FROM reports WHERE draft IS NOT NULL)"
                " ORDER BY number",
                (oldest,),
            ).fetchall()
            drafts = dict.fromkeys(json.loads(content)["draft"] for (content,) in due)
            for draft in drafts:
                found = self.find("draft", draft)
                assert found is not None  # noqa: S101 - drafts are never removed
                self.add_report({name: found[name] for name in ("title", "section", "body")}, draft=draft)
        return len(drafts)

    def add_report(
        self, content: Mapping[str, Any], *, draft: str | None = None, at: datetime | None = None
    ) -> None:
        """Publish a report: its version is the next number."""
        text = json.dumps(content, sort_keys=True, ensure_ascii=False)
        with self._guard:
            self._connection.execute(
                "INSERT INTO reports (draft, content, at) VALUES (?, ?, ?)",
                (draft, text, at.isoformat() if at else _now()),
            )

    def latest_report(self) -> dict[str, Any] | None:
        """Return the newest report."""
        with self._guard:
            found = self._connection.execute(
                "SELECT version, draft, content, at FROM reports ORDER BY version DESC LIMIT 1"
            ).fetchone()
        if found is None:
            return None
        version, draft, content, at = found
        return {"kind": "report", "version": version, "draft": draft, "at": at, **json.loads(content)}

    def set_session(self, cookie: str, *, is_live: bool) -> None:
        """Sign a browser in, or let its session expire."""
        with self._guard:
            self._connection.execute("INSERT OR REPLACE INTO sessions VALUES (?, ?)", (cookie, is_live))

    def is_signed_in(self, cookie: str) -> bool:
        """Whether the site still takes a session's cookie."""
        with self._guard:
            found = self._connection.execute(
                "SELECT is_live FROM sessions WHERE cookie = ?", (cookie,)
            ).fetchone()
        return bool(found and found[0])

    def _row(self, sort: str, key: str) -> tuple[int, str, str] | None:
        found: tuple[int, str, str] | None = self._connection.execute(
            "SELECT number, content, at FROM kept WHERE sort = ? AND key = ?", (sort, key)
        ).fetchone()
        return found


def _shown(sort: str, key: str, row: tuple[int, str, str]) -> dict[str, Any]:
    number, content, at = row
    return {"sort": sort, "key": key, "number": number, "version": 1, "at": at, **json.loads(content)}


def _now() -> str:
    return datetime.now(UTC).isoformat()
