"""The message map's binary: small, exact, and the same form for every run."""

import struct

from django.test import Client

from branches.queries.message_map import BlockCounts, MessageMap, message_map
from debugger.web.map_bytes import map_bytes
from tests.builders import World
from tests.web.cast import long_run


def read(body: bytes) -> tuple[int, list[str], list[list[int]], list[int]]:
    magic, receipts, columns, lanes, _ = struct.unpack_from("<4sIHBB", body)
    assert magic == b"BGM\x01"
    at, names = 12, []
    for _ in range(lanes):
        names.append(body[at + 1 : at + 1 + body[at]].decode())
        at += 1 + body[at]
    at += at % 2
    counts = [
        list(struct.unpack_from(f"<{columns}H", body, at + 2 * lane * columns)) for lane in range(lanes)
    ]
    marks = list(body[at + 2 * lanes * columns :])
    assert len(marks) == columns
    return receipts, names, counts, marks


def test_it_says_what_the_map_says(ada: Client, world: World) -> None:
    run = long_run(world, 120)
    response = ada.get(f"/runs/{run.uid}/map/")
    receipts, names, counts, marks = read(response.content)
    found = message_map(run.pk)
    assert response["Content-Type"] == "application/octet-stream"
    assert (receipts, names) == (120, ["orchestrator", "publisher"])
    assert counts == [list(lane) for lane in found.counts]
    assert sum(map(sum, counts)) == 114
    assert marks[1] == 1
    assert marks[111] == 4


def test_it_stays_small_for_a_long_run_of_many_agents() -> None:
    columns = 720
    found = MessageMap(
        receipts=100_000,
        lanes=tuple(f"agent-{'x' * 200}-{lane}" for lane in range(8)),
        columns=columns,
        counts=tuple(tuple([70_000] * columns) for _ in range(8)),
        marks=tuple([7] * columns),
        starts=tuple(range(1, columns + 1)),
        totals=BlockCounts(),
    )
    body = map_bytes(found)
    receipts, names, counts, _ = read(body)
    assert len(body) < 40_000
    assert receipts == 100_000
    assert max(map(len, names)) == 96
    assert counts[0][0] == 65_535


def test_the_columns_cover_every_receipt(world: World) -> None:
    for length in (20, 1000, 6500):
        found = message_map(long_run(world, length).pk)
        assert found.starts[0] == 1
        assert list(found.starts) == sorted(set(found.starts))
        assert sum(map(sum, found.counts)) == length - 6
        assert found.spans(4)[0][0] <= length - 8 <= found.spans(4)[0][1]
