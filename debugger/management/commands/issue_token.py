"""Make an API token; its secret is printed this once."""

from typing import Any

from django.core.management.base import CommandParser

from branches.commands.admit import SCOPES, issue_token, make_workspace
from debugger.management.database_command import DatabaseCommand


class Command(DatabaseCommand):
    help = "Print a new token of a workspace; only its digest is kept."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name")
        parser.add_argument("--workspace", default="main")
        parser.add_argument("--scope", action="append", choices=SCOPES, help="all of them without it")

    def handle(self, *_args: Any, **options: Any) -> None:
        workspace = make_workspace(name=options["workspace"])
        _, secret = issue_token(workspace=workspace, name=options["name"], scopes=options["scope"] or SCOPES)
        self.stdout.write(secret)
