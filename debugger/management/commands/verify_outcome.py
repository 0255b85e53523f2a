"""Ask a destination for an expected outcome."""

from argparse import ArgumentParser
from collections.abc import Mapping
from typing import Any

from debugger import asking
from debugger.management.asking_command import AskingCommand


class Command(AskingCommand):
    help = (
        "Ask whether an expected outcome is there. "
        "Exit 0: verified; 1: not; 2: the destination did not say; 3: bad input."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("kind", help="which verifier")
        parser.add_argument("--target", required=True, help="its options, as a JSON object")
        parser.add_argument("--expect", required=True, help="the terms of the outcome, as a JSON object")
        parser.add_argument("--baseline", help="the version that stood there before; only a newer one counts")
        parser.add_argument(
            "--key", action="append", default=[], help="an operation key of this run; may be given again"
        )

    def said(self, given: Mapping[str, Any]) -> asking.Said:
        target = asking.target_of(given["target"])
        terms = asking.object_of(given["expect"], "expect")
        keys = frozenset(given["key"])
        return asking.verify_outcome(given["kind"], target, terms, given["baseline"], keys)
