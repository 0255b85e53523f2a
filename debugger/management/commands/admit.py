"""Make a person and give them roles in a workspace."""

import getpass
from typing import Any

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.management.base import CommandError, CommandParser

from branches.commands.admit import grant_role, make_person, make_workspace
from branches.commands.change_role import checked_role
from branches.commands.refusal import Refused
from branches.models import Role
from debugger.management.database_command import DatabaseCommand


class Command(DatabaseCommand):
    help = "Make a person where absent (the password is asked for) and give them roles in a workspace."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name")
        parser.add_argument(
            "--role",
            action="append",
            required=True,
            metavar="ROLE[:SCOPE]",
            help="approver:C2, destination_owner:DESTINATION; " + ", ".join(role.value for role in Role),
        )
        parser.add_argument("--workspace", default="main")

    def handle(self, *_args: Any, **options: Any) -> None:
        workspace = make_workspace(name=options["workspace"])
        try:
            asked = [checked_role(workspace, *_split(each)) for each in options["role"]]
        except Refused as refused:
            raise CommandError(f"role: {refused}") from None
        person = make_person(username=options["name"], password=self._password)
        for each in asked:
            grant_role(person=person, workspace=workspace, role=Role(each.role), scope=each.scope)
        self.stdout.write(f"{options['name']}: {', '.join(options['role'])} in {options['workspace']}")

    def _password(self) -> str:
        password = getpass.getpass("Password: ")
        try:
            validate_password(password)
        except ValidationError as error:
            raise CommandError(" ".join(error.messages)) from None
        if getpass.getpass("Again: ") != password:
            raise CommandError("the passwords differ")
        return password


def _split(text: str) -> tuple[str, str]:
    role, _, scope = text.partition(":")
    return role, scope
