"""Publish a workflow's topology contract from a JSON file."""

from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from branches.commands.admit import make_workspace
from branches.commands.publish_contract import publish_contract
from branches.commands.refusal import Refused
from branches.evidence.canonical import ProfileError, parse_strict
from debugger.management.database_command import DatabaseCommand


class Command(DatabaseCommand):
    help = "Publish one version of a contract, for runs that start after it; a draft blesses nothing."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file")
        parser.add_argument("--workflow", required=True)
        parser.add_argument("--draft", action="store_true")
        parser.add_argument("--workspace", default="main")

    def handle(self, *_args: Any, **options: Any) -> None:
        try:
            contract = parse_strict(Path(options["file"]).read_bytes())
        except OSError as error:
            raise CommandError(f"file: {error.strerror}") from None
        except ProfileError as error:
            raise CommandError(f"file: {error}") from None
        if not isinstance(contract, dict):
            raise CommandError("file: an object is required")
        workspace = make_workspace(name=options["workspace"])
        try:
            row = publish_contract(
                workspace=workspace,
                publisher=workspace.uid,
                workflow=options["workflow"],
                contract=contract,
                is_draft=options["draft"],
            )
        except Refused as refused:
            raise CommandError(str(refused)) from None
        draft = " draft" if row.is_draft else ""
        self.stdout.write(f"{row.workflow} {row.version}{draft} {row.uid} {row.digest}")
