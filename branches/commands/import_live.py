"""Takes in what a runtime sends while it runs, piece by piece, whichever process each piece comes to."""

import fcntl
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from django.conf import settings
from django.db import connection, transaction

from branches.commands.append_receipt import lock_names
from branches.commands.import_source import Imported, take_in
from branches.models import Workspace
from branches.ports import Earlier, LiveImporter, SourceFile
from branches.queries.import_page import imported_run
from branches.queries.secrets import workspace_key

_LOCK: Final = "live.lock"


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
    with _one_at_a_time(f"{workspace.uid}:{thread}" for thread in threads):
        read = importer.read_beside(file, earlier(), key)
        lock_names(imported_run(workspace, found.external_ref) for found in read.runs)
        done = [take_in(workspace, key, found, live=True) for found in read.runs]
    return [*done, Imported(None, refused=list(read.refused))]


@contextmanager
def _one_at_a_time(names: Iterable[str]) -> Iterator[None]:
    """Let nobody else in who names one of these; on SQLite nobody at all.

    There a transaction would hold the only write lock while a large piece is taken in, so a file is locked.
    """
    if connection.vendor == "postgresql":
        with transaction.atomic():
            lock_names(names)
            yield
    else:
        with (settings.BRANCHGATE_VAR / _LOCK).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
