"""What the server has of delegated operations: each receipt of a run is read once, however often one asks."""

import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from debugger.recorder.client import Client

MOST_RUNS: Final = 256
"""Of so many runs it is known what was read; of one that was asked for longer ago, all is read again."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt at an operation, as its receipt says it."""

    handoff: str
    sender: str
    receiver: str
    artifact: str


@dataclass(slots=True)
class _Read:
    next_seq: int = 1
    newest: dict[str, Attempt] = field(default_factory=dict)
    """By operation."""


class Delegated:
    """Asks for what is newer than what was read; safe to use from several threads."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._guard = threading.Lock()
        self._runs: OrderedDict[str, _Read] = OrderedDict()

    def newest(self, run: str, operation: str) -> Attempt | None:
        """Return the attempt delegated last, or None. Raises GateUnreachable and GateRefused."""
        with self._guard:
            read = self._runs.setdefault(run, _Read())
            self._runs.move_to_end(run)
            if len(self._runs) > MOST_RUNS:
                self._runs.popitem(last=False)
            for receipt in self._client.receipts(run, from_seq=read.next_seq):
                _learn(read, receipt)
            return read.newest.get(operation)


def _learn(read: _Read, receipt: Mapping[str, Any]) -> None:
    body = receipt["body"]
    if receipt["kind"] == "handoff" and body["event"] == "delegated":
        sender = receipt["actor"].get("name") or receipt["actor"]["id"]
        read.newest[body["operation"]] = Attempt(
            body["handoff"], sender, body["receiver"], body["expected_artifact"]
        )
    read.next_seq = int(receipt["seq"]) + 1
