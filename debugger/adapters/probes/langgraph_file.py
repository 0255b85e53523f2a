"""LangGraph's SQLite store, opened for as long as a probe may take."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from branches.evidence import langgraph_store
from branches.evidence.langgraph_store import StoreUnreadable
from debugger.adapters.outbound import Unreachable
from debugger.adapters.plain_files import is_plain

TIMEOUT_S: Final = 10.0
_STEPS: Final = 2_000  # of the database's engine between two looks at the clock


@contextmanager
def opened_store(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a store read-only, a live one too. Raises Unreachable: store_unreadable, timeout.

    A statement that is under way when the time is over ends there.
    """
    if not is_plain(path):  # opening a pipe would never end
        raise Unreachable("store_unreadable")
    deadline = time.monotonic() + TIMEOUT_S
    try:
        with closing(langgraph_store.connect(path)) as connection:
            connection.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS)
            yield connection
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        raise Unreachable("timeout" if code == sqlite3.SQLITE_INTERRUPT else "store_unreadable") from None
    except StoreUnreadable:
        raise Unreachable("store_unreadable") from None
