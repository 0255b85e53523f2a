"""Print the verdict of one of the four classifiers for every line of a JSON Lines file."""

import contextlib
import json
import os
import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from django.core.management.base import BaseCommand, CommandError

from branches.rules import Kind, classify_lines

ALL_JUDGED, SOME_IN_ERROR, UNREADABLE = 0, 1, 2
READER_GONE = 141  # what a shell reports for a program that SIGPIPE ended


class Command(BaseCommand):
    help = (
        "Classify JSON Lines, one verdict or error a line. "
        "Exit 0: every line got a verdict; 1: some line is in error; 2: the file could not be read."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("kind", choices=[str(kind) for kind in Kind], help="which classifier")
        parser.add_argument("file", help="a JSON Lines file, or - for standard input")

    def handle(self, *_args: Any, kind: str, file: str, **_options: Any) -> None:
        try:
            status = self._print_verdicts(kind, file)
        except BrokenPipeError:
            # Whoever read our output has seen enough; Python must not try to flush the rest at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            status = READER_GONE
        if status != ALL_JUDGED:
            sys.exit(status)

    def _print_verdicts(self, kind: str, file: str) -> int:
        status = ALL_JUDGED
        for verdict in classify_lines(kind, _read_lines(file)):
            if "error" in verdict:
                status = SOME_IN_ERROR
            self.stdout.write(json.dumps(verdict))
            self.stdout.flush()
        return status


def _read_lines(file: str) -> Iterator[bytes]:
    """Lines as they arrive, cut at line feeds alone; CommandError (exit code 2) when they cannot be read."""
    try:
        with _open(file) as lines:
            yield from lines
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not a readable file"
        raise CommandError(f"The file could not be read: {reason}", returncode=UNREADABLE) from None


def _open(file: str) -> contextlib.AbstractContextManager[BinaryIO]:
    if file != "-":
        return Path(file).open("rb")
    if sys.stdin is None:
        raise ValueError("standard input is closed")
    return contextlib.nullcontext(sys.stdin.buffer)
