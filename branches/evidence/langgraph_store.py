"""Reads and copies threads in LangGraph's SQLite store by SQL alone: nothing stored there is ever executed.

Only the columns of `checkpoints` and `writes` are used, and of the metadata only a short list of keys: the
runtime copies every string of a configuration into it, secrets included. Blobs are hashed, not decoded.
"""

import hashlib
import json
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from branches.evidence.domains import CHECKPOINT, STATE, THREAD
from branches.evidence.keys import HmacKey
from branches.evidence.msgpack_hash import canonical_hash_exact, canonical_hash_semantic
from branches.evidence.msgpack_read import MsgpackMalformed
from branches.evidence.msgpack_split import map_members

INTERRUPT_INDEX: Final = -3
PAGE: Final = 1_000

_COLUMNS: Final = frozenset(
    {"thread_id", "checkpoint_ns", "checkpoint_id", "parent_checkpoint_id", "type", "checkpoint", "metadata"}
)
_DELTA_COUNTERS: Final = "counters_since_delta_snapshot"
# Only rows of the root graph are restored; a subgraph's live under a namespace of their own.
_ROOT: Final = ""


class StoreUnreadable(Exception):
    """The file is no LangGraph SQLite store that this version knows; the message names the rule only."""


@dataclass(frozen=True, slots=True)
class Row:
    """A checkpoint without its content; the ids are the runtime's own and must leave only as HMAC."""

    thread: str
    namespace: str
    checkpoint: str
    parent: str | None
    source: str | None
    step: int | None
    delta_channels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Prints:
    """Two keyed digests of one channel: `exact` proves a restore, `semantic` compares siblings."""

    exact: str
    semantic: str | None
    """None where the stored bytes are encrypted or of an unknown form."""


@dataclass(frozen=True, slots=True)
class Copied:
    """How many rows a copy made."""

    checkpoints: int
    writes: int


def connect(path: Path) -> sqlite3.Connection:
    """Open a store read-only, a live one too. Raises StoreUnreadable."""
    try:
        connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, timeout=10)
    except sqlite3.Error:
        raise StoreUnreadable("store: cannot_open") from None
    try:
        columns = {row[1] for row in connection.execute("PRAGMA table_info(checkpoints)")}
    except sqlite3.Error:
        connection.close()
        raise StoreUnreadable("store: cannot_open") from None
    if not columns >= _COLUMNS:
        connection.close()
        raise StoreUnreadable("store: unknown_form")
    return connection


def threads(connection: sqlite3.Connection) -> list[tuple[str, int, int]]:
    """Return (thread, checkpoints, those of the root graph) of every thread."""
    return list(
        connection.execute(
            "SELECT thread_id, count(*), sum(checkpoint_ns = '') FROM checkpoints"
            " GROUP BY thread_id ORDER BY thread_id"
        )
    )


def find_thread(connection: sqlite3.Connection, key: HmacKey, external_ref: str) -> str | None:
    """Return the thread whose id has this HMAC, or None."""
    found = connection.execute("SELECT DISTINCT thread_id FROM checkpoints")
    return next((thread for (thread,) in found if key.digest(THREAD, thread) == external_ref), None)


def find_checkpoint(
    connection: sqlite3.Connection, key: HmacKey, thread: str, checkpoint: str
) -> tuple[str, str] | None:
    """Return (namespace, id) of the checkpoint of a thread whose id has this HMAC, or None."""
    found = connection.execute(
        "SELECT checkpoint_ns, checkpoint_id FROM checkpoints WHERE thread_id = ?"
        " ORDER BY checkpoint_id DESC",
        (thread,),
    )
    for namespace, own in found:
        if key.digest(CHECKPOINT, own) == checkpoint:
            return namespace, own
    return None


def history(connection: sqlite3.Connection, thread: str) -> Iterator[Row]:
    """Yield a thread's checkpoints, oldest first and page by page, without reading their content."""
    after = ("", "")
    while True:
        page = connection.execute(
            "SELECT checkpoint_id, checkpoint_ns, parent_checkpoint_id, metadata FROM checkpoints"
            " WHERE thread_id = ? AND (checkpoint_id, checkpoint_ns) > (?, ?)"
            " ORDER BY checkpoint_id, checkpoint_ns LIMIT ?",
            (thread, *after, PAGE),
        ).fetchall()
        for own, namespace, parent, metadata in page:
            yield _row(thread, namespace, own, parent, metadata)
        if len(page) < PAGE:
            return
        after = (page[-1][0], page[-1][1])


def row(connection: sqlite3.Connection, thread: str, checkpoint: str) -> Row | None:
    """Return one checkpoint of the root graph, or None."""
    found = connection.execute(
        "SELECT checkpoint_ns, checkpoint_id, parent_checkpoint_id, metadata FROM checkpoints"
        " WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?",
        (thread, _ROOT, checkpoint),
    ).fetchone()
    return None if found is None else _row(thread, *found)


def has_child_from_loop(connection: sqlite3.Connection, thread: str, checkpoint: str) -> bool:
    """Whether the step behind a checkpoint was completed on this thread."""
    found = connection.execute(
        "SELECT metadata FROM checkpoints"
        " WHERE thread_id = ? AND checkpoint_ns = ? AND parent_checkpoint_id = ?",
        (thread, _ROOT, checkpoint),
    )
    return any(_metadata(metadata).get("source") == "loop" for (metadata,) in found)


def lineage(connection: sqlite3.Connection, thread: str, checkpoint: str) -> list[str]:
    """Return a checkpoint and its ancestors, nearest first; a loop in the store is walked once."""
    found = connection.execute(
        "WITH RECURSIVE line(own, parent) AS ("
        " SELECT checkpoint_id, parent_checkpoint_id FROM checkpoints"
        "  WHERE thread_id = :thread AND checkpoint_ns = :ns AND checkpoint_id = :own"
        " UNION ALL SELECT c.checkpoint_id, c.parent_checkpoint_id"
        "  FROM line CROSS JOIN checkpoints c ON c.checkpoint_id = line.parent"
        "  WHERE c.thread_id = :thread AND c.checkpoint_ns = :ns"
        ") SELECT own FROM line",
        {"thread": thread, "ns": _ROOT, "own": checkpoint},
    )
    walked: dict[str, None] = {}
    for (own,) in found:
        if own in walked:
            break
        walked[own] = None
    return list(walked)


def memory_fingerprint(
    connection: sqlite3.Connection, key: HmacKey, thread: str, checkpoint: str
) -> str | None:
    """Return the keyed digest of everything a resume at this checkpoint would load, or None if it is gone.

    For channels that keep only differences the ancestors' writes are folded in: their own blobs look
    equal where the log behind them is not.
    """
    found = row(connection, thread, checkpoint)
    blob = _blob(connection, thread, checkpoint)
    if found is None or blob is None:
        return None
    content = _exact(*blob) + b"".join(_delta_writes(connection, found))
    return key.digest(STATE, content)


def channel_fingerprints(
    connection: sqlite3.Connection, key: HmacKey, thread: str, checkpoint: str
) -> dict[str, Prints]:
    """Return the two digests of every channel with a value, by the channel's own name."""
    blob = _blob(connection, thread, checkpoint)
    if blob is None or blob[0] != "msgpack":
        return {}
    values = map_members(map_members(blob[1]).get("channel_values", b"\x80"))
    return {
        name: Prints(
            exact=key.digest(STATE, canonical_hash_exact(raw)),
            semantic=key.digest(STATE, canonical_hash_semantic(raw)),
        )
        for name, raw in values.items()
    }


def semantic_fingerprint(
    connection: sqlite3.Connection, key: HmacKey, thread: str, checkpoint: str
) -> str | None:
    """Return one digest over all channel values without ids and times, for comparing siblings."""
    blob = _blob(connection, thread, checkpoint)
    if blob is None or blob[0] != "msgpack":
        return None
    values = map_members(map_members(blob[1]).get("channel_values", b"\x80"))
    parts = [name.encode() + b"\0" + canonical_hash_semantic(raw) for name, raw in sorted(values.items())]
    return key.digest(STATE, b"semantic\0" + b"".join(parts))


def copy(connection: sqlite3.Connection, *, source: str, checkpoint: str, target: str) -> Copied:
    """Put a checkpoint into a thread of its own, replacing whatever that thread held; the caller commits.

    One row is enough, except for channels that keep only differences: then the ancestors and their writes
    come along. Raises StoreUnreadable when the checkpoint is not there.
    """
    found = row(connection, source, checkpoint)
    if found is None:
        raise StoreUnreadable("checkpoint: absent")
    kept = _kept_tasks(connection, source, checkpoint)
    line = lineage(connection, source, checkpoint) if found.delta_channels else [checkpoint]
    for table in ("checkpoints", "writes"):
        connection.execute(f"DELETE FROM {table} WHERE thread_id = ?", (target,))  # noqa: S608 - two literals
    rows = writes = 0
    for own in line:
        rows += _copy_rows(connection, "checkpoints", source=source, target=target, checkpoint=own)
        if own != checkpoint:
            writes += _copy_rows(connection, "writes", source=source, target=target, checkpoint=own)
    for task in kept:
        writes += _copy_rows(
            connection, "writes", source=source, target=target, checkpoint=checkpoint, task=task
        )
    return Copied(rows, writes)


def extract(
    connection: sqlite3.Connection, other: sqlite3.Connection, *, thread: str, checkpoint: str
) -> None:
    """Put into another store of the same form whatever `copy` would look at; the caller commits.

    Raises StoreUnreadable when the checkpoint is not there.
    """
    found = row(connection, thread, checkpoint)
    if found is None:
        raise StoreUnreadable("checkpoint: absent")
    line = lineage(connection, thread, checkpoint) if found.delta_channels else [checkpoint]
    rooted = "thread_id = ? AND checkpoint_ns = ''"
    wanted = [
        *(("checkpoints", f"{rooted} AND checkpoint_id = ?", own) for own in line),
        *(("writes", f"{rooted} AND checkpoint_id = ?", own) for own in line),
        ("checkpoints", f"{rooted} AND parent_checkpoint_id = ?", checkpoint),
    ]
    for table, where, own in wanted:
        columns = ", ".join(f'"{name[1]}"' for name in connection.execute(f"PRAGMA table_info({table})"))
        rows = connection.execute(
            f"SELECT {columns} FROM {table} WHERE {where} ORDER BY rowid",  # noqa: S608 - the store's own column names
            (thread, own),
        ).fetchall()
        holes = ", ".join("?" * (columns.count(",") + 1))
        other.executemany(f"INSERT OR IGNORE INTO {table} ({columns}) VALUES ({holes})", rows)  # noqa: S608 - the same


def _kept_tasks(connection: sqlite3.Connection, thread: str, checkpoint: str) -> list[str]:
    """Return the tasks at a checkpoint whose results a branch keeps.

    A task that failed runs again. Of a step that waited for a person, what had finished beside it stays
    finished and the question is asked anew. A step that simply completed is what the branch is to do
    again: keeping its results would make the branch repeat the parent's words without running anything.
    """
    found = connection.execute(
        "SELECT task_id, min(idx) FROM writes"
        " WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ? GROUP BY task_id",
        (thread, _ROOT, checkpoint),
    ).fetchall()
    lowest = dict(found)
    waited = any(index <= INTERRUPT_INDEX for index in lowest.values())
    if not waited and has_child_from_loop(connection, thread, checkpoint):
        return []
    return [task for task, index in lowest.items() if index >= 0]


def _copy_rows(
    connection: sqlite3.Connection,
    table: str,
    *,
    source: str,
    target: str,
    checkpoint: str,
    task: str | None = None,
) -> int:
    columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
    chosen = ", ".join("?" if column == "thread_id" else f'"{column}"' for column in columns)
    only = "" if task is None else " AND task_id = ?"
    cursor = connection.execute(
        f"INSERT INTO {table} SELECT {chosen} FROM {table}"  # noqa: S608 - the store's own column names
        f" WHERE thread_id = ? AND checkpoint_ns = '' AND checkpoint_id = ?{only}",
        (target, source, checkpoint, *(() if task is None else (task,))),
    )
    return cursor.rowcount


def _delta_writes(connection: sqlite3.Connection, found: Row) -> Iterator[bytes]:
    if not found.delta_channels:
        return
    marks = ", ".join("?" * len(found.delta_channels))
    for own in lineage(connection, found.thread, found.checkpoint)[1:]:
        writes = connection.execute(
            "SELECT task_id, idx, channel, type, value FROM writes"  # noqa: S608 - only question marks
            f" WHERE thread_id = ? AND checkpoint_ns = '' AND checkpoint_id = ? AND channel IN ({marks})"
            " ORDER BY task_id, idx",
            (found.thread, own, *found.delta_channels),
        )
        for task, index, channel, kind, value in writes:
            yield f"\0{own}\0{task}\0{index}\0{channel}\0".encode() + _exact(kind, value)


def _blob(connection: sqlite3.Connection, thread: str, checkpoint: str) -> tuple[str | None, bytes] | None:
    found = connection.execute(
        "SELECT type, checkpoint FROM checkpoints"
        " WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?",
        (thread, _ROOT, checkpoint),
    ).fetchone()
    return None if found is None else (found[0], bytes(found[1] or b""))


def _exact(kind: str | None, raw: bytes | None) -> bytes:
    """Return a hash that proves equality; encrypted or odd bytes are compared as they are."""
    if kind == "msgpack" and raw:
        try:
            return canonical_hash_exact(bytes(raw))
        except MsgpackMalformed:
            pass
    return hashlib.sha256(f"{kind}\0".encode() + bytes(raw or b"")).digest()


def _row(thread: str, namespace: str, own: str, parent: str | None, raw: bytes | str | None) -> Row:
    metadata = _metadata(raw)
    source, step, counters = metadata.get("source"), metadata.get("step"), metadata.get(_DELTA_COUNTERS)
    return Row(
        thread=thread,
        namespace=namespace,
        checkpoint=own,
        parent=parent,
        source=source if source in {"input", "loop", "update", "fork"} else None,
        step=step if isinstance(step, int) else None,
        delta_channels=tuple(sorted(counters)) if isinstance(counters, dict) else (),
    )


def _metadata(raw: bytes | str | None) -> dict[str, object]:
    try:
        metadata = json.loads(raw) if raw else {}
    except ValueError:
        return {}
    return metadata if isinstance(metadata, dict) else {}
