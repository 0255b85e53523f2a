"""Recompute every chain, or one run's, and name the first broken link."""

from typing import Any

from django.core.management.base import CommandError, CommandParser

from branches.queries.receipts import runs_to_verify, verify_run
from debugger.management.database_command import DatabaseCommand


class Command(DatabaseCommand):
    help = "Recompute the receipt chains; exit 1 and name the first broken link of each broken chain."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("run", nargs="?", help="a run or branch id; all of them without it")

    def handle(self, *_args: Any, **options: Any) -> None:
        broken = 0
        runs = runs_to_verify(options["run"])
        if options["run"] and not runs:
            raise CommandError("run: unknown")
        for run in runs:
            verdict = verify_run(run)
            if verdict.ok:
                self.stdout.write(f"{run.uid} {verdict.count} receipts, chain intact, head {verdict.head}")
            else:
                broken += 1
                self.stdout.write(f"{run.uid} BROKEN at seq {verdict.broken_seq}: {verdict.reason}")
        if broken:
            raise CommandError(f"{broken} of {len(runs)} chains are broken")
