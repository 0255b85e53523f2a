"""The home's own memory: calls made, answers received, checkpoints passed; content never leaves it."""

import base64
import json
import os
import threading
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from debugger.recorder.frames import AppendLog, read
from debugger.recorder.handoff_memory import HandoffMemory

NOTHING: Final = object()
"""Stands for an answer that was not kept."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call as it was recorded: its operation, what was sent (HMAC) and what came back."""

    operation: str
    tool: str
    payload: str | None
    """None where the arguments could not be compared byte for byte."""
    run: str
    at: float
    answer: str | None = None


@dataclass(frozen=True, slots=True)
class Passed:
    """A checkpoint that was passed: its parent, how it came about, and which agents wrote which channel."""

    parent: str | None
    source: str
    writers: Mapping[str, list[str]]
    handed: Mapping[str, list[int]] = field(default_factory=dict)
    """Which operations of each pair of agents were completed by then; see `pairs`."""


class Answers:
    """One file per program in a shared folder; each program reads what the others added."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder = folder
        self.handoffs = HandoffMemory()
        self._guard = threading.RLock()
        self._offsets: dict[Path, int] = {}
        self._log: AppendLog | None = None
        self._calls: dict[str, Call] = {}
        self._own_calls: dict[tuple[str, str], Call] = {}
        self._seen: set[tuple[str, str, float]] = set()
        self._values: dict[tuple[str, str], tuple[Path, int]] = {}
        self._passed: dict[str, Passed] = {}
        self._threads: dict[str, str] = {}
        self._roots: dict[str, str] = {}
        self._counts: dict[str, int] = {}
        self._closed: dict[str, int] = {}
        self._equal: defaultdict[str, defaultdict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
        self.refresh()

    def refresh(self) -> None:
        """Read what was added since, by whichever program."""
        with self._guard:
            for path in sorted(self._folder.glob("*.log")):
                start = self._offsets.get(path, 0)
                for frame in read(path, start):
                    self._learn(json.loads(frame.payload), (path, start))
                    start = frame.end
                self._offsets[path] = start

    def add(self, entry: Mapping[str, Any]) -> None:
        """Keep an entry; it survives this program, and a power cut once `sync` was called."""
        with self._guard:
            path = self._own().path
            start = path.stat().st_size
            self._own().append(json.dumps(entry, separators=(",", ":")).encode())
            self._learn(entry, (path, start))

    def restore(self, raw: bytes) -> None:
        """Keep an entry that came back with a segment of a program that died, unless it is known."""
        entry = json.loads(raw)
        if entry.get("t") != "call" or (entry["op"], entry["run"], entry["at"]) not in self._seen:
            self.add(entry)

    def sync(self) -> None:
        """Return when the disk has everything this program added."""
        with self._guard:
            if self._log is not None:
                self._log.sync()

    def close(self) -> None:
        """Let go of the file."""
        with self._guard:
            if self._log is not None:
                self._log.close()
                self._log = None

    def call(self, operation: str, run: str | None = None) -> Call | None:
        """Return the newest call of an operation, by any run or by one."""
        with self._guard:
            return self._calls.get(operation) if run is None else self._own_calls.get((operation, run))

    def value(self, operation: str, payload: str | None) -> Any:
        """Return the answer that was recorded for an operation with this payload, or NOTHING."""
        with self._guard:
            place = self._values.get((operation, payload or ""))
        if place is None:
            return NOTHING
        path, start = place
        frame = next(read(path, start), None)
        return NOTHING if frame is None else decode(json.loads(frame.payload)["value"])

    def has_value(self, operation: str, payload: str | None) -> bool:
        """Whether an answer of the operation with this payload was kept."""
        with self._guard:
            return (operation, payload or "") in self._values

    def passed(self, checkpoint: str) -> Passed | None:
        """Return what is known of a checkpoint (by its own id in the runtime)."""
        with self._guard:
            return self._passed.get(checkpoint)

    def thread_of(self, run: str) -> str | None:
        """Return the runtime's thread of a run recorded here."""
        with self._guard:
            return self._threads.get(run)

    def root_of(self, run: str) -> str | None:
        """Return the root of a run recorded here, or None for a run that this home does not know."""
        with self._guard:
            return self._roots.get(run)

    def count_of(self, run: str) -> int:
        """Return the highest number of a run's receipts that this home knows of, from 1; 0 for none."""
        with self._guard:
            return self._counts.get(run, 0)

    def closed_at(self, run: str) -> int | None:
        """Return the number of the receipt that closed a run's recording last, or None."""
        with self._guard:
            return self._closed.get(run)

    def equal_calls_before(self, base: str, checkpoint: str) -> int:
        """Count equal calls made from the ancestors of a checkpoint.

        Only ancestors whose child on this line came from `loop` count: the `update` child of an edit
        starts the same step again, and would count the parent's own call.
        """
        with self._guard:
            by_checkpoint = self._equal.get(base)
            if not by_checkpoint:
                return 0
            count, current, walked = 0, checkpoint, {checkpoint}
            while (known := self._passed.get(current)) and known.parent and known.parent not in walked:
                if known.source == "loop":
                    count += len(by_checkpoint.get(known.parent, ()))
                current = known.parent
                walked.add(current)
            return count

    def _own(self) -> AppendLog:
        if self._log is None:
            self._log = AppendLog(self._folder / f"{time.time_ns():020d}-{os.getpid()}.log")
        return self._log

    def _learn(self, entry: Mapping[str, Any], place: tuple[Path, int]) -> None:
        self._offsets[place[0]] = place[1]
        kind = entry["t"]
        if (number := entry.get("n")) is not None:
            self._counts[entry["run"]] = max(number, self._counts.get(entry["run"], 0))
        if kind == "call":
            self._learn_call(entry)
        elif kind == "answer":
            self._learn_answer(entry, place)
        elif kind == "passed":
            self._passed[entry["id"]] = Passed(
                entry["parent"], entry["source"], entry["writers"], entry.get("handed", {})
            )
        elif kind == "run":
            self._threads[entry["run"]] = entry["thread"]
            self._roots[entry["run"]] = entry.get("root", entry["run"])
        elif kind == "handoff":
            self.handoffs.learn(entry)
        elif kind == "closed":
            self._closed[entry["run"]] = max(entry.get("n", 0), self._closed.get(entry["run"], 0))

    def _learn_call(self, entry: Mapping[str, Any]) -> None:
        call = Call(entry["op"], entry["tool"], entry["payload"], entry["run"], entry["at"])
        self._seen.add((call.operation, call.run, call.at))
        self._calls[call.operation] = self._own_calls[call.operation, call.run] = call
        if entry["checkpoint"] is not None:
            self._equal[entry["base"]][entry["checkpoint"]].add(call.operation.partition("+")[0])

    def _learn_answer(self, entry: Mapping[str, Any], place: tuple[Path, int]) -> None:
        operation, run = entry["op"], entry["run"]
        call = self._own_calls.get((operation, run))
        if call is not None:
            answered = replace(call, answer=entry["answer"])
            self._own_calls[operation, run] = answered
            if self._calls[operation].run == run:
                self._calls[operation] = answered
            if entry.get("value") is not None and call.payload is not None:
                self._values[operation, call.payload] = place


def encode(value: Any) -> dict[str, Any] | None:
    """Return a tool's answer in a form that can be kept, or None where it cannot be brought back equal."""
    try:
        text = json.dumps(value, allow_nan=False)
        if type(value) is type(json.loads(text)) and json.loads(text) == value:
            return {"json": value}
    except (TypeError, ValueError, RecursionError):
        pass
    try:
        from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

        kind, raw = JsonPlusSerializer().dumps_typed(value)
    except Exception:  # noqa: BLE001 - whatever a foreign object does, the call itself was good
        return None
    return {"typed": [kind, base64.b64encode(raw).decode("ascii")]}


def decode(kept: Mapping[str, Any]) -> Any:
    """Return what `encode` was given."""
    if "json" in kept:
        return kept["json"]
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

    kind, raw = kept["typed"]
    return JsonPlusSerializer().loads_typed((kind, base64.b64decode(raw)))
