"""Checks a governance receipt without Django: `python -m branches.evidence.verify FILE --key HEX`."""

import argparse
import sys
from pathlib import Path

from branches.evidence.governance import check_governance
from branches.evidence.signing import public_key_id


def main(arguments: list[str] | None = None) -> int:
    """Print what was found; return 0 valid, 1 invalid, 2 incomplete, 3 unusable."""
    parser = argparse.ArgumentParser(prog="python -m branches.evidence.verify", description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--key", action="append", required=True, help="a public key to trust, 64 hex digits")
    parser.add_argument("--receipts", type=Path, help="the branch's own chain as NDJSON")
    options = parser.parse_args(arguments)
    try:
        public = [bytes.fromhex(text) for text in options.key]
        raw = options.file.read_bytes().strip()
        receipts = options.receipts.read_bytes().splitlines() if options.receipts else None
    except (OSError, ValueError) as error:
        print(f"unusable: {type(error).__name__}", file=sys.stderr)
        return 3
    report = check_governance(raw, {public_key_id(key): key for key in public}, receipts=receipts)
    for problem in report.problems:
        print(problem)
    word = ("valid", "invalid", "incomplete", "unusable")[int(report.exit_code)]
    print(f"{word} {report.branch}: {report.status}" if report.branch else word)
    return int(report.exit_code)


if __name__ == "__main__":
    sys.exit(main())
