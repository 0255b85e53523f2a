"""Write runs' and workspaces' receipts as NDJSON: exact bytes, digests included."""

import sys
from collections.abc import Iterator
from typing import Any

from django.core.management.base import CommandError, CommandParser

from branches.queries.api_views import exported
from branches.queries.receipts import runs_to_verify
from branches.queries.workspace_chain import exported_chain, workspaces_to_verify
from debugger.management.database_command import DatabaseCommand


class Command(DatabaseCommand):
    help = "Write the receipts of the named runs and workspaces, or of all, to standard output."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("runs", nargs="*", metavar="RUN")
        parser.add_argument("--all", action="store_true")

    def handle(self, *_args: Any, **options: Any) -> None:
        if bool(options["runs"]) == options["all"]:
            raise CommandError("name runs, or give --all")
        chosen: list[Iterator[bytes]] = []
        for uid in options["runs"] or [None]:
            found = [exported(run) for run in runs_to_verify(uid)]
            found += [exported_chain(workspace) for workspace in workspaces_to_verify(uid)]
            if uid and not found:
                raise CommandError("run: unknown")
            chosen += found
        for lines in chosen:
            for line in lines:
                sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
