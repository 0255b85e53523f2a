"""Write runs' receipts as NDJSON: exact bytes, digests included."""

import sys
from typing import Any

from django.core.management.base import CommandError, CommandParser

from branches.queries.api_views import exported
from branches.queries.receipts import runs_to_verify
from debugger.management.database_command import DatabaseCommand


class Command(DatabaseCommand):
    help = "Write the receipts of the named runs, or of all, to standard output."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("runs", nargs="*", metavar="RUN")
        parser.add_argument("--all", action="store_true")

    def handle(self, *_args: Any, **options: Any) -> None:
        if bool(options["runs"]) == options["all"]:
            raise CommandError("name runs, or give --all")
        chosen = []
        for uid in options["runs"] or [None]:
            found = runs_to_verify(uid)
            if uid and not found:
                raise CommandError("run: unknown")
            chosen += found
        for run in chosen:
            for line in exported(run):
                sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
