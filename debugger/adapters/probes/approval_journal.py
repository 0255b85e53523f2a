"""An approval queue by its journal: which requests wait and which were decided, now or at a past moment."""

import json
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from branches.evidence.canonical import canonical_bytes
from branches.evidence.domains import PART, REF, STATE
from branches.ports import Moment, StateMeasurement, Target
from debugger.adapters.answers import unfit_measurement
from debugger.adapters.options import TargetUnfit, local_path
from debugger.adapters.plain_files import open_plain

TIMEOUT_S: Final = 10.0
MOST_BYTES: Final = 64 * 1024 * 1024
MOST_ENTRIES: Final = 500_000
_BUSY_S: Final = 5.0
_STEPS: Final = 2_000  # of the database's engine between two looks at the clock
_OPENS: Final = "requested"
_RESOLVES: Final = frozenset({"approved", "rejected", "withdrawn", "expired"})
_SQLITE: Final = b"SQLite format 3\0"


class _Unreadable(Exception):
    pass


@dataclass(frozen=True, slots=True)
class _Entry:
    at: datetime
    request: str
    event: str


class ApprovalJournalProbe:
    """Options: `path`, an append-only journal of entries `at` (RFC 3339), `request`, `event`.

    As JSON lines, or as the SQLite table `journal` with these columns. Events: requested, approved,
    rejected, withdrawn, expired.
    """

    acknowledgeable = False
    part_names = ("pending", "resolved")
    limits = (
        "Which requests wait and how the others were decided is compared; what a request asks for, and who"
        " looks at the queue, is not."
    )
    remedy = "Ask anew for what was pending then, or fork from a point after it was decided."

    def measure(self, target: Target, moment: Moment) -> StateMeasurement:
        """Return the queue as the whole journal has it."""
        del moment
        return _measured(target, None)

    def capture(self, target: Target, moment: Moment) -> StateMeasurement:
        """Return the queue as the journal had it at the moment."""
        return _measured(target, moment.at)


def _measured(target: Target, until: datetime | None) -> StateMeasurement:
    try:
        entries = list(_entries(local_path(target, "path")))
        pending, resolved = _replayed(entries, until)
    except TargetUnfit as error:
        return unfit_measurement(error)
    except _Unreadable as error:
        return StateMeasurement(None, reachable=False, problem=str(error))
    key = target.key
    queue = {
        "pending": sorted(key.digest(REF, request) for request in pending),
        "resolved": sorted([key.digest(REF, request), word] for request, word in resolved.items()),
    }
    return StateMeasurement(
        key.digest(STATE, b"approvals\0" + canonical_bytes(queue)),
        {"pending": len(pending), "resolved": len(resolved)},
        parts={
            key.digest(PART, name): key.digest(STATE, b"approvals\0" + canonical_bytes({name: listed}))
            for name, listed in queue.items()
        },
    )


def _replayed(entries: Iterable[_Entry], until: datetime | None) -> tuple[set[str], dict[str, str]]:
    """Return the requests that wait, and the word each other one was decided with."""
    pending: set[str] = set()
    resolved: dict[str, str] = {}
    for entry in sorted(entries, key=lambda each: each.at):  # stable: equal times stay in written order
        if until is not None and entry.at > until:
            break
        if entry.event == _OPENS:
            pending.add(entry.request)
            resolved.pop(entry.request, None)
        elif entry.request in pending:
            pending.remove(entry.request)
            resolved[entry.request] = entry.event
        else:
            raise _Unreadable("journal_inconsistent")
    return pending, resolved


def _entries(path: Path) -> Iterator[_Entry]:
    """Yield the journal's entries as they were written. Raises _Unreadable."""
    try:
        with open_plain(path) as file:
            head = file.read(len(_SQLITE))
            rows = _rows(path) if head == _SQLITE else _lines(head + file.read(MOST_BYTES))
    except FileNotFoundError:
        raise _Unreadable("journal_absent") from None
    except sqlite3.OperationalError as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        is_late = code == sqlite3.SQLITE_INTERRUPT
        raise _Unreadable("timeout" if is_late else "journal_unreadable") from None
    except (OSError, ValueError, RecursionError, sqlite3.Error):
        raise _Unreadable("journal_unreadable") from None
    if len(rows) > MOST_ENTRIES:
        raise _Unreadable("too_many_entries")
    yield from map(_entry, rows)


def _rows(path: Path) -> list[dict[str, Any]]:
    address, deadline = f"{path.resolve().as_uri()}?mode=ro", time.monotonic() + TIMEOUT_S
    with closing(sqlite3.connect(address, uri=True, timeout=_BUSY_S)) as connection:
        connection.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS)
        found = connection.execute(
            "SELECT at, request, event FROM journal ORDER BY rowid LIMIT ?", (MOST_ENTRIES + 1,)
        ).fetchall()
    return [{"at": at, "request": request, "event": event} for at, request, event in found]


def _lines(content: bytes) -> list[Any]:
    """Return the whole lines; one without its end is still being written."""
    if len(content) > MOST_BYTES:
        raise _Unreadable("too_large")
    *lines, _ = content.split(b"\n")
    return [json.loads(line) for line in lines if line]


def _entry(row: Any) -> _Entry:
    try:
        entry = _Entry(datetime.fromisoformat(row["at"]), row["request"], row["event"])
    except (KeyError, TypeError, ValueError):
        raise _Unreadable("journal_form") from None
    is_known = entry.event == _OPENS or entry.event in _RESOLVES
    if entry.at.tzinfo is None or not isinstance(entry.request, str) or not is_known:
        raise _Unreadable("journal_form")
    return entry
