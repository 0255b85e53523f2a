"""Recompute every chain, or one run's or workspace's, and name the first broken link."""

from typing import Any

from django.core.management.base import CommandError, CommandParser

from branches.evidence.chain import ChainVerdict
from branches.queries.receipts import runs_to_verify, verify_run
from branches.queries.workspace_chain import verify_workspace, workspaces_to_verify
from debugger.management.database_command import DatabaseCommand


class Command(DatabaseCommand):
    help = "Recompute the receipt chains; exit 1 and name the first broken link of each broken chain."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("run", nargs="?", help="a run, branch or workspace id; all of them without it")

    def handle(self, *_args: Any, **options: Any) -> None:
        runs, workspaces = runs_to_verify(options["run"]), workspaces_to_verify(options["run"])
        if options["run"] and not runs and not workspaces:
            raise CommandError("run: unknown")
        sound = [self._tell(run.uid, verify_run(run)) for run in runs]
        sound += [self._tell(workspace.uid, verify_workspace(workspace)) for workspace in workspaces]
        if not all(sound):
            raise CommandError(f"{sound.count(False)} of {len(sound)} chains are broken")

    def _tell(self, uid: str, verdict: ChainVerdict) -> bool:
        if verdict.ok:
            self.stdout.write(f"{uid} {verdict.count} receipts, chain intact, head {verdict.head}")
        else:
            self.stdout.write(f"{uid} BROKEN at seq {verdict.broken_seq}: {verdict.reason}")
        return verdict.ok
