"""Counts the blocks of the message map that a batch has completed."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.db.models import Max

from branches.models import MapBlock, Run
from branches.queries.message_map import BLOCK, FAN, BlockCounts, count, count_rows


def count_map_blocks(*, run: Run, first_seq: int, receipts: Sequence[Mapping[str, Any]]) -> None:
    """Write the counts of every block that is now full; `receipts` are the batch's, from `first_seq` on."""
    if not receipts:
        return
    last_seq = first_seq + len(receipts) - 1
    finished: dict[int, BlockCounts] = {}
    # The product's own receipts complete blocks too, and are counted with the next batch.
    counted = MapBlock.objects.filter(run=run, level=0).aggregate(Max("block"))["block__max"]
    for block in range(0 if counted is None else counted + 1, last_seq // BLOCK):
        first = block * BLOCK + 1
        if first < first_seq:
            finished[block] = count_rows(run.pk, first, first + BLOCK - 1)
        else:
            start = first - first_seq
            finished[block] = count(receipts[start : start + BLOCK])
    _write(run, 0, finished)


def _write(run: Run, level: int, finished: Mapping[int, BlockCounts]) -> None:
    """Write the blocks of one level, and those of the next that they complete."""
    if not finished:
        return
    MapBlock.objects.bulk_create(
        MapBlock(run=run, level=level, block=block, counts=counts.dump())
        for block, counts in finished.items()
    )
    above: dict[int, BlockCounts] = {}
    for block in finished:
        if block % FAN == FAN - 1:
            above[block // FAN] = _sum(run, level, block // FAN)
    _write(run, level + 1, above)


def _sum(run: Run, level: int, block: int) -> BlockCounts:
    rows = MapBlock.objects.filter(
        run=run, level=level, block__gte=block * FAN, block__lt=(block + 1) * FAN
    ).values_list("counts", flat=True)
    total = BlockCounts()
    for text in rows:
        total.merge(BlockCounts.load(text))
    return total
