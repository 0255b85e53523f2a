"""Reads rows by a declared query in a read-only transaction, with its columns as JSON values; bounded."""

import re
import sqlite3
import time
from collections.abc import Mapping
from contextlib import closing
from typing import Any, Final

from branches.ports import Target
from debugger.adapters.destinations.json_answer import parsed
from debugger.adapters.options import text
from debugger.adapters.outbound import MOST_BYTES, Unreachable
from debugger.adapters.postgres import snapshot
from debugger.adapters.probes.sql_sqlite import file_of

type Row = dict[str, Any]

QUERY_S: Final = 5.0
_BUSY_S: Final = 2.0
_STEPS: Final = 1000
_PLACE: Final = re.compile(r"(?<!:):(operation_key|since)\b")
_READING: Final = frozenset(
    {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
)


def rows(target: Target, option: str, values: Mapping[str, str], most: int) -> list[Row]:
    """Return at most so many rows of the query that an option holds. Raises Unreachable and TargetUnfit."""
    query = text(target, option).strip().removesuffix(";")
    if text(target, "url").startswith("sqlite:"):
        return _sqlite(target, query, values, most)
    return _postgresql(target, query, values, most)


def _sqlite(target: Target, query: str, values: Mapping[str, str], most: int) -> list[Row]:
    address = f"{file_of(target).as_uri()}?mode=ro"
    until = time.monotonic() + QUERY_S
    try:
        with closing(sqlite3.connect(address, uri=True, timeout=_BUSY_S, isolation_level=None)) as connection:
            connection.execute("PRAGMA query_only = ON")
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST_BYTES)
            connection.set_authorizer(_only_reading)
            connection.set_progress_handler(lambda: time.monotonic() > until, _STEPS)
            found = connection.execute(query, values)
            names = [column[0] for column in found.description or ()]
            return [dict(zip(names, map(_plain, row), strict=True)) for row in found.fetchmany(most)]
    except sqlite3.DataError:
        raise Unreachable("too_large") from None
    except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError):
        raise Unreachable("timeout" if time.monotonic() > until else "query_failed") from None


def _only_reading(action: int, _: str | None, name: str | None, *__: str | None) -> int:
    is_read = action in _READING and name != "load_extension"
    return sqlite3.SQLITE_OK if is_read else sqlite3.SQLITE_DENY


def _plain(value: Any) -> Any:
    """Return a column's value as JSON has it; bytes as their hexadecimal digits, as PostgreSQL shows them."""
    return f"\\x{value.hex()}" if isinstance(value, bytes) else value


def _postgresql(target: Target, query: str, values: Mapping[str, str], most: int) -> list[Row]:
    statement, parameters = _bound(query, values)
    # Whole rows as JSON, their size bounded where they are; what is no single query cannot stand in it.
    bounded = (
        f"SELECT CASE WHEN octet_length(line) <= {MOST_BYTES} THEN line END FROM"  # noqa: S608 - the operator's query
        f" (SELECT row_to_json(shown)::text AS line FROM ({statement}\n) AS shown LIMIT {most}) AS lines"
    )
    with snapshot(target, QUERY_S) as there:
        # A row that a policy hides is not absent: the server then refuses the query.
        there.run(b"SET LOCAL row_security = off")
        there.run(b"SET LOCAL lock_timeout = %d" % int(_BUSY_S * 1000))
        lines = [line for (line,) in there.run(bounded.encode(), *parameters)]
        is_behind = not lines and bool(there.run(b"SELECT pg_is_in_recovery()").fetchone() == (True,))
    if is_behind:  # what is not on a standby may be on its primary
        raise Unreachable("standby")
    if None in lines:
        raise Unreachable("too_large")
    return [parsed(line.encode()) for line in lines]


def _bound(query: str, values: Mapping[str, str]) -> tuple[str, list[str]]:
    """Write the declared places as the driver has them, and return what stands in them, in their order."""
    names = _PLACE.findall(query)
    if not names:
        return query, []
    return _PLACE.sub("%s", query.replace("%", "%%")), [values[name] for name in names if name in values]
