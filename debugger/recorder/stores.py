"""The graph's own checkpoint store: short questions by SQL where it is SQLite, else through the saver."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from branches.evidence import langgraph_store
from branches.evidence.keys import HmacKey

_SENDS: Final = "__pregel_tasks"


class StoreUnsupported(Exception):
    """A branch can be made only in a SqliteSaver's store."""


def config_of(thread: str, checkpoint: str | None = None) -> dict[str, Any]:
    """Return the runtime's configuration that names a thread, and perhaps a checkpoint of it."""
    place = {"thread_id": thread, "checkpoint_ns": ""}
    return {"configurable": place if checkpoint is None else {**place, "checkpoint_id": checkpoint}}


class Store:
    """The saver of a compiled graph."""

    def __init__(self, graph: Any) -> None:
        self.saver = graph.checkpointer
        if self.saver is None or isinstance(self.saver, bool):
            raise StoreUnsupported("graph: no checkpointer")

    @property
    def is_sqlite(self) -> bool:
        """Whether SQL can be asked of it."""
        return isinstance(getattr(self.saver, "conn", None), sqlite3.Connection)

    @contextmanager
    def connection(self) -> Iterator[sqlite3.Connection]:
        """Hold the saver's own lock and connection. Raises StoreUnsupported."""
        if not self.is_sqlite:
            raise StoreUnsupported("graph: not a SqliteSaver")
        with self.saver.cursor(transaction=False) as cursor:
            yield cursor.connection

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Do everything inside in one transaction, or nothing of it."""
        with self.connection() as connection:
            connection.commit()
            try:
                connection.execute("BEGIN IMMEDIATE")
                yield connection
                connection.commit()
            except BaseException:
                connection.rollback()
                raise

    def find(self, key: HmacKey, external_ref: str, checkpoint: str) -> tuple[str, str, str] | None:
        """Return (thread, namespace, checkpoint) behind two HMACs, or None."""
        with self.connection() as connection:
            thread = langgraph_store.find_thread(connection, key, external_ref)
            if thread is None:
                return None
            found = langgraph_store.find_checkpoint(connection, key, thread, checkpoint)
        return None if found is None else (thread, *found)

    def find_anywhere(self, key: HmacKey, checkpoint: str) -> tuple[str, str] | None:
        """Return (thread, checkpoint) of a root graph's checkpoint in whichever thread holds it, or None."""
        with self.connection() as connection:
            for thread, _, _ in langgraph_store.threads(connection):
                found = langgraph_store.find_checkpoint(connection, key, thread, checkpoint)
                if found is not None and not found[0]:
                    return thread, found[1]
        return None

    def row(self, thread: str, checkpoint: str) -> langgraph_store.Row | None:
        """Return a checkpoint of the root graph without its content."""
        with self.connection() as connection:
            return langgraph_store.row(connection, thread, checkpoint)

    def fingerprint(self, key: HmacKey, thread: str, checkpoint: str) -> str | None:
        """Return the keyed digest of everything a resume at a checkpoint would load."""
        with self.connection() as connection:
            return langgraph_store.memory_fingerprint(connection, key, thread, checkpoint)

    def await_row(self, thread: str, checkpoint: str, seconds: float = 5.0) -> bool:
        """Wait until a checkpoint is in the store: the first of a run is written beside its first step."""
        deadline = time.monotonic() + seconds
        while self.saver.get_tuple(config_of(thread, checkpoint)) is None:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.005)
        return True

    def writes(
        self, thread: str, checkpoint: str, tasks: frozenset[str], seconds: float = 2.0
    ) -> list[tuple[str, str, Any]]:
        """Return (task, channel, value) of a step whose tasks are these; waits until each is there.

        The runtime waits for the checkpoint only, and writes a task's results beside it. The value is
        there only where it names the nodes sent to.
        """
        deadline = time.monotonic() + seconds
        while True:
            found = self._writes(thread, checkpoint)
            if tasks <= {task for task, _, _ in found} or time.monotonic() > deadline:
                return found
            time.sleep(0.002)

    def _writes(self, thread: str, checkpoint: str) -> list[tuple[str, str, Any]]:
        if not self.is_sqlite:
            found = self.saver.get_tuple(config_of(thread, checkpoint))
            return [] if found is None else list(found.pending_writes or ())
        with self.connection() as connection:
            rows = connection.execute(
                "SELECT task_id, channel, type, CASE WHEN channel = ? THEN value END FROM writes"
                " WHERE thread_id = ? AND checkpoint_ns = '' AND checkpoint_id = ? ORDER BY task_id, idx",
                (_SENDS, thread, checkpoint),
            ).fetchall()
        return [
            (task, channel, None if value is None else self.saver.serde.loads_typed((kind, value)))
            for task, channel, kind, value in rows
        ]
