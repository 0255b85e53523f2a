"""Agent memory: a checkpoint in LangGraph's own store, hashed again now, without decoding content."""

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from branches.evidence import langgraph_store
from branches.evidence.domains import PART, STATE
from branches.evidence.keys import HmacKey
from branches.evidence.msgpack_hash import canonical_hash_exact
from branches.evidence.msgpack_read import MsgpackMalformed
from branches.evidence.msgpack_split import map_members
from branches.ports import Moment, StateMeasurement, Target
from debugger.adapters.answers import unfit_measurement
from debugger.adapters.options import TargetUnfit, local_path, text
from debugger.adapters.outbound import Unreachable
from debugger.adapters.postgres import Snapshot, snapshot
from debugger.adapters.probes.langgraph_file import opened_store
from debugger.adapters.probes.sql_sqlite import file_of
from debugger.adapters.runtimes import langgraph_postgres
from debugger.adapters.runtimes.langgraph_postgres import Stored

TIMEOUT_S: Final = 10.0
_MOST_COPIES: Final = 64


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Which checkpoint: ids of the target in clear go before the moment's HMACs."""

    thread: str | None
    checkpoint: str | None
    thread_ref: str | None
    checkpoint_ref: str | None

    @property
    def is_newest(self) -> bool:
        """Whether the newest checkpoint of the thread in clear is meant."""
        return self.thread is not None and self.checkpoint is None


class LangGraphMemoryProbe:
    """Options: `store`, the path of the SQLite checkpointer, or `url` (`sqlite:///path`, `postgres://…`).

    Besides: `thread_id` and `checkpoint_id` in clear, for asking without a moment: without the second the
    thread's newest checkpoint of the root graph. For PostgreSQL `password_env` and `allow`.
    """

    shows_content = True
    """A recorder can show what this probe measures."""
    limits = (
        "Everything the runtime would load at this checkpoint is compared; what an agent holds outside its"
        " checkpoints (caches, long-term stores, open connections) is not."
    )
    remedy = "Fork from a checkpoint that is still in the store unchanged, or put the store's file back."

    def measure(self, target: Target, moment: Moment) -> StateMeasurement:
        """Hash the stored checkpoint as it stands in the store now, whichever thread it is found in."""
        try:
            wanted = _wanted(target, moment)
            if wanted is None:
                return _without_checkpoint(target)
            url = text(target, "url") if "url" in target.options else "sqlite:"
            read = _in_sqlite if url.startswith("sqlite:") else _in_postgres
            return _one_of(list(read(target, wanted)))
        except TargetUnfit as error:
            return unfit_measurement(error)
        except Unreachable as error:
            problem = "store_unreadable" if error.problem == "query_failed" else error.problem
            return StateMeasurement(None, reachable=False, problem=problem)

    def capture(self, target: Target, moment: Moment) -> StateMeasurement:
        """Return the same: a checkpoint is the past, kept."""
        return self.measure(target, moment)


def _wanted(target: Target, moment: Moment) -> _Wanted | None:
    """Return which checkpoint is meant, or None where nothing says so. Raises TargetUnfit."""
    thread = text(target, "thread_id") if "thread_id" in target.options else None
    own = text(target, "checkpoint_id") if "checkpoint_id" in target.options else None
    if thread is None and own is None and moment.checkpoint is None:
        return None
    return _Wanted(thread, own, moment.external_ref, moment.checkpoint)


def _without_checkpoint(target: Target) -> StateMeasurement:
    """Say what is missing; a target that names no store is unfit first. Raises TargetUnfit."""
    text(target, "url" if "url" in target.options else "store")
    return StateMeasurement(None, problem="no_checkpoint")


def _one_of(found: list[StateMeasurement]) -> StateMeasurement:
    if not found:
        return StateMeasurement(None, problem="checkpoint_absent")
    if len({each.fingerprint for each in found}) > 1:  # copies that no longer agree prove nothing
        return StateMeasurement(None, problem="checkpoint_ambiguous")
    return found[0]


def _in_sqlite(target: Target, wanted: _Wanted) -> Iterator[StateMeasurement]:
    path = file_of(target) if "url" in target.options else local_path(target, "store")
    with opened_store(path) as connection:
        connection.execute("BEGIN")  # the whole and its parts are of one moment
        for thread, own in _sqlite_places(connection, target.key, wanted):
            whole = langgraph_store.memory_fingerprint(connection, target.key, thread, own)
            if whole is not None:
                yield StateMeasurement(whole, parts=_sqlite_parts(connection, target.key, thread, own))


def _sqlite_places(
    connection: sqlite3.Connection, key: HmacKey, wanted: _Wanted
) -> Iterator[tuple[str, str]]:
    """Yield (thread, id) of every copy of the checkpoint in the threads that are meant."""
    for thread in _sqlite_threads(connection, key, wanted):
        if wanted.is_newest:
            newest = connection.execute(
                "SELECT checkpoint_id FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = ''"
                " ORDER BY checkpoint_id DESC LIMIT 1",
                (thread,),
            ).fetchone()
            found = None if newest is None else ("", newest[0])
        elif wanted.checkpoint is not None:
            row = langgraph_store.row(connection, thread, wanted.checkpoint)
            found = None if row is None else ("", row.checkpoint)
        else:
            found = langgraph_store.find_checkpoint(connection, key, thread, wanted.checkpoint_ref or "")
        if found is not None and found[0] == "":
            yield thread, found[1]


def _sqlite_threads(connection: sqlite3.Connection, key: HmacKey, wanted: _Wanted) -> Iterator[str]:
    """Yield the thread that is meant, or all of them where none is named (a branch's branch)."""
    if wanted.thread is not None:
        yield wanted.thread
    elif wanted.thread_ref is None:
        yield from (thread for thread, _, _ in langgraph_store.threads(connection))
    elif (thread := langgraph_store.find_thread(connection, key, wanted.thread_ref)) is not None:
        yield thread


def _sqlite_parts(connection: sqlite3.Connection, key: HmacKey, thread: str, own: str) -> dict[str, str]:
    """Return each channel's exact fingerprint; none where the store is encrypted."""
    row = connection.execute(
        "SELECT checkpoint FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = ''"
        " AND checkpoint_id = ? AND type = 'msgpack'",
        (thread, own),
    ).fetchone()
    try:
        members = {} if row is None else map_members(bytes(row[0] or b""))
        values = map_members(members.get("channel_values", b"\x80"))
        return _parts(key, {name: canonical_hash_exact(raw) for name, raw in values.items()})
    except MsgpackMalformed:
        return {}


def _in_postgres(target: Target, wanted: _Wanted) -> Iterator[StateMeasurement]:
    """Read in one snapshot, and hash after it: hashing may take longer than a server should wait."""
    with snapshot(target, TIMEOUT_S) as opened:
        places = list(_postgres_places(opened, target.key, wanted))
        if len(places) > _MOST_COPIES:
            raise Unreachable("too_many_checkpoints")
        found = [langgraph_postgres.read(opened, thread, own) for thread, own in places]
    yield from (_hashed(target.key, stored) for stored in found if stored is not None)


def _postgres_places(opened: Snapshot, key: HmacKey, wanted: _Wanted) -> Iterator[tuple[str, str]]:
    thread = wanted.thread
    if thread is None and wanted.thread_ref is not None:
        thread = langgraph_postgres.find_thread(opened, key, wanted.thread_ref)
        if thread is None:
            return
    if thread is not None and wanted.is_newest:
        newest = langgraph_postgres.newest(opened, thread)
        if newest is not None:
            yield thread, newest
    elif wanted.checkpoint is None:
        yield from langgraph_postgres.find_checkpoints(opened, key, thread, wanted.checkpoint_ref or "")
    elif thread is not None:
        yield thread, wanted.checkpoint
    else:
        yield from langgraph_postgres.holders(opened, wanted.checkpoint)


def _hashed(key: HmacKey, stored: Stored) -> StateMeasurement:
    channels = stored.channels()
    return StateMeasurement(key.digest(STATE, stored.content(channels)), parts=_parts(key, channels))


def _parts(key: HmacKey, channels: dict[str, bytes]) -> dict[str, str]:
    return {key.digest(PART, name): key.digest(STATE, exact) for name, exact in channels.items()}
