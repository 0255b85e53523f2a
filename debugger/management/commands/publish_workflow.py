"""Publish a workflow's declaration from a JSON file."""

from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from branches.commands.admit import make_workspace
from branches.commands.publish_workflow import publish_workflow
from branches.commands.refusal import Refused
from branches.evidence.canonical import ProfileError, parse_strict
from debugger.management.database_command import DatabaseCommand


class Command(DatabaseCommand):
    help = "Publish one version of a workflow; the same again is the same, another under its name is refused."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file")
        parser.add_argument("--workspace", default="main")

    def handle(self, *_args: Any, **options: Any) -> None:
        try:
            declaration = parse_strict(Path(options["file"]).read_bytes())
        except OSError as error:
            raise CommandError(f"file: {error.strerror}") from None
        except ProfileError as error:
            raise CommandError(f"file: {error}") from None
        if not isinstance(declaration, dict):
            raise CommandError("file: an object is required")
        workspace = make_workspace(name=options["workspace"])
        try:
            row = publish_workflow(workspace=workspace, publisher=workspace.uid, declaration=declaration)
        except Refused as refused:
            raise CommandError(_words(refused)) from None
        self.stdout.write(f"{row.name} {row.version} {row.uid} {row.digest}")


def _words(refused: Refused) -> str:
    if refused.rule != "version_already_published":
        return str(refused)
    return f"{refused}: it never changes, so what differs needs another version or another name"
