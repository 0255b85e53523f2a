"""Hand-overs of a team that runs: what is heard of one message belongs to an operation of its pair.

A message gives work away, so each is an attempt of its own; the operation is that of its sender and its
receiver until it was completed. Control does not come back by itself: what is promised is the outcome.
"""

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

from branches.evidence.autogen_loop import Said
from branches.evidence.domains import THREAD
from debugger.recorder.handoffs import OUTCOME
from debugger.recorder.pairs import Given, Pairs, pair_of
from debugger.recorder.record import RunRecord


class Handovers:
    """Writes the receipts of one run's hand-overs."""

    def __init__(self, record: RunRecord) -> None:
        self._book = record.handoffs
        self._book.trace = record.key.digest(THREAD, record.run)
        self._pairs = Pairs()
        self._given: dict[str, Given] = {}
        """By the message that gave it: what is not done."""

    def said(self, message: Said, body: Mapping[str, Any]) -> None:
        """Record one event of what a message handed over; one that was given up says nothing more."""
        event = body["event"]
        if event == "delegated":
            self._delegate(message)
            return
        given = self._given.get(message.id)
        if given is None:
            return
        if event == "waiting":
            given.attempt.waiting(body["dependency"])
        elif event == "progress":
            given.attempt.progress()
        elif event == "accepted":
            given.attempt.accepted()
        else:
            given.attempt.completed()
            self._pairs.complete(given.pair, given.number)
            del self._given[message.id]

    def _delegate(self, message: Said) -> None:
        receiver = str(message.target)
        pair = pair_of("autogen", message.source, receiver)
        before = next((name for name, each in self._given.items() if each.pair == pair), None)
        known = None if before is None else self._given[before].number
        with self._pairs.taking(pair) if known is None else nullcontext(known) as number:
            work = self._book.operation(pair_of(pair, number), OUTCOME)
            given = Given(pair, number, work, work.delegate(receiver, by=message.source))
        if before is not None:
            del self._given[before]
        self._given[message.id] = given
