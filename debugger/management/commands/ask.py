"""Ask a destination whether an operation happened there."""

from argparse import ArgumentParser
from collections.abc import Mapping
from typing import Any

from debugger import asking
from debugger.management.asking_command import AskingCommand


class Command(AskingCommand):
    help = (
        "Ask a destination about one operation by its key. "
        "Exit 0: present; 1: absent or changed; 2: unknown; 3: bad input."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("kind", help="which kind of destination")
        parser.add_argument("--target", required=True, help="its options, as a JSON object")
        parser.add_argument("--key", required=True, help="the key the operation was sent with")
        parser.add_argument("--payload", help="the digest of what was sent, to see whether it changed")
        parser.add_argument("--tool", default="", help="the tool that sent it, where options differ by tool")

    def said(self, given: Mapping[str, Any]) -> asking.Said:
        target = asking.target_of(given["target"])
        return asking.ask(given["kind"], target, given["key"], given["payload"], given["tool"])
