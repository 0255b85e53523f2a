"""Delivers the spool in the background; the agent never waits for the network."""

import json
import os
import random
import threading
import time
from pathlib import Path
from typing import Final

from debugger.recorder.client import Client, Delivery, GateRefused, GateUnreachable, RefusedLine
from debugger.recorder.spool import Batch, Spool

MAX_LINES: Final = 500
MAX_BYTES: Final = 1024 * 1024
_LONGEST_PAUSE_S: Final = 30.0
_ADOPT_EVERY_S: Final = 30.0
_GATHER_S: Final = 0.05  # lines come in bursts, and a request for each would slow the agent down
# The batch itself is at fault, not the token or the moment; anything else is tried again later.
_FAULTY: Final = frozenset({400, 413, 415, 422})


class Sender:
    """One thread that takes batches off the spool, with growing pauses while the server is away."""

    def __init__(self, spool: Spool, client: Client, refused: Path) -> None:
        self._spool = spool
        self._client = client
        self._refused = refused
        self._wake = threading.Event()
        self._hurry = threading.Event()
        self._stop = threading.Event()
        self._idle = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="branchgate-sender", daemon=True)
        self.problem: str | None = None
        """Why the last attempt failed (a class of error or a rule), or None."""

    def start(self) -> None:
        """Begin to deliver."""
        self._thread.start()

    def nudge(self) -> None:
        """Something was queued."""
        self._wake.set()

    def flush(self, timeout: float) -> bool:
        """Wait at most so many seconds until everything is answered for; returns whether it is."""
        deadline = time.monotonic() + timeout
        with self._idle:
            while self._spool.waiting and (left := deadline - time.monotonic()) > 0:
                self._hurry.set()
                self._wake.set()
                self._idle.wait(min(left, 0.2))
        return self._spool.waiting == 0

    def stop(self) -> None:
        """End after the batch that is on its way."""
        self._stop.set()
        self._hurry.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(timeout=15)

    @property
    def refused_count(self) -> int:
        """How many lines were refused so far; they are kept in a file, content-free as they are."""
        if not self._refused.exists():
            return 0
        return self._refused.read_bytes().count(b"\n")

    def _run(self) -> None:
        pause = 0.0
        adopted = time.monotonic()
        while not self._stop.is_set():
            if time.monotonic() - adopted > _ADOPT_EVERY_S:
                self._spool.adopt()
                adopted = time.monotonic()
            batch = self._spool.peek(MAX_LINES, MAX_BYTES)
            if batch is None:
                self._wake.wait(_ADOPT_EVERY_S)
                self._wake.clear()
                self._rest(_GATHER_S)
                continue
            if self._deliver(batch):
                pause = 0.0
            else:
                pause = min(_LONGEST_PAUSE_S, max(0.1, pause * 2))
                self._rest(pause * random.uniform(0.5, 1.0))  # noqa: S311 - only spreads the retries

    def _rest(self, seconds: float) -> None:
        """Wait, however much is queued meanwhile; only a flush or the end cuts it short."""
        self._hurry.wait(seconds)
        self._hurry.clear()

    def _deliver(self, batch: Batch) -> bool:
        try:
            refused = self._send(batch.lines).refused
        except (GateUnreachable, GateRefused) as error:
            self.problem = error.rule if isinstance(error, GateRefused) else str(error)
            return False
        try:
            self._keep(batch.lines, refused)
            self._spool.answered(batch)
        except OSError as error:  # sent again later: that is harmless
            self.problem = type(error).__name__
            return False
        self.problem = None
        with self._idle:
            self._idle.notify_all()
        return True

    def _send(self, lines: tuple[bytes, ...]) -> Delivery:
        """Send lines; a batch refused as a whole is halved until the faulty line is alone."""
        try:
            return self._client.deliver(lines)
        except GateRefused as error:
            if error.status not in _FAULTY:
                raise
            if len(lines) == 1:
                return Delivery(0, 0, (RefusedLine(0, error.field, error.rule),))
        middle = len(lines) // 2
        first, second = self._send(lines[:middle]), self._send(lines[middle:])
        moved = tuple(RefusedLine(each.line + middle, each.field, each.rule) for each in second.refused)
        return Delivery(
            first.accepted + second.accepted, first.duplicates + second.duplicates, first.refused + moved
        )

    def _keep(self, lines: tuple[bytes, ...], refused: tuple[RefusedLine, ...]) -> None:
        """Put refused lines aside with the field and the rule, before they leave the spool."""
        if not refused:
            return
        descriptor = os.open(self._refused, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            for each in refused:
                line = lines[each.line].decode() if 0 <= each.line < len(lines) else None
                entry = {"field": each.field, "rule": each.rule, "receipt": line}
                os.write(descriptor, json.dumps(entry, separators=(",", ":")).encode() + b"\n")
            os.fdatasync(descriptor)
        finally:
            os.close(descriptor)
