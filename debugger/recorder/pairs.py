"""Which operation a hand-over that a runtime shows belongs to: the next one of its pair that is not done."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from debugger.recorder.handoffs import Delegation, Work


@dataclass(frozen=True, slots=True)
class Given:
    """An operation of a pair that was handed over: its number there, and the attempt that was made."""

    pair: str
    number: int
    work: Work
    made: Delegation

    @property
    def attempt(self) -> Delegation:
        """The attempt that is open now: a person may have decided on another one meanwhile."""
        return self.work.attempt or self.made


class Pairs:
    """Counts, for each pair of agents in a loop, the operations that were completed.

    An operation's number grows only when the one before it was completed: so a retry is the same operation,
    and work that is handed over once more after it was done is another one.
    """

    def __init__(self, done: Mapping[str, list[int]] | None = None) -> None:
        self._done: dict[str, tuple[int, frozenset[int]]] = {}
        self._busy: defaultdict[str, set[int]] = defaultdict(set)
        self.go_on(done or {})

    def go_on(self, done: Mapping[str, list[int]]) -> None:
        """Take what was completed before a checkpoint; see `done`."""
        self._done = {pair: (first, frozenset(rest)) for pair, (first, *rest) in done.items()}
        self._busy.clear()

    @property
    def done(self) -> dict[str, list[int]]:
        """What was completed, as a checkpoint keeps it: how many in a row, then the numbers beyond them."""
        return {pair: [first, *sorted(rest)] for pair, (first, rest) in self._done.items()}

    def take(self, pair: str) -> int:
        """Return the number of the operation that is handed over now.

        It belongs to whoever took it until it is left or completed.
        """
        first, rest = self._done.get(pair, (0, frozenset()))
        taken = self._busy[pair]
        number = first
        while number in rest or number in taken:
            number += 1
        self._busy[pair].add(number)
        return number

    @contextmanager
    def taking(self, pair: str) -> Iterator[int]:
        """Take a number for what is done here; where that fails, nobody has it, and the next one gets it."""
        number = self.take(pair)
        try:
            yield number
        except BaseException:
            self.leave(pair, number)
            raise

    def leave(self, pair: str, number: int) -> None:
        """Note that an operation is nobody's, and not done: the pair's next hand-over is a retry of it."""
        self._busy[pair].discard(number)

    def complete(self, pair: str, number: int) -> None:
        """Note that an operation was completed."""
        self.leave(pair, number)
        first, rest = self._done.get(pair, (0, frozenset()))
        if number < first:
            return
        left = set(rest) | {number}
        while first in left:
            left.discard(first)
            first += 1
        self._done[pair] = (first, frozenset(left))


def pair_of(*parts: Any) -> str:
    """Return the name of a pair of agents in a loop."""
    return "\0".join(str(part) for part in parts)
