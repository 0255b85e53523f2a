"""The receipts of an imported LangGraph thread: lineage, fingerprints, waits, coarse errors, no content."""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from branches.evidence import langgraph_store, langgraph_tasks
from branches.evidence.canonical import canonical_bytes
from branches.evidence.domains import CHECKPOINT, REF, STATE, THREAD
from branches.evidence.ids import derive_id
from branches.evidence.keys import HmacKey
from branches.evidence.kinds.forms import Declared
from branches.evidence.kinds.outside import MAX_STATE_KEYS
from branches.evidence.langgraph_store import Prints, Row, StoreUnreadable
from branches.evidence.names import cover_name
from branches.evidence.schema import MAX_BODY_BYTES
from branches.ports import JsonValue

# Hashing is lazy: the blobs grow with the thread, so hashing all grows with its square. The first ones are
# hashed at import, which ones must not depend on how long the thread is by now; the probe hashes any other.
HASHED: Final = 200
# What reading a row raises that was cut short, nested without end, or put there by something else.
_FOREIGN: Final = (
    *(ValueError, TypeError, AttributeError, LookupError, ArithmeticError),
    *(RecursionError, MemoryError),
)
_GREGORIAN_START: Final = 0x01B21DD213814000  # 100-nanosecond steps from 1582 to 1970


class ThreadReceipts:
    """Walks one thread and numbers what it finds; event ids derive from the run and the checkpoint."""

    def __init__(self, connection: sqlite3.Connection, thread: str, key: HmacKey, run: str) -> None:
        self._connection = connection
        self._thread = thread
        self._key = key
        self._run = run
        self._count = 0

    def all(self) -> Iterator[dict[str, JsonValue]]:
        """Yield the run's start, then every checkpoint with what is known of its step.

        Raises StoreUnreadable where a row is not what the runtime writes: cut short, of another type.
        """
        try:
            yield from self._all()
        except (*_FOREIGN, sqlite3.Error):
            # Its text holds what stands in the row.
            raise StoreUnreadable("store: row") from None

    def _all(self) -> Iterator[dict[str, JsonValue]]:
        newest: Row | None = None
        for index, row in enumerate(langgraph_store.history(self._connection, self._thread)):
            at = _time_of(row.checkpoint)
            if index == 0:
                yield self._receipt("run_started", "", at, self._started())
            hashed = index < HASHED and not row.namespace
            yield self._receipt("checkpoint", self._place(row), at, self._checkpoint(row, hashed=hashed))
            newest = newest if row.namespace else row
        # Whatever stood still at an earlier checkpoint has gone on since.
        if newest is not None and (stop := self._stop(newest)) is not None:
            # A thread that waits twice at one checkpoint stopped twice: the number tells them apart.
            place = (self._place(newest), stop["stop_cause"], str(self._count))
            yield self._receipt("stopped", "\0".join(place), _time_of(newest.checkpoint), stop)

    def _receipt(self, kind: str, place: str, at: str, body: Mapping[str, Any]) -> dict[str, JsonValue]:
        self._count += 1
        return {
            "v": 1,
            "event_id": derive_id("evt", self._run, kind, place),
            "run": self._run,
            "kind": kind,
            "at": at,
            "actor": {"type": "machine", "id": derive_id("wrt", self._run, "import")},
            "writer_seq": self._count,
            "body": dict(body),
        }

    def _place(self, row: Row) -> str:
        return f"{row.namespace}\0{row.checkpoint}"

    def _started(self) -> dict[str, Any]:
        return {
            "workflow": None,
            "workflow_version": None,
            "runtime": {"name": "langgraph", "version": None},
            "external_ref": self._key.digest(THREAD, self._thread),
            "configuration": None,
            "contract_version": None,
            "phase": None,
            "recording": "imported",
        }

    def _checkpoint(self, row: Row, *, hashed: bool) -> dict[str, Any]:
        """A subgraph's checkpoint was cut while the root's step ran, so it is not consistent by itself."""
        step = row.step if row.step is not None and row.step >= -1 else None
        body: dict[str, Any] = {
            "checkpoint": self._key.digest(CHECKPOINT, row.checkpoint),
            "parent_checkpoint": None if row.parent is None else self._key.digest(CHECKPOINT, row.parent),
            "step": step,
            "state": {},
            "consistent": not row.namespace,
        }
        return {**body, "state": self._state(row, MAX_BODY_BYTES - _size(body))} if hashed else body

    def _state(self, row: Row, room: int) -> dict[str, Any]:
        """Return the channels' fingerprints, each under the keyed digest of its name: nothing is declared.

        Those that do not fit into `room` bytes, or into a receipt's number of keys, are one key together:
        a change of any of them shows, and a fact says how many they are.
        """
        prints = sorted(
            langgraph_store.channel_fingerprints(
                self._connection, self._key, self._thread, row.checkpoint
            ).items()
        )
        whole = self._entries(prints)
        if len(whole) <= MAX_STATE_KEYS and _size(whole) <= room:
            return whole
        for alone in range(min(len(prints), MAX_STATE_KEYS - 1), 0, -1):
            if _size(found := self._filled(prints, alone)) <= room:
                return found
        return self._filled(prints, 0)

    def _filled(self, prints: Sequence[tuple[str, Prints]], alone: int) -> dict[str, Any]:
        """Return the first channels one by one, and one entry for all the others."""
        others = prints[alone:]
        content = "".join(f"\0{len(name)}\0{name}{each.exact}" for name, each in others)
        count = {cover_name(self._key, Declared.FACT, "channels"): len(others)}
        together = {"fingerprint": self._key.digest(STATE, f"channels{content}"), "facts": count}
        # No channel is called so: a name with a NUL is none.
        return {**self._entries(prints[:alone]), cover_name(self._key, Declared.STATE_KEY, "\0"): together}

    def _entries(self, prints: Sequence[tuple[str, Prints]]) -> dict[str, Any]:
        semantic = cover_name(self._key, Declared.FACT, "semantic")
        return {
            cover_name(self._key, Declared.STATE_KEY, name): {
                "fingerprint": each.exact,
                "facts": {} if each.semantic is None else {semantic: each.semantic},
            }
            for name, each in prints
        }

    def _stop(self, row: Row) -> dict[str, Any] | None:
        """Return why the loop stands still here: a task raised, or a person is waited for."""
        place = (self._connection, self._thread, row.checkpoint)
        found = langgraph_tasks.unfinished_tasks(*place)
        if found.failed:
            classes = langgraph_tasks.error_classes(*place, found.failed)
            return _stopped("timeout" if classes == {"timeout"} else "provider_error", None)
        if found.waiting:
            token = self._key.digest(REF, found.waiting[0])
            return _stopped("approval_requested", {"owner": None, "deadline": None, "resume_token": token})
        return None


def _stopped(cause: str, approval: dict[str, Any] | None) -> dict[str, Any]:
    return {
        "policy": {"version": None, "conditions": []},
        "stop_cause": cause,
        "steps": [],
        "tool_failed": False,
        "useful_progress": False,  # the store does not say, and not knowing is nothing good
        "approval": approval,
        "loop": "ended",
    }


def _size(value: object) -> int:
    return len(canonical_bytes(value))


def _time_of(checkpoint: str) -> str:
    """Return the time inside a UUIDv6; an id of another form has none, and the epoch stands for that."""
    try:
        number = UUID(checkpoint)
    except ValueError:
        return "1970-01-01T00:00:00Z"
    if number.version != 6:
        return "1970-01-01T00:00:00Z"
    ticks = (number.int >> 80) << 12 | (number.int >> 64) & 0x0FFF
    seconds = (ticks - _GREGORIAN_START) / 10_000_000
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
