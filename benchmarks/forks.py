"""What a fork costs, by where in the run its checkpoint lies and how long the run is."""

import statistics
import time
from typing import Any

ROUNDS = 25


def measure(world: Any, runs: dict[int, Any]) -> dict[str, float]:
    """Return the median time of a fork at 1 %, 50 % and 99 % of each run, and slowest ÷ fastest."""
    places = {
        (length, percent): _checkpoint(run, percent)
        for length, run in runs.items()
        for percent in (1, 50, 99)
    }
    times: dict[tuple[int, int], list[float]] = {place: [] for place in places}
    for _ in range(ROUNDS):
        for place, checkpoint in places.items():
            times[place].append(_fork(world, runs[place[0]], checkpoint))
    medians = {
        f"{length} at {percent} %": statistics.median(times[length, percent]) for length, percent in times
    }
    return {
        **{f"{name}, ms": value * 1000 for name, value in medians.items()},
        "slowest ÷ fastest": max(medians.values()) / min(medians.values()),
    }


def _checkpoint(run: Any, percent: int) -> str:
    from branches.models import Receipt

    rows = list(
        Receipt.objects.filter(run=run, kind="checkpoint").order_by("seq").values_list("seq", "subject")
    )
    last = Receipt.objects.filter(run=run).order_by("-seq").values_list("seq", flat=True)[0]
    return str(min(rows, key=lambda row: abs(row[0] - last * percent / 100))[1])


def _fork(world: Any, run: Any, checkpoint: str) -> float:
    from branches.commands.fork_branch import fork_branch

    start = time.perf_counter()
    fork_branch(
        person=world.ada, parent=run, checkpoint=checkpoint, reason_code="experiment", edit_class="other"
    )
    return time.perf_counter() - start
