"""Reads the rows of a query from a SQLite file, live or not, with every way to write or to leave it shut."""

import os
import sqlite3
import stat
import time
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from branches.ports import Target
from debugger.adapters.options import TargetUnfit, text
from debugger.adapters.outbound import Unreachable
from debugger.adapters.probes.sql_rows import MOST_BYTES, NULL, Cell, Rows

_HEAD: Final = "sqlite:///"
_STEPS: Final = 2_000  # of the database's engine between two looks at the clock
_ALLOWED: Final = frozenset(
    {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
)
_PROBLEMS: Final = {
    sqlite3.SQLITE_BUSY: "locked",
    sqlite3.SQLITE_LOCKED: "locked",
    sqlite3.SQLITE_INTERRUPT: "timeout",
    sqlite3.SQLITE_AUTH: "not_read_only",
    sqlite3.SQLITE_READONLY: "database_unreadable",  # a torn write of before would have to be undone
    sqlite3.SQLITE_TOOBIG: "too_large",
    sqlite3.SQLITE_CANTOPEN: "database_unreadable",
    sqlite3.SQLITE_NOTADB: "database_unreadable",
    sqlite3.SQLITE_CORRUPT: "database_unreadable",
    sqlite3.SQLITE_IOERR: "database_unreadable",
}


class _Text(bytes):
    """A text as it is stored, whatever its encoding turns out to be: no blob."""


def file_of(target: Target) -> Path:
    """Return the file that the option `url` names: what follows `sqlite:///` is its whole path.

    Raises TargetUnfit, Unreachable where there is no such file.
    """
    url = text(target, "url")
    name = unquote(url.removeprefix(_HEAD)).lstrip("/")
    if not url.startswith(_HEAD) or not name or "\0" in name or "?" in url or "#" in url:
        raise TargetUnfit("url", "form")
    path = Path("/", name)
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        raise TargetUnfit("url", "form") from None
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # opening a pipe would never end
            raise Unreachable("database_unreadable")
    except (FileNotFoundError, NotADirectoryError):
        raise Unreachable("database_absent") from None
    except OSError:
        raise Unreachable("database_unreadable") from None
    return path


def read_sqlite(target: Target, query: str, seconds: float, rows: Rows) -> None:
    """Put every row of the query into `rows`. Raises TargetUnfit, Unreachable."""
    path = file_of(target)
    deadline = time.monotonic() + seconds
    try:
        with closing(_opened(path, seconds)) as connection:
            connection.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS)
            connection.set_authorizer(_authorise)
            found = connection.execute(query)
            if found.description is None:
                raise Unreachable("query_failed")
            rows.name(column[0].encode() for column in found.description)
            for row in found:
                rows.add(_cells(row))
    except sqlite3.Error as error:
        raise Unreachable(_problem_of(error)) from None
    except ValueError:  # text that no encoding takes
        raise Unreachable("query_failed") from None


def _opened(path: Path, seconds: float) -> sqlite3.Connection:
    connection = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=seconds, isolation_level=None)
    connection.text_factory = _Text
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST_BYTES)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    connection.execute("PRAGMA query_only = ON")
    return connection


def _authorise(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    """Allow reading, and no function that loads code."""
    del first
    if action not in _ALLOWED or (action == sqlite3.SQLITE_FUNCTION and second == "load_extension"):
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK


def _cells(row: Iterable[Any]) -> Iterable[Cell]:
    for value in row:
        match value:
            case None:
                yield NULL
            case int():
                yield b"i", b"%d" % value
            case float():
                yield b"f8", repr(value).encode()
            case _Text():
                yield b"s", value
            case _:
                yield b"y", value


def _problem_of(error: sqlite3.Error) -> str:
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    return _PROBLEMS.get(code, "query_failed")
