"""Measure one state with a probe, and compare it with what is expected."""

from argparse import ArgumentParser
from collections.abc import Mapping
from typing import Any

from debugger import asking
from debugger.management.asking_command import AskingCommand


class Command(AskingCommand):
    help = (
        "Measure a state and print its fingerprint, facts and limits. "
        "Exit 0: measured, or matched; 1: drifted or not there; 2: unreachable; 3: bad input."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="which probe")
        parser.add_argument("--target", required=True, help="its options, as a JSON object")
        parser.add_argument("--expect", help="the fingerprint it should have")

    def said(self, given: Mapping[str, Any]) -> asking.Said:
        return asking.probe(given["name"], asking.target_of(given["target"]), given["expect"])
