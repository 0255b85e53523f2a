"""Takes in what a runtime sends while it runs, piece by piece, whichever process each piece comes to."""

import fcntl
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from django.conf import settings
from django.db import connection

from branches.commands.import_source import Imported, take_in
from branches.models import Workspace
from branches.ports import Earlier, LiveImporter, SourceFile
from branches.queries.import_page import imported_run
from branches.queries.secrets import workspace_key

_LOCK: Final = "live.lock"
_THREADS: Final = 2  # classes of locks, beside that of names
_RUNS: Final = 3
_STRIPES: Final = 256
"""So many locks stand for all threads, and so many for all runs: a server holds some thousands at most."""

type _Lock = Callable[[int, Iterable[str]], None]


def import_live(
    *,
    workspace: Workspace,
    importer: LiveImporter,
    file: SourceFile,
    threads: Iterable[str],
    earlier: Callable[[], Earlier],
) -> list[Imported]:
    """Take in one piece, read with all that is kept of its threads.

    Of pieces of one thread that come at once each waits for the one before, and only then looks at what is
    kept: whoever is last has seen every piece. What was said of a fact first stands.
    """
    key = workspace_key(workspace)
    with _one_at_a_time() as lock:
        lock(_THREADS, (f"{workspace.uid}:{thread}" for thread in threads))
        read = importer.read_beside(file, earlier(), key)
        lock(_RUNS, (imported_run(workspace, found.external_ref) for found in read.runs))
        done = [take_in(workspace, key, found, live=True) for found in read.runs]
    return [*done, Imported(None, refused=list(read.refused))]


@contextmanager
def _one_at_a_time() -> Iterator[_Lock]:
    """Give a lock on names of a class, held to the end: first on threads, then on runs.

    It is apart from the transactions of what is taken in: those stay short, and hold few locks of their own.
    """
    if connection.vendor != "postgresql":
        with (settings.BRANCHGATE_VAR / _LOCK).open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # on SQLite nobody else at all
            yield lambda _class, _names: None
        return
    guard = connection.copy()
    try:
        guard.set_autocommit(False)

        def lock(of: int, names: Iterable[str]) -> None:
            with guard.cursor() as cursor:
                for stripe in sorted({zlib.crc32(name.encode()) % _STRIPES for name in names}):
                    cursor.execute("SELECT pg_advisory_xact_lock(%s, %s)", [of, stripe])

        yield lock
    finally:
        guard.close()  # its transaction ends with it, and the locks with that
