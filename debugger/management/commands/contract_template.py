"""Print the topology contract of a coordination pattern, to be adapted and declared by a workflow."""

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from debugger import contracts


class Command(BaseCommand):
    help = "Print a pattern's contract as JSON; without a name, the patterns there are."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", nargs="?", choices=contracts.names())

    def handle(self, *_args: Any, name: str | None, **_options: Any) -> None:
        if name is None:
            for each in contracts.names():
                self.stdout.write(f"{each}: {contracts.template(each)['about']}")
            return
        self.stdout.write(json.dumps(contracts.contract(name), indent=2))
