"""Adopt a policy from a YAML file by the operator's own word, or check one without adopting it."""

from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from branches.commands.admit import make_workspace
from branches.commands.propose_change import PolicyRefused, adopt_policy
from branches.commands.refusal import Refused
from branches.queries.policy_text import default_text, read_policy_text
from debugger.management.database_command import DatabaseCommand


class Command(DatabaseCommand):
    help = "Check a policy (schema, inline tests), and adopt it in a workspace; problems are told by line."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", nargs="?")
        parser.add_argument("--workspace", default="main")
        parser.add_argument("--check", action="store_true", help="say what is wrong, and adopt nothing")
        parser.add_argument("--print-default", action="store_true", help="print the default policy")

    def handle(self, *_args: Any, **options: Any) -> None:
        if options["print_default"]:
            self.stdout.write(default_text(), ending="")
            return
        if not options["file"]:
            raise CommandError("file: required")
        try:
            text = Path(options["file"]).read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise CommandError(f"file: {type(error).__name__}") from None
        if options["check"]:
            self._check(text)
            return
        try:
            change = adopt_policy(workspace=make_workspace(name=options["workspace"]), text=text)
        except PolicyRefused as refused:
            raise CommandError(self._lines(refused.problems)) from None
        except Refused as refused:
            raise CommandError(str(refused)) from None
        self.stdout.write(f"{change.version} {change.digest}")

    def _check(self, text: str) -> None:
        found = read_policy_text(text)
        if found.problems:
            raise CommandError(self._lines(found.problems))
        self.stdout.write(f"{found.policy().version} {found.digest}")

    def _lines(self, problems: tuple[Any, ...]) -> str:
        return "\n".join(f"line {each.line}: {each.field or '(whole)'}: {each.rule}" for each in problems)
