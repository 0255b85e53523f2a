"""Ingest over HTTP, durable before the answer, against a bare executemany of the same rows."""

import hashlib
import sqlite3
import statistics
import time
from pathlib import Path
from typing import Any

import httpx

from benchmarks.server import serving
from benchmarks.world import VAR, ndjson

BATCH = 500
PAIRS = 5
_NDJSON = {"Content-Type": "application/x-ndjson"}
_INDEXES = (
    "CREATE UNIQUE INDEX a ON r (run_id, seq)",
    "CREATE UNIQUE INDEX b ON r (run_id, writer, event_id)",
    "CREATE INDEX c ON r (run_id, kind, seq)",
    "CREATE INDEX d ON r (run_id, subject, seq)",
)


def measure(world: Any, receipts: int) -> dict[str, float]:
    """Return rows per second both ways (medians of five alternating pairs) and their ratio."""
    from branches.evidence import ids
    from tests import builders

    with serving(world.token) as client:
        ours, bare = [], []
        for pair in range(PAIRS):
            uid = ids.mint("run")
            made = [builders.run_started(world, uid)]
            made += [
                builders.message(world, uid, f"m{pair}-{n}", ("publisher", "orchestrator")[n % 2])
                for n in range(receipts - 1)
            ]
            bodies = [ndjson(made[start : start + BATCH]) for start in range(0, receipts, BATCH)]
            ours.append(receipts / _send(client, bodies))
            bare.append(receipts / _bare(uid))
    ratios = [one / other for one, other in zip(ours, bare, strict=True)]
    return {
        "ours_per_s": statistics.median(ours),
        "bare_per_s": statistics.median(bare),
        "ratio": statistics.median(ratios),
    }


def _send(client: httpx.Client, bodies: list[bytes]) -> float:
    start = time.perf_counter()
    for body in bodies:
        answer = client.post("/api/v1/receipts", content=body, headers=_NDJSON)
        assert answer.status_code == 200, answer.text
    return time.perf_counter() - start


def _bare(uid: str) -> float:
    """Insert the rows that were just stored into a bare table with the same columns and indexes."""
    from branches.models import Receipt

    columns = ("run_id", "seq", "event_id", "writer", "kind", "subject", "digest", "body")
    rows = list(Receipt.objects.filter(run__uid=uid).order_by("seq").values_list(*columns))
    path = Path(VAR) / "bare.sqlite3"
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute(
        "CREATE TABLE IF NOT EXISTS r (id INTEGER PRIMARY KEY AUTOINCREMENT, run_id bigint, seq integer, "
        "event_id varchar(40), writer varchar(40), kind varchar(32), subject varchar(112), "
        "digest varchar(80), bytes text)"
    )
    for index in _INDEXES:
        connection.execute(index.replace("INDEX ", "INDEX IF NOT EXISTS "))
    sql = (
        "INSERT INTO r (run_id, seq, event_id, writer, kind, subject, digest, bytes) VALUES (?,?,?,?,?,?,?,?)"
    )
    start = time.perf_counter()
    for first in range(0, len(rows), BATCH):
        chunk = rows[first : first + BATCH]
        for row in chunk:
            hashlib.sha256(row[-1].encode()).hexdigest()
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(sql, chunk)
        connection.execute("COMMIT")
    took = time.perf_counter() - start
    connection.close()
    return took
