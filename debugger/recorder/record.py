"""The receipts of one run as this recorder writes them: numbered, covered, spooled."""

import json
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

from branches.evidence.canonical import canonical_bytes
from branches.evidence.domains import CHECKPOINT
from branches.evidence.ids import derive_id, mint
from branches.evidence.keys import HmacKey
from debugger.recorder.answers import Answers
from debugger.recorder.gates import Hold, Ruling
from debugger.recorder.handoffs import Handoffs
from debugger.recorder.names import Declaration
from debugger.recorder.operations import Identified, Place

if TYPE_CHECKING:
    from debugger.recorder import Recorder


class Gate(Protocol):
    """Rules on the calls of a run."""

    def rule(self, call: Identified, operation_key: str) -> Ruling:
        """Say what becomes of a call."""
        ...


def now_text() -> str:
    """Return the time as receipts carry it."""
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


class RunRecord:
    """Numbers a run's receipts from 1 without gaps; safe to use from the runtime's worker threads.

    A branch gives its attempt: then event ids derive from it, so that what is written twice is the same.
    """

    def __init__(
        self,
        recorder: "Recorder",
        *,
        run: str,
        root: str,
        declaration: Declaration,
        gate: Gate,
        attempt: str | None = None,
        contract_version: str | None = None,
    ) -> None:
        self.recorder = recorder
        self.run = run
        self.root = root
        self.declaration = declaration
        self.gate = gate
        self.contract_version = contract_version
        """What every edge names; None on a branch, which goes by its root's contract."""
        self._attempt = attempt
        self._guard = threading.RLock()
        self._count = 0
        self._closed_at: int | None = None
        self._indexes: dict[tuple[Any, ...], int] = {}
        self._failed: dict[str, BaseException] = {}
        self._step_tools: list[str] = []
        self.progress_count = 0
        self.held: str | None = None
        self.handoffs = Handoffs(self)

    @property
    def key(self) -> HmacKey:
        """The workspace's key."""
        return self.recorder.identity.key

    @property
    def answers(self) -> Answers:
        """The home's memory."""
        return self.recorder.answers

    @property
    def count(self) -> int:
        """How many receipts were written."""
        return self._count

    @property
    def is_closed(self) -> bool:
        """Whether the newest receipt is the one that closes the recording."""
        return self._count > 0 and self._closed_at == self._count

    def go_on(self) -> None:
        """Go on numbering where another program of this home left off, as far as the home knows.

        What it does not know of leaves the closed recording short of a receipt, so that it is not complete.
        """
        self._count, self._closed_at = self.answers.count_of(self.run), self.answers.closed_at(self.run)

    def close(self) -> None:
        """Write the receipt that says how many there are; what comes behind it has to be counted again."""
        entry = {"t": "closed", "run": self.run, "root": self.root}
        with self._guard:
            body = {"count": self._count + 1}
            sent = self.emit("recording_closed", body, durable=True, local=entry)
            self._closed_at = int(sent["writer_seq"])
        self.answers.add({**entry, "n": self._closed_at})

    def emit(
        self,
        kind: str,
        body: Mapping[str, Any],
        *,
        agent: str | None = None,
        durable: bool = False,
        local: Mapping[str, Any] | None = None,
        event: str | None = None,
    ) -> dict[str, Any]:
        """Write a receipt to the spool and return it. Raises OSError (then it has no number) or ProfileError.

        `event` is the id of one that has an identity of its own. What is kept beside it gets its number.
        """
        with self._guard:
            receipt = self.draft(kind, body, agent=agent, event=event)
            beside = None if local is None else {**local, "n": receipt["writer_seq"]}
            self.write(receipt, durable=durable, local=beside)
        return receipt

    def draft(
        self, kind: str, body: Mapping[str, Any], *, agent: str | None = None, event: str | None = None
    ) -> dict[str, Any]:
        """Return the receipt that would be written next."""
        number = self._count + 1
        if event is None:
            event = mint("evt") if self._attempt is None else derive_id("evt", self._attempt, str(number))
        actor = {"type": "recorder", "id": self.recorder.identity.recorder}
        receipt = {
            "v": 1,
            "event_id": event,
            "run": self.run,
            "kind": kind,
            "at": now_text(),
            "actor": actor if agent is None else {"type": "agent", "name": agent},
            "writer_seq": number,
            "body": dict(body),
        }
        return self.declaration.cover(receipt, self.key)

    def write(
        self, receipt: Mapping[str, Any], *, durable: bool = False, local: Mapping[str, Any] | None = None
    ) -> None:
        """Spool a drafted receipt (perhaps again: its event id makes that harmless)."""
        with self._guard:
            beside = b"" if local is None else _local_line(local)
            self.recorder.spool.append(canonical_bytes(dict(receipt)), local=beside, durable=durable)
            self._count = max(self._count, int(receipt["writer_seq"]))
        self.recorder.sender.nudge()

    def checkpoint_ref(self, checkpoint: str | None) -> str | None:
        """Return a checkpoint's own id as HMAC."""
        return None if checkpoint is None else self.key.digest(CHECKPOINT, checkpoint)

    def ordinal(self, base: str, place: Place | None) -> int:
        """Return the how-manieth equal call this is on its line of checkpoints, from 0."""
        execution = None if place is None else place.execution
        with self._guard:
            index = self._indexes.get((base, execution), 0)
            self._indexes[base, execution] = index + 1
        return index if place is None else self.answers.equal_calls_before(base, place.checkpoint) + index

    def hold(self, operation_key: str, payload: str) -> None:
        """Record that a call waits for a person; from now on this run does nothing more."""
        self.held = operation_key
        body = {"operation_key": operation_key, "payload": payload, "decision": None}
        self.emit("effect_held", body, durable=True)

    def refuse_when_halted(self) -> None:
        """Raise Hold for a run that goes on although a call of it was held."""
        if self.held is not None:
            raise Hold(self.held)

    def progress(self, measure: str) -> None:
        """Record useful movement, when the workflow counts this measure."""
        if measure in self.declaration.progress:
            self.progress_count += 1
            self.emit("progress", {"measure": measure})

    def tool_returned(self, tool: str, *, useful: bool) -> None:
        """Note that a tool gave an answer."""
        with self._guard:
            self._failed.pop(tool, None)
            self._step_tools.append(tool)
        if useful:
            self.progress("tool_result")

    def tool_failed(self, tool: str, error: BaseException) -> None:
        """Note that a tool raised."""
        with self._guard:
            self._failed[tool] = error
            self._step_tools.append(tool)

    def take_step_tools(self) -> list[str]:
        """Return the tools called since this was asked last; no execution goes on beyond a step."""
        with self._guard:
            tools, self._step_tools = self._step_tools, []
            self._indexes = {name: index for name, index in self._indexes.items() if name[1] is None}
        return tools

    def failures(self) -> dict[str, BaseException]:
        """Return the tools whose last call failed, with what they raised."""
        with self._guard:
            return dict(self._failed)


def _local_line(entry: Mapping[str, Any]) -> bytes:
    """Return a local entry as one line of JSON; it is never sent."""
    return json.dumps(entry, separators=(",", ":")).encode()
