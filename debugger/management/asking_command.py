"""One object out and an exit that scripts can use: the frame of the three asking commands."""

import json
import sys
from collections.abc import Mapping
from typing import Any, NoReturn

from django.core.management.base import BaseCommand, CommandParser

from debugger.asking import BadInput, Exit, Said


class AskingCommand(BaseCommand):
    """Prints what was said as one JSON object and ends with its exit; bad input is said by field and rule."""

    requires_system_checks: list[str] = []

    def said(self, given: Mapping[str, Any]) -> Said:
        """Ask; raises BadInput."""
        raise NotImplementedError

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        """Return a parser for which a missing argument is bad input, not an unknown answer."""
        parser = super().create_parser(prog_name, subcommand, **kwargs)
        parser.error = self._refuse  # type: ignore[method-assign]
        return parser

    def handle(self, *_args: Any, **options: Any) -> None:
        try:
            said = self.said(options)
        except BadInput as error:
            self._refuse(str(error))
        self.stdout.write(json.dumps(said.out))
        if said.exit is not Exit.YES:
            sys.exit(said.exit)

    def _refuse(self, message: str) -> NoReturn:
        if message.startswith("unrecognized arguments"):
            message = "arguments: unrecognized"  # the parser would repeat them
        self.stdout.write(json.dumps({"error": message}))
        sys.exit(Exit.BAD_INPUT)
