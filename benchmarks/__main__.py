"""`make bench`: every number this project promises, measured here and now."""

import argparse
import shutil
from typing import Any

from benchmarks import asking, audits, forks, ingest, pages, probes, traces
from benchmarks.world import VAR, record_run, set_up

LONG, SHORT, SPANS = 100_000, 1_000, 9_920


def main() -> None:
    """Print what was measured beside what is promised; nothing fails on a number."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--receipts", type=int, default=LONG, help="receipts of the long run and of ingest")
    options = parser.parse_args()
    try:
        world = set_up()
        show(
            "Ingest over HTTP, 500 a batch (promised: ratio >= 0.20)", ingest.measure(world, options.receipts)
        )
        spans = min(options.receipts, SPANS) // traces.EXPORTED * traces.EXPORTED
        show(
            "OpenTelemetry over HTTP, 496 spans a request, beside our own receipts",
            traces.measure(world, spans),
        )
        show("Audits, by the events of the run", audits.measure(world, (SHORT, options.receipts)))
        runs = {length: record_run(world, length) for length in (SHORT, options.receipts)}
        show("Fork (promised: slowest ÷ fastest <= 1.3)", forks.measure(world, runs))
        show("Asking one place about a branch's operations, through the jobs", asking.measure(world))
        show("Probes, ms", probes.measure())
        show("Pages (promised: same queries, ratio <= 1.3, map <= 40 000 bytes)", pages.measure(world, runs))
    finally:
        shutil.rmtree(VAR, ignore_errors=True)


def show(title: str, found: dict[str, Any]) -> None:
    """Print one table."""
    print(f"\n{title}")
    for name, value in found.items():
        print(f"  {name:<48} {value:,.2f}" if isinstance(value, float) else f"  {name:<48} {value}")


if __name__ == "__main__":
    main()
