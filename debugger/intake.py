"""Pieces of running traces: kept for minutes in a web program's memory, so that each is read with the others.

Nothing of them is written anywhere but as receipts. A piece that came to another web program, or long ago, is
not there: what was concluded without it stands.
"""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from threading import RLock
from typing import Final

from branches.ports import SourceFile

KEPT_S: Final = 300.0
MOST_BYTES: Final = 64 * 1024 * 1024
MOST_PIECES: Final = 2_000


@dataclass(frozen=True, slots=True)
class _Piece:
    at: float
    workspace: str
    file: SourceFile
    threads: frozenset[str]


class Intake:
    """The newest pieces, oldest first."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._guard = RLock()
        self._pieces: deque[_Piece] = deque()
        self._bytes = 0

    def beside(self, workspace: str, file: SourceFile, threads: frozenset[str]) -> list[SourceFile]:
        """Keep a piece, and return every kept one that belongs together with it, itself last."""
        with self._guard:
            self._forget()
            found, known = [], set(threads)
            for piece in reversed(self._pieces):
                if piece.workspace == workspace and known & piece.threads:
                    known |= piece.threads
                    found.append(piece.file)
            self._pieces.append(_Piece(self._clock(), workspace, file, threads))
            self._bytes += len(file.content)
            self._forget()
            earlier = [
                replace(piece, label=f"earlier {number}") for number, piece in enumerate(reversed(found), 1)
            ]
            return [*earlier, file]

    def _forget(self) -> None:
        oldest = self._clock() - KEPT_S
        while self._pieces and (
            self._pieces[0].at < oldest or self._bytes > MOST_BYTES or len(self._pieces) > MOST_PIECES
        ):
            self._bytes -= len(self._pieces.popleft().file.content)


intake: Final = Intake()
