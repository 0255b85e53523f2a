"""Reads from a PostgreSQL server: one read-only snapshot at a checked address, and an end to it in time."""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from traceback import clear_frames
from typing import TYPE_CHECKING, Any, Final

from branches.ports import Target
from debugger.adapters.options import TargetUnfit
from debugger.adapters.outbound import CONNECT_S, Unreachable
from debugger.adapters.servers import Server, address_of, ends_after, password_of, server_of

if TYPE_CHECKING:
    from psycopg import Connection, Cursor
    from psycopg.pq.abc import PGresult

SCHEMES: Final = {"postgres": 5432, "postgresql": 5432}
_SSL: Final = frozenset({"disable", "allow", "prefer", "require", "verify-ca", "verify-full"})
_TLS: Final = frozenset({"require", "verify-ca", "verify-full"})
_GRACE_S: Final = 0.3
# Text of every value has one form, whatever the server, the database or the role prefers.
_SESSION: Final = (
    b"SET LOCAL TimeZone = 'UTC'; SET LOCAL DateStyle = 'ISO, YMD'; SET LOCAL IntervalStyle = 'iso_8601';"
    b" SET LOCAL extra_float_digits = 1; SET LOCAL bytea_output = 'hex'; SET LOCAL lc_monetary = 'C'"
)


class Snapshot:
    """One repeatable-read, read-only transaction that ends at a deadline."""

    def __init__(self, connection: "Connection[Any]", deadline: float) -> None:
        self._connection = connection
        self._deadline = deadline

    def run(self, statement: bytes, *parameters: Any) -> "Cursor[Any]":
        """Run one statement, never two, and return its rows. Raises psycopg's errors, Unreachable."""
        # The extended protocol takes a single statement; psycopg speaks it where results are binary.
        return self._timed(binary=True).execute(statement, parameters or None)

    def texts(self, statement: bytes) -> "PGresult":
        """Run a statement of our own; every value of its result is the server's text of it."""
        found = self._timed(binary=False).execute(statement).pgresult
        if found is None:
            raise Unreachable("query_failed")
        return found

    def _timed(self, *, binary: bool) -> "Cursor[Any]":
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise Unreachable("timeout")
        self._connection.execute(b"SET LOCAL statement_timeout = %d" % max(1, int(left * 1000)))
        return self._connection.cursor(binary=binary)


@contextmanager
def snapshot(target: Target, seconds: float) -> Iterator[Snapshot]:
    """Open a snapshot of the database that the option `url` names. Raises TargetUnfit, Unreachable.

    What the server says when it refuses is content, so every error leaves as a word.
    """
    server = _database_of(target)
    address = address_of(server, target)
    password = password_of(target, address, is_private=server.settings.get("sslmode") in _TLS)
    try:
        from psycopg import Connection, Error, errors
    except ImportError:
        raise Unreachable("psycopg_missing") from None
    deadline = time.monotonic() + seconds
    try:
        connection = Connection.connect(**_parameters(server, address, password))
    except (Error, OSError, UnicodeError) as error:
        clear_frames(error.__traceback__)  # they hold each other, and the half-open connection
        raise Unreachable("no_connection") from None
    # The server's own timeout helps nobody whose server is silent, so the conversation is cut as well.
    is_cut = threading.Event()
    with closing(connection):
        try:
            with ends_after(connection.pgconn.socket, deadline - time.monotonic() + _GRACE_S) as is_cut:
                yield _begun(connection, deadline)
        except errors.QueryCanceled:
            raise Unreachable("timeout") from None
        except errors.ReadOnlySqlTransaction:
            raise Unreachable("not_read_only") from None
        except (Error, OSError, UnicodeError):
            if is_cut.is_set():
                raise Unreachable("timeout") from None
            raise Unreachable("connection_lost" if connection.closed else "query_failed") from None


def _database_of(target: Target) -> Server:
    server = server_of(target, SCHEMES, frozenset({"sslmode"}))
    if not server.user or not server.path or "\0" in server.path + server.user:
        raise TargetUnfit("url", "user_and_database")
    if server.settings.get("sslmode", "prefer") not in _SSL:
        raise TargetUnfit("url", "sslmode")
    return server


def _parameters(server: Server, address: str, password: str | None) -> dict[str, Any]:
    """Return what is said to libpq; what is left out here it would take from the environment."""
    return {
        "host": server.host,
        "hostaddr": address,  # what was checked is what is used
        "port": server.port,
        "user": server.user,
        "dbname": server.path,
        "password": password or "",
        "passfile": f"{os.devnull}/none",
        "sslmode": server.settings.get("sslmode", "prefer"),
        "gssencmode": "disable",
        "target_session_attrs": "any",
        "options": "",
        "client_encoding": "UTF8",
        "application_name": "branchgate",
        "connect_timeout": int(CONNECT_S),
        "prepare_threshold": None,
    }


def _begun(connection: "Connection[Any]", deadline: float) -> Snapshot:
    from psycopg import IsolationLevel

    connection.read_only = True
    connection.isolation_level = IsolationLevel.REPEATABLE_READ
    found = Snapshot(connection, deadline)
    found.run(b"SELECT 1")  # from here on the transaction cannot be made one that writes
    connection.execute(_SESSION)
    return found
