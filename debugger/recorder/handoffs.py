"""Durable hand-overs: one operation by its name, as many attempts at it as it takes, each event once.

An operation belongs to the lineage of the root run: it outlives a retry, a restart of the program and a
branch. Every event is on the disk before the call returns. A loop never says of itself that the outcome is
there: that is a verifier's word, see `verifying`.
"""

import threading
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from branches.evidence.domains import REF
from branches.evidence.ids import derive_id
from debugger.recorder.handoff_memory import HandoffMemory, Kept
from debugger.recorder.stops import in_utc

if TYPE_CHECKING:
    from debugger.recorder.record import RunRecord
    from debugger.recorder.recoveries import Recovery

APPROVAL: Final = "approval"
"""Our word for a wait for a person; a workflow that means to use it declares it among its dependencies."""


class Outcome:
    """The sort of `OUTCOME`."""

    def __repr__(self) -> str:
        return "OUTCOME"


OUTCOME: Final = Outcome()
"""Stands for the artifact of an operation that delivers the outcome which the workflow declares."""

type Artifact = str | Outcome | None


class Handoffs:
    """The operations of one run; `trace` is the keyed digest of the runtime's own id, where it has one."""

    def __init__(self, record: "RunRecord", trace: str | None = None) -> None:
        self.record = record
        self.trace = trace
        self.guard = threading.RLock()
        self._unkept: dict[str, int] = {}
        """By event: the number of a receipt that is written and that the home could not keep yet."""

    @property
    def memory(self) -> HandoffMemory:
        """What the home remembers."""
        return self.record.answers.handoffs

    def operation(self, name: str, artifact: Artifact = None) -> "Work":
        """Return an operation by its name: the same in every run of a line, whatever process asks.

        `artifact` is what it promises, by a name of its own, or OUTCOME; unless told otherwise, something
        that only this operation makes. Raises ValueError for a name that is empty.
        """
        if not name:
            raise ValueError("operation: empty")
        own = operation_digest(self.record, name)
        promised = f"operation\0{own}" if artifact is None else artifact
        return Work(self, own, artifact_digest(self.record, promised))

    def known(self, operation: str) -> "Work | None":
        """Return an operation by its digest, where an attempt at it was made in this run from this home."""
        attempts = self.memory.attempts(operation, self.record.run)
        return Work(self, operation, attempts[-1].artifact) if attempts else None

    def recoveries(self) -> list["Recovery"]:
        """Ask the server; see `recoveries.open_recoveries`."""
        from debugger.recorder.recoveries import open_recoveries

        return open_recoveries(self)

    def redeliver(self, recovery: "Recovery") -> "Delegation":
        """Carry a decision out; see `recoveries.redeliver`."""
        from debugger.recorder.recoveries import redeliver

        return redeliver(self, recovery)

    def write(
        self, attempt: Kept, event: str, agent: str | None, said: Mapping[str, str | None] | None = None
    ) -> None:
        """Write one event of an attempt, and keep it in the home. Raises OSError: then it is not written.

        Its id derives from the attempt, so that one event has one id: where only the home did not keep it,
        the next call does just that. A recording that was closed is closed again behind it: else its list
        of effects would no longer look complete.
        """
        record = self.record
        with self.guard:
            was_closed = record.is_closed
            own = derive_id("evt", record.run, attempt.handoff, event, str(attempt.events.count(event)))
            body = self._body(attempt, event, said or {})
            wait = (str(body["dependency"]), body.get("deadline")) if event == "waiting" else None
            entry = attempt.entry(event, own, root=record.root, wait=wait)
            if own not in self._unkept:
                sent = record.emit("handoff", body, agent=agent, durable=True, local=entry, event=own)
                self._unkept[own] = int(sent["writer_seq"])
            record.answers.add({**entry, "n": self._unkept[own]})
            del self._unkept[own]
            if was_closed:
                record.close()

    def _body(self, attempt: Kept, event: str, said: Mapping[str, str | None]) -> dict[str, Any]:
        body: dict[str, Any] = {
            "operation": attempt.operation,
            "handoff": attempt.handoff,
            "event": event,
            **{name: text for name, text in said.items() if text is not None},
        }
        if event == "delegated":
            body |= {"receiver": attempt.receiver, "expected_artifact": attempt.artifact}
        if self.trace is not None:
            body["trace"] = self.trace
        return body


class Work:
    """One operation: a bounded task with one expected artifact. Made by `operation` of a run."""

    def __init__(self, book: Handoffs, operation: str, artifact: str) -> None:
        self.id = operation
        """The operation's keyed digest, as the page and the server's answers name it."""
        self._book = book
        self._artifact = artifact

    @property
    def attempt(self) -> "Delegation | None":
        """The newest attempt of this run that is open, or None."""
        with self._book.guard:
            found = [each for each in self._attempts() if each.is_open]
        return Delegation(self._book, found[-1]) if found else None

    def delegate(self, receiver: str, *, by: str, recovery: str | None = None) -> "Delegation":
        """Give the operation to an agent, and return the attempt.

        One that is still open is released first: an operation has one owner at a time. Raises ValueError
        for a name that is empty, and OSError where the disk did not take it.
        """
        if not receiver or not by:
            raise ValueError("agent: empty")
        book, run = self._book, self._book.record.run
        with book.guard:
            made = self._attempts()
            for each in made:
                if each.is_open:
                    book.write(each, "released", each.sender)
            own = book.record.key.digest(REF, "\0".join(("attempt", run, self.id, str(len(made)))))
            attempt = Kept(self.id, own, run, by, receiver, self._artifact, recovery)
            book.write(attempt, "delegated", by)
            kept = book.memory.attempt(self.id, own)
        return Delegation(book, attempt if kept is None else kept)

    def _attempts(self) -> list[Kept]:
        return self._book.memory.attempts(self.id, self._book.record.run)


class Delegation:
    """One attempt at an operation; what happens to it is said here, each event once.

    Said again, an event that can happen once is the event that is written already. After the attempt was
    given up everything may still be said: late work is evidence too.
    """

    def __init__(self, book: Handoffs, kept: Kept) -> None:
        self._book = book
        self._kept = kept

    @property
    def operation(self) -> str:
        """The operation's keyed digest."""
        return self._kept.operation

    @property
    def id(self) -> str:
        """The attempt's keyed digest, new with every delegation."""
        return self._kept.handoff

    @property
    def sender(self) -> str:
        """The agent that gave the operation away."""
        return self._kept.sender

    @property
    def receiver(self) -> str:
        """The agent that it was given to."""
        return self._kept.receiver

    @property
    def is_open(self) -> bool:
        """Whether it is neither completed, rejected nor released."""
        return self._kept.is_open

    @property
    def is_accepted(self) -> bool:
        """Whether the receiver took it."""
        return self._kept.is_accepted

    @property
    def waits(self) -> bool:
        """Whether a wait is the last that was said of it."""
        return self._kept.waits

    def accepted(self) -> None:
        """The receiver took the work."""
        self._once("accepted", self.receiver)

    def progress(self) -> None:
        """The receiver got further; every call is an event of its own."""
        self._book.write(self._kept, "progress", self.receiver)

    def waiting(self, dependency: str, deadline: datetime | None = None) -> None:
        """The receiver waits for an agent, or what else the workflow declares; the same wait is one event.

        Raises ValueError for a dependency that is empty, and for a deadline without an offset.
        """
        if not dependency:
            raise ValueError("dependency: empty")
        until = in_utc(deadline)
        if deadline is not None and until is None:
            raise ValueError("deadline: no_offset")
        text = None if until is None else until.isoformat()
        kept = self._kept
        with self._book.guard:
            if kept.waits and kept.wait == (dependency, text):
                return
            self._book.write(kept, "waiting", kept.receiver, {"dependency": dependency, "deadline": text})

    def completed(self) -> None:
        """The receiver says that it is done: a claim, until somebody else finds the artifact."""
        self._once("completed", self.receiver)

    def rejected(self, reason: str | None = None) -> None:
        """The receiver does not take the work; `reason` is one of the words that the workflow declares."""
        self._once("rejected", self.receiver, reason)

    def released(self, reason: str | None = None) -> None:
        """The sender gives the attempt up."""
        self._once("released", self.sender, reason)

    def _once(self, event: str, agent: str, reason: str | None = None) -> None:
        with self._book.guard:
            if event not in self._kept.events:
                self._book.write(self._kept, event, agent, {"reason": reason})


class HandsOver:
    """What a run of every runtime offers for hand-overs that its own events do not show."""

    record: "RunRecord"

    def operation(self, name: str, artifact: Artifact = None) -> Work:
        """Return an operation of this run's line by its name; see `Handoffs.operation`."""
        return self.record.handoffs.operation(name, artifact)

    def recoveries(self) -> list["Recovery"]:
        """Return what people decided on this run's hand-overs and may still be carried out.

        Asks the server, with a token of the scope `read`. Raises GateUnreachable and GateRefused.
        """
        return self.record.handoffs.recoveries()

    def redeliver(self, recovery: "Recovery") -> Delegation:
        """Make the new attempt that was decided. Raises RecoveryRefused, GateUnreachable and GateRefused."""
        return self.record.handoffs.redeliver(recovery)


def operation_digest(record: "RunRecord", name: str) -> str:
    """Return the keyed digest of an operation by its name: it names the root, never a branch."""
    return record.key.digest(REF, f"operation\0{record.root}\0{name}")


def artifact_digest(record: "RunRecord", artifact: "str | Outcome") -> str:
    """Return the keyed digest of a promised artifact; that of the declared outcome is the one of its name."""
    if isinstance(artifact, Outcome):
        return record.key.digest(REF, record.declaration.outcome)
    return record.key.digest(REF, f"artifact\0{artifact}")
