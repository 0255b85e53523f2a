"""Write a branch's signed governance receipt."""

import sys
from typing import Any

from django.core.management.base import CommandError, CommandParser

from branches.queries.governance import governance_receipt
from branches.queries.receipts import runs_to_verify
from debugger.management.database_command import DatabaseCommand


class Command(DatabaseCommand):
    help = "Write the content-free, signed receipt of a branch's six gates to standard output."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("branch")

    def handle(self, *_args: Any, **options: Any) -> None:
        found = [run for run in runs_to_verify(options["branch"]) if run.parent_id is not None]
        if not found:
            raise CommandError("branch: unknown")
        sys.stdout.buffer.write(governance_receipt(found[0]) + b"\n")
        sys.stdout.buffer.flush()
