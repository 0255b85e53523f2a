"""What pages cost at 100 000 receipts against 1 000: queries, server time, bytes of the map."""

import statistics
import time
from typing import Any

ROUNDS = 30


def measure(world: Any, runs: dict[int, Any]) -> dict[str, Any]:
    """Return queries and time ratios of the branch page and a timeline window, and the map's size."""
    from django.test import Client

    from branches.commands.fork_branch import fork_branch
    from branches.models import Receipt

    client = Client(headers={"Host": "127.0.0.1", "HX-Request": "true"})
    client.force_login(world.ada)
    paths: dict[str, dict[int, str]] = {"branch page": {}, "timeline window": {}, "run page": {}}
    for length, run in runs.items():
        rows = Receipt.objects.filter(run=run, kind="checkpoint").order_by("-seq")
        newest = str(rows.values_list("subject", flat=True)[3])
        branch = fork_branch(
            person=world.ada, parent=run, checkpoint=newest, reason_code="experiment", edit_class="other"
        )
        paths["branch page"][length] = f"/branches/{branch.uid}/"
        paths["timeline window"][length] = f"/runs/{run.uid}/window/?at={length // 2}"
        paths["run page"][length] = f"/runs/{run.uid}/?at={length // 2}"
    found: dict[str, Any] = {}
    for name, by_length in paths.items():
        queries = {length: _queries(client, path) for length, path in by_length.items()}
        times = _times(client, by_length)
        short, long = min(runs), max(runs)
        found[f"{name}: queries at {short:,} and {long:,}"] = (queries[short], queries[long])
        found[f"{name}: server time ratio"] = times[long] / times[short]
        found[f"{name}: ms at {long:,}"] = times[long] * 1000
    long_run = runs[max(runs)]
    found["map bytes"] = len(client.get(f"/runs/{long_run.uid}/map/").content)
    return found


def _queries(client: Any, path: str) -> int:
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    with CaptureQueriesContext(connection) as captured:
        answer = client.get(path)
    assert answer.status_code == 200, (path, answer.status_code)
    return len(captured)


def _times(client: Any, by_length: dict[int, str]) -> dict[int, float]:
    times: dict[int, list[float]] = {length: [] for length in by_length}
    for _ in range(ROUNDS):
        for length, path in by_length.items():
            start = time.perf_counter()
            client.get(path)
            times[length].append(time.perf_counter() - start)
    return {length: statistics.median(taken) for length, taken in times.items()}
