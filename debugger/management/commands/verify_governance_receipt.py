"""Check a governance receipt offline, against pinned keys: it needs no database."""

import sys
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from branches.evidence.governance import check_governance
from branches.evidence.signing import public_key_id
from branches.queries.secrets import signer


class Command(BaseCommand):
    help = "Check a governance receipt: exit 0 valid, 1 invalid, 2 incomplete, 3 unusable."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", nargs="?")
        parser.add_argument("--show-key", action="store_true", help="print this server's public key and exit")
        parser.add_argument(
            "--key", action="append", default=[], help="a public key to pin, 64 hex digits; ours without it"
        )
        parser.add_argument("--receipts", help="the branch's own chain as NDJSON, to compare with the head")

    def handle(self, *_args: Any, **options: Any) -> None:
        if options["show_key"]:
            self.stdout.write(signer().public_bytes.hex())
            return
        if not options["file"]:
            raise CommandError("file: required", returncode=3)
        try:
            raw = Path(options["file"]).read_bytes().strip()
            receipts = Path(options["receipts"]).read_bytes().splitlines() if options["receipts"] else None
        except OSError as error:
            raise CommandError(f"file: {error.strerror}", returncode=3) from None
        report = check_governance(raw, _keys(options["key"]), receipts=receipts)
        for problem in report.problems:
            self.stdout.write(problem)
        word = {0: "valid", 1: "invalid", 2: "incomplete", 3: "unusable"}[int(report.exit_code)]
        about = f" {report.branch}: {report.status}" if report.branch else ""
        self.stdout.write(f"{word}{about}")
        if report.exit_code:
            sys.exit(int(report.exit_code))


def _keys(given: list[str]) -> dict[str, bytes]:
    if not given:
        return {signer().key_id: signer().public_bytes}
    try:
        public = [bytes.fromhex(text) for text in given]
    except ValueError:
        raise CommandError("key: hexadecimal", returncode=3) from None
    return {public_key_id(key): key for key in public}
