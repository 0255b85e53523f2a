"""Reads checkpoints in LangGraph's PostgreSQL store by SQL alone: blobs are hashed, never decoded.

A checkpoint's row is JSON in which numbers, texts and null stand as they are; every other channel's value is
a blob of its channel and version. Writes count only for channels that keep differences: those of the
ancestors. The writes at a checkpoint itself belong to the step after it.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final

from branches.evidence.domains import CHECKPOINT, THREAD
from branches.evidence.keys import HmacKey
from branches.evidence.msgpack_hash import canonical_hash_exact
from branches.evidence.msgpack_read import MsgpackMalformed
from debugger.adapters.outbound import Unreachable
from debugger.adapters.postgres import Snapshot

MOST_BYTES: Final = 64 * 1024 * 1024
MOST_NAMES: Final = 200_000
_PENDING: Final = "__pregel_tasks"
_OLD: Final = 4  # before this form of a checkpoint, what the parent had sent was part of what is loaded

_ROW: Final = b"""
SELECT (checkpoint - 'channel_values')::text, parent_checkpoint_id, (checkpoint ->> 'v')::int,
  ARRAY(SELECT jsonb_object_keys(metadata -> 'counters_since_delta_snapshot')),
  octet_length(checkpoint::text)
FROM checkpoints WHERE thread_id = %s AND checkpoint_ns = '' AND checkpoint_id = %s"""
_LINE: Final = b"""
WITH RECURSIVE line(own, parent) AS (
  SELECT checkpoint_id, parent_checkpoint_id FROM checkpoints
  WHERE thread_id = %s AND checkpoint_ns = '' AND checkpoint_id = %s
  UNION SELECT c.checkpoint_id, c.parent_checkpoint_id FROM line JOIN checkpoints c
  ON c.thread_id = %s AND c.checkpoint_ns = '' AND c.checkpoint_id = line.parent)
SELECT own FROM line WHERE own <> %s"""
_INLINE: Final = b"""
SELECT c.checkpoint_id, v.key, '', '', convert_to(v.value::text, 'UTF8') AS content
FROM checkpoints c CROSS JOIN LATERAL jsonb_each(c.checkpoint -> 'channel_values') v
WHERE c.thread_id = %s AND c.checkpoint_ns = '' AND c.checkpoint_id = ANY(%s)
AND (%s::text[] IS NULL OR v.key = ANY(%s))"""
_BLOBS: Final = b"""
SELECT '', b.channel, b.version, b.type, b.blob AS content FROM checkpoint_blobs b
WHERE b.thread_id = %s AND b.checkpoint_ns = '' AND b.type <> 'empty' AND (b.channel, b.version) IN (
  SELECT v.key, v.value FROM checkpoints c
  CROSS JOIN LATERAL jsonb_each_text(c.checkpoint -> 'channel_versions') v
  WHERE c.thread_id = b.thread_id AND c.checkpoint_ns = '' AND c.checkpoint_id = ANY(%s)
  AND (%s::text[] IS NULL OR v.key = ANY(%s)))"""
_WRITES: Final = b"""
SELECT w.checkpoint_id, w.channel, concat_ws(' ', w.task_path, w.task_id, w.idx), w.type, w.blob AS content
FROM checkpoint_writes w WHERE w.thread_id = %s AND w.checkpoint_ns = ''
AND w.checkpoint_id = ANY(%s) AND w.channel = ANY(%s)"""


@dataclass(frozen=True, slots=True)
class Value:
    """One stored value: where it stands, and its bytes."""

    checkpoint: str
    channel: str
    place: str
    sort: str | None
    content: bytes = field(repr=False)

    def exact(self) -> bytes:
        """32 bytes, equal for equal values in any database."""
        if self.sort == "msgpack":
            try:
                return canonical_hash_exact(self.content)
            except MsgpackMalformed:
                pass
        return hashlib.sha256(f"{self.sort}\0".encode() + self.content).digest()


@dataclass(frozen=True, slots=True)
class Stored:
    """A checkpoint as its store holds it: the row, its channels' values, and what ancestors add."""

    row: str = field(repr=False)
    values: list[Value] = field(repr=False)
    ancestors: list[Value] = field(repr=False)

    def channels(self) -> dict[str, bytes]:
        """Return each channel's exact hash; where there is a blob, what stands in the row only marks it."""
        found = {value.channel: value.exact() for value in sorted(self.values, key=lambda each: each.place)}
        line = sorted((each.channel, each.checkpoint, each.place, each.exact()) for each in self.ancestors)
        for channel, group in groupby(line, key=lambda each: each[0]):
            behind = [each for _, *place, exact in group for each in (*map(str.encode, place), exact)]
            found[channel] = hashlib.sha256(_framed([found.get(channel, b""), *behind])).digest()
        return found

    def content(self, channels: dict[str, bytes]) -> bytes:
        """Return what a fingerprint is made over, the channels' hashes given."""
        each = [piece for name, exact in sorted(channels.items()) for piece in (name.encode(), exact)]
        return _framed([b"langgraph-postgres", self.row.encode(), *each])


def _framed(pieces: Iterable[bytes]) -> bytes:
    return b"".join(b"%d:%b" % (len(piece), piece) for piece in pieces)


def newest(opened: Snapshot, thread: str) -> str | None:
    """Return a thread's newest checkpoint of the root graph, or None."""
    found = opened.run(
        b"SELECT checkpoint_id FROM checkpoints WHERE thread_id = %s AND checkpoint_ns = ''"
        b" ORDER BY checkpoint_id DESC LIMIT 1",
        thread,
    ).fetchone()
    return None if found is None else str(found[0])


def find_thread(opened: Snapshot, key: HmacKey, external_ref: str) -> str | None:
    """Return the thread whose id has this HMAC, or None. Raises Unreachable."""
    rows = _names(opened, b"SELECT DISTINCT thread_id FROM checkpoints LIMIT %s")
    return next((thread for (thread,) in rows if key.digest(THREAD, thread) == external_ref), None)


def find_checkpoints(
    opened: Snapshot, key: HmacKey, thread: str | None, checkpoint: str
) -> Iterator[tuple[str, str]]:
    """Yield (thread, id) of the root graph's checkpoints whose id has this HMAC, in one thread or in all."""
    everywhere = b"SELECT thread_id, checkpoint_id FROM checkpoints WHERE checkpoint_ns = ''"
    if thread is None:
        rows = _names(opened, everywhere + b" LIMIT %s")
    else:
        rows = _names(opened, everywhere + b" AND thread_id = %s LIMIT %s", thread)
    matching: dict[str, bool] = {}
    for found, own in rows:
        if own not in matching:
            matching[own] = key.digest(CHECKPOINT, own) == checkpoint
        if matching[own]:
            yield found, own


def holders(opened: Snapshot, checkpoint: str) -> Iterator[tuple[str, str]]:
    """Yield (thread, id) of a checkpoint in every thread that holds it."""
    statement = b"SELECT thread_id FROM checkpoints WHERE checkpoint_ns = '' AND checkpoint_id = %s LIMIT %s"
    yield from ((thread, checkpoint) for (thread,) in _names(opened, statement, checkpoint))


def read(opened: Snapshot, thread: str, checkpoint: str) -> Stored | None:
    """Return a checkpoint of the root graph, or None where it is not there. Raises Unreachable."""
    found = opened.run(_ROW, thread, checkpoint).fetchone()
    if found is None:
        return None
    row, parent, form, delta, size = found
    room = _Room(MOST_BYTES - int(size))
    values = _values(opened, room, thread, [checkpoint], None)
    ancestors: list[Value] = []
    if delta:
        line = [str(own) for (own,) in opened.run(_LINE, thread, checkpoint, thread, checkpoint)]
        ancestors += _values(opened, room, thread, line, list(delta))
        ancestors += _taken(opened, room, _WRITES, thread, line, list(delta))
    if parent is not None and (form is None or form < _OLD):
        ancestors += _taken(opened, room, _WRITES, thread, [parent], [_PENDING])
    return Stored(str(row), values, ancestors)


@dataclass(slots=True)
class _Room:
    """How many bytes may still be read."""

    left: int


def _values(
    opened: Snapshot, room: _Room, thread: str, checkpoints: list[str], channels: list[str] | None
) -> list[Value]:
    where = (thread, checkpoints, channels, channels)
    return [*_taken(opened, room, _INLINE, *where), *_taken(opened, room, _BLOBS, *where)]


def _taken(opened: Snapshot, room: _Room, statement: bytes, *parameters: Any) -> list[Value]:
    """Let the server count the bytes, then read them. Raises Unreachable."""
    count = b"SELECT coalesce(sum(octet_length(q.content)), 0)::bigint FROM (" + statement + b") AS q"
    found = opened.run(count, *parameters).fetchone()
    room.left -= int(found[0]) if found else MOST_BYTES
    if room.left < 0:
        raise Unreachable("too_large")
    return [
        Value(checkpoint, channel, place, sort, bytes(content or b""))
        for checkpoint, channel, place, sort, content in opened.run(statement, *parameters)
    ]


def _names(opened: Snapshot, statement: bytes, *parameters: Any) -> Sequence[Sequence[Any]]:
    rows = opened.run(statement, *parameters, MOST_NAMES + 1).fetchall()
    if len(rows) > MOST_NAMES:
        raise Unreachable("too_many_checkpoints")
    return rows
