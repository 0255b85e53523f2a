"""What a home remembers of hand-overs: every attempt, so that a program that starts again goes on with it."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

_ENDS: Final = frozenset({"completed", "rejected", "released"})
OUTCOMES: Final = frozenset({"outcome_verified", "outcome_failed"})


@dataclass(slots=True)
class Kept:
    """One attempt: who gave an operation to whom, and which of its events are written."""

    operation: str
    handoff: str
    run: str
    sender: str
    receiver: str
    artifact: str
    recovery: str | None = None
    """The decision that it carries out, or None where nobody decided it."""
    events: list[str] = field(default_factory=list)
    wait: tuple[str, str | None] | None = None
    """What its newest wait is for, and until when."""
    ids: set[str] = field(default_factory=set)

    @property
    def is_open(self) -> bool:
        """Whether it was given away, and neither finished, rejected nor given up."""
        return "delegated" in self.events and not _ENDS & set(self.events)

    @property
    def is_accepted(self) -> bool:
        """Whether its receiver took it."""
        return "accepted" in self.events

    @property
    def waits(self) -> bool:
        """Whether a wait is the last that is known of it."""
        return bool(self.events) and self.events[-1] == "waiting"

    def entry(
        self, event: str, own: str, *, root: str, wait: tuple[str, str | None] | None = None
    ) -> dict[str, Any]:
        """Return the line that a home keeps of one more event; `own` is the receipt's id.

        `wait`: what one that waits is for, and until when; it is the newest wait once the line is learned.
        """
        newest = self.wait if wait is None else wait
        return {
            "t": "handoff",
            "id": own,
            "run": self.run,
            "root": root,
            "op": self.operation,
            "handoff": self.handoff,
            "event": event,
            "by": self.sender,
            "to": self.receiver,
            "artifact": self.artifact,
            "recovery": self.recovery,
            "wait": None if newest is None else list(newest),
        }


class HandoffMemory:
    """The attempts of every operation, in the order in which they were made."""

    def __init__(self) -> None:
        self._attempts: defaultdict[str, dict[str, Kept]] = defaultdict(dict)

    def learn(self, entry: Mapping[str, Any]) -> None:
        """Take one line; the same line again changes nothing."""
        of_operation = self._attempts[entry["op"]]
        kept = of_operation.get(entry["handoff"])
        if kept is None:
            kept = of_operation[entry["handoff"]] = Kept(
                entry["op"],
                entry["handoff"],
                entry["run"],
                entry["by"],
                entry["to"],
                entry["artifact"],
                entry["recovery"],
            )
        if entry["id"] in kept.ids:
            return
        kept.ids.add(entry["id"])
        kept.events.append(entry["event"])
        if entry["event"] == "waiting":
            dependency, deadline = entry["wait"]
            kept.wait = (dependency, deadline)

    def attempts(self, operation: str, run: str) -> list[Kept]:
        """Return the attempts at an operation in one run, the oldest first."""
        return [each for each in self._attempts.get(operation, {}).values() if each.run == run]

    def attempt(self, operation: str, handoff: str) -> Kept | None:
        """Return one attempt."""
        return self._attempts.get(operation, {}).get(handoff)
