"""The message map: who sent how much where along a run, in blocks that are counted once at ingest."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from branches.models import MapBlock, Receipt
from branches.queries.chains import head

BLOCK: Final = 32
FAN: Final = 8
OTHER: Final = "other"
MAX_COLUMNS: Final = 720
MAX_LANES: Final = 8
_MAX_BLOCKS: Final = 4096
# Up to here every receipt is read by itself, so that a short run does not look coarse.
_READ_ALONE: Final = 6000


@dataclass(slots=True)
class BlockCounts:
    """Messages per sender, and how many checkpoints, external effects and failures lie in a block."""

    senders: Counter[str] = field(default_factory=Counter)
    checkpoints: int = 0
    effects: int = 0
    failures: int = 0

    def add(self, receipt: Mapping[str, Any]) -> None:
        kind, body = receipt["kind"], receipt["body"]
        if kind == "message":
            self.senders[body["sender"] or OTHER] += 1
        elif kind == "checkpoint":
            self.checkpoints += 1
        elif kind == "effect_intended" and body["effect_class"] != "read":
            self.effects += 1
        elif is_failure(kind, body):
            self.failures += 1

    def merge(self, other: "BlockCounts") -> None:
        self.senders.update(other.senders)
        self.checkpoints += other.checkpoints
        self.effects += other.effects
        self.failures += other.failures

    def dump(self) -> str:
        return json.dumps(
            [self.senders, self.checkpoints, self.effects, self.failures], separators=(",", ":")
        )

    @classmethod
    def load(cls, text: str) -> "BlockCounts":
        senders, checkpoints, effects, failures = json.loads(text)
        return cls(Counter(senders), checkpoints, effects, failures)


def is_failure(kind: str, body: Mapping[str, Any]) -> bool:
    """Return whether a receipt marks where a run went wrong."""
    if kind == "effect_answered":
        return body["answer"] in {"refused", "failed", "no_answer"}
    return kind == "stopped" and (
        body["tool_failed"] or body["stop_cause"] in {"tool_error", "provider_error"}
    )


def count(receipts: Iterable[Mapping[str, Any]]) -> BlockCounts:
    """Count parsed receipts."""
    counts = BlockCounts()
    for receipt in receipts:
        counts.add(receipt)
    return counts


def count_rows(run_id: int, first: int, last: int) -> BlockCounts:
    """Count a short stretch of a run from its receipts."""
    rows = Receipt.objects.filter(run_id=run_id, seq__gte=first, seq__lte=last).values_list("body", flat=True)
    return count(map(json.loads, rows))


@dataclass(frozen=True, slots=True)
class MessageMap:
    """Counts per column and lane, with a mask of marks per column (1 checkpoint, 2 effect, 4 failure).

    `starts` are the first seqs of the columns.
    """

    receipts: int
    lanes: tuple[str, ...]
    columns: int
    counts: tuple[tuple[int, ...], ...]
    marks: tuple[int, ...]
    starts: tuple[int, ...]
    totals: BlockCounts

    def spans(self, mark: int) -> list[tuple[int, int]]:
        """Return the first and last seq of every column that holds a mark."""
        ends = (*(start - 1 for start in self.starts[1:]), self.receipts)
        return [
            (start, end)
            for start, end, mask in zip(self.starts, ends, self.marks, strict=True)
            if mask & mark
        ]


def message_map(run_id: int) -> MessageMap:
    """Return the map of a run; reads at most a few thousand small rows, however long the run."""
    receipts, digest = head(run_id)
    return _map_at(run_id, receipts, digest)


@lru_cache(maxsize=64)
def _map_at(run_id: int, receipts: int, digest: str | None) -> MessageMap:  # noqa: ARG001 - part of the key
    """Return the map of a run up to one head: a chain with this head never looks different."""
    blocks, size = _blocks(run_id, receipts)
    columns = max(1, min(MAX_COLUMNS, len(blocks)))
    per_column = [BlockCounts() for _ in range(columns)]
    for index, block in enumerate(blocks):
        per_column[index * columns // max(1, len(blocks))].merge(block)
    starts = tuple(-(-column * len(blocks) // columns) * size + 1 for column in range(columns))
    totals = BlockCounts()
    for column in per_column:
        totals.merge(column)
    lanes = lanes_of(totals.senders)
    known = {name: lane for lane, name in enumerate(lanes)}
    rest = len(lanes) - 1
    table = [[0] * columns for _ in lanes]
    for index, column in enumerate(per_column):
        for sender, number in column.senders.items():
            table[known.get(sender, rest)][index] += number
    marks = tuple(
        (1 if column.checkpoints else 0) | (2 if column.effects else 0) | (4 if column.failures else 0)
        for column in per_column
    )
    return MessageMap(receipts, lanes, columns, tuple(map(tuple, table)), marks, starts, totals)


def lanes_of(senders: Mapping[str, int]) -> tuple[str, ...]:
    """Return at most eight lanes by how much was sent; the rest share the last one."""
    names = [name for name, _ in sorted(senders.items(), key=lambda item: (-item[1], item[0]))]
    if len(names) <= MAX_LANES:
        return tuple(sorted(names)) or (OTHER,)
    return (*sorted(names[: MAX_LANES - 1]), OTHER)


def _blocks(run_id: int, receipts: int) -> tuple[list[BlockCounts], int]:
    """Return the blocks of the finest level that is not too long, and how many receipts each holds.

    Always two queries, so that a page costs the same number of them at any length.
    """
    level, width = 0, BLOCK
    while receipts // width > _MAX_BLOCKS:
        level, width = level + 1, width * FAN
    found = MapBlock.objects.filter(run_id=run_id, level=level).order_by("block")
    blocks = [BlockCounts.load(text) for text in found.values_list("counts", flat=True)]
    if receipts <= _READ_ALONE:
        rows = Receipt.objects.filter(run_id=run_id).order_by("seq").values_list("body", flat=True)
        return [count([json.loads(text)]) for text in rows], 1
    tail = count_rows(run_id, len(blocks) * width + 1, receipts)
    return [*blocks, tail], width
