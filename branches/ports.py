"""What a plug-in must offer: runtimes, state probes, destination queries and outcome verifiers."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Protocol, runtime_checkable

from branches.evidence.keys import HmacKey

type JsonValue = bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None
type Fact = int | bool | str


class Unsupported(Exception):
    """The plug-in cannot do this at all; the page says so and offers the remedy."""


@dataclass(frozen=True, slots=True)
class Target:
    """A place a plug-in may touch, from the operator's targets file; its options are never recorded."""

    name: str
    options: Mapping[str, JsonValue]
    key: HmacKey

    def text(self, option: str) -> str:
        """Return a required option as text; raises KeyError with the option's name only."""
        value = self.options[option]
        if not isinstance(value, str):
            raise KeyError(option)
        return value


@dataclass(frozen=True, slots=True)
class Moment:
    """The checkpoint a measurement is about; foreign ids are HMACs under the workspace's key."""

    external_ref: str | None
    checkpoint: str | None
    at: datetime
    run: str | None = None
    """Our own id of the run or branch that it is measured for, where there is one."""


@dataclass(frozen=True, slots=True)
class StateMeasurement:
    """What a probe saw: a labelled digest and coarse facts, or a short code of what stood in the way.

    `unfit` names the option of a target that is wrong and the rule it breaks, for whoever wrote it.
    `parts` maps the HMAC of a part's name (a tool, a channel, a file) to its digest, so that what drifted
    can be told without saying what it is. A probe that cannot divide its subject gives none.
    """

    fingerprint: str | None
    facts: dict[str, Fact] = field(default_factory=dict)
    reachable: bool = True
    problem: str | None = None
    parts: dict[str, str] = field(default_factory=dict)
    unfit: str | None = field(default=None, compare=False)


@runtime_checkable
class StateProbe(Protocol):
    """Measures one state key without keeping its content.

    A probe whose value a recorder can show to people sets `shows_content = True`. One whose parts have names
    that are no content lists them in `part_names`, so that the page can say which of them drifted. One whose
    drift no person may ever accept sets `acknowledgeable = False`: a workflow that allows it is refused.
    """

    limits: str
    """One plain sentence: what a restore of this key does not cover."""
    remedy: str
    """One plain sentence: what a person does when it drifted."""

    def measure(self, target: Target, moment: Moment) -> StateMeasurement:
        """Return the state as it is now (for stored state: that of the moment, hashed again now)."""
        ...

    def capture(self, target: Target, moment: Moment) -> StateMeasurement:
        """Return the state as it was at the moment; raises Unsupported where nothing kept it."""
        ...


class Answer(StrEnum):
    """What a destination says of one operation; silence and errors are `unknown`, never `absent`."""

    PRESENT = "present"
    ABSENT = "absent"
    CHANGED = "changed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Question:
    """One operation a destination is asked about, by its stable key."""

    operation_key: str
    tool: str
    payload: str | None


@dataclass(frozen=True, slots=True)
class DestinationAnswer:
    """The answer with the destination's own fingerprint (labelled digest), version and reference."""

    answer: Answer
    fingerprint: str | None = None
    version: str | None = None
    ref: str | None = None
    problem: str | None = None
    unfit: str | None = field(default=None, compare=False)


@runtime_checkable
class DestinationQuery(Protocol):
    """Asks a destination whether an operation really happened there."""

    def ask(self, target: Target, question: Question) -> DestinationAnswer:
        """Return what the destination says now; never raises for an unreachable destination."""
        ...


@dataclass(frozen=True, slots=True)
class Arrival:
    """Something that arrived at a destination: its id there as HMAC, and the operation key it came with."""

    ref: str
    operation_key: str | None
    at: datetime | None = None


@runtime_checkable
class ListsArrivals(Protocol):
    """A destination that can say everything that arrived there: what the bypass audit asks."""

    def lists(self, target: Target) -> bool:
        """Return whether this target says how it is listed."""
        ...

    def arrivals(self, target: Target, since: datetime) -> list[Arrival] | None:
        """Return all that arrived since a moment under this workspace's keys; None where it cannot say."""
        ...


@dataclass(frozen=True, slots=True)
class Baseline:
    """What the destination held at redemption, so that older artifacts verify nothing."""

    version: str | None
    reachable: bool
    problem: str | None = None
    unfit: str | None = field(default=None, compare=False)


class Check(StrEnum):
    """The outcome check's word."""

    NONE = "none"
    PASSED = "passed"
    FAILED = "failed"
    UNREACHABLE = "unreachable"


@dataclass(frozen=True, slots=True)
class OutcomeCheck:
    """An independent answer about the expected outcome, and whether it came after the baseline."""

    check: Check
    fresh: bool = False
    artifact: str | None = None
    version: str | None = None
    problem: str | None = None
    operation_key: str | None = None
    """The key the artifact carries, where the target says how it carries one."""
    difference: tuple[str, ...] = ()
    """Which terms of the expectation were not met, as HMACs of their names or closed words."""
    unfit: str | None = field(default=None, compare=False)


@runtime_checkable
class OutcomeVerifier(Protocol):
    """Asks the destination for the expected outcome."""

    def baseline(self, target: Target, expected: str) -> Baseline:
        """Return the newest version the destination holds now."""
        ...

    def check(
        self,
        target: Target,
        expected: str,
        baseline_version: str | None,
        operation_keys: frozenset[str] = frozenset(),
    ) -> OutcomeCheck:
        """Return whether the expected outcome is there, and whether it is newer than the baseline.

        `operation_keys` are those the run sent; where the target says how an artifact carries its key, one
        that carries another is not fresh.
        """
        ...


@dataclass(frozen=True, slots=True)
class ThreadSummary:
    """A thread found in a runtime's store, named by the HMAC of its id."""

    external_ref: str
    checkpoints: int
    forkable: int


@runtime_checkable
class RuntimeAdapter(Protocol):
    """Reads runs out of a runtime's own store, read-only and without deserialising content."""

    versions: tuple[str, ...]
    """Versions of the runtime it was tested with."""

    def threads(self, store: Path, key: HmacKey) -> list[ThreadSummary]:
        """List the threads of a store."""
        ...

    def receipts(
        self, store: Path, external_ref: str, key: HmacKey, run: str
    ) -> Iterator[dict[str, JsonValue]]:
        """Yield the content-free receipts (as sent) of one thread, under the given run id."""
        ...


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file to import: a label for refusals (never a path), its bytes, and a captured request's headers.

    Header names are in lower case.
    """

    label: str
    content: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SourceReceipt:
    """One fact of a runtime as a receipt's body; whoever imports adds the run, the ids and the count.

    `place` names the fact within its run and is the same whenever the file is read again. Names in the body
    (agents, tools) may be plain: what no workflow declares is covered before anything is stored.
    """

    kind: str
    at: str
    place: str
    body: Mapping[str, JsonValue]
    agent: str | None = None
    """Which agent the fact is of, where that is known."""


@dataclass(frozen=True, slots=True)
class SourceRun:
    """One run found in files: the HMAC of the runtime's own id, and its facts, oldest first."""

    external_ref: str
    receipts: tuple[SourceReceipt, ...]
    registry: tuple[Mapping[str, JsonValue], ...] = ()
    """For each list of tools in the files: what drifted and the tools' effect classes, names covered."""
    workflow: str | None = None
    """The workflow that its sender says it is of, in plain; whoever takes it in looks whether it exists."""


@dataclass(frozen=True, slots=True)
class SourceRefusal:
    """Something in a file that cannot be taken: where (label and line or index), which field, which rule."""

    where: str
    field: str
    rule: str


@dataclass(frozen=True, slots=True)
class SourceRead:
    """Everything that was read."""

    runs: tuple[SourceRun, ...]
    refused: tuple[SourceRefusal, ...] = ()


@runtime_checkable
class RuntimeImporter(Protocol):
    """Reads what a runtime wrote into files, or sent, by an allow-list: no content leaves it."""

    versions: tuple[str, ...]
    """Versions of the runtime it was tested with."""

    def read(self, files: Sequence[SourceFile], key: HmacKey) -> SourceRead:
        """Return the runs in the files; what cannot be taken is refused, and the rest is not lost."""
        ...


class SourceUnreadable(ValueError):
    """A file or request that cannot be read at all: which field of it, and by which rule."""

    def __init__(self, field: str, rule: str) -> None:
        super().__init__(f"{field}: {rule}")
        self.field = field
        self.rule = rule


@dataclass(frozen=True, slots=True)
class Earlier:
    """What is kept of threads, and those of which something is known to be kept no longer."""

    pieces: tuple[bytes, ...] = ()
    cut: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class NoticeMessage:
    """A notice on its way out: an id that repeats with each try, a moment, and a body without content."""

    message: str
    at: datetime
    body: bytes
    secret: bytes
    """What the receiver knows it by: it signs, and is sent to nobody."""


@runtime_checkable
class Notifier(Protocol):
    """Takes notices elsewhere. The receiver may hear one twice, and knows it by its id."""

    def deliver(self, target: Target, message: NoticeMessage) -> str | None:
        """Deliver once; returns None, or a closed word of what stood in the way."""
        ...


@runtime_checkable
class LiveImporter(Protocol):
    """An importer whose runtime sends what it has while it runs, piece by piece."""

    def knowing(self, is_published: Callable[[str], bool]) -> "LiveImporter":
        """Return the importer that refuses what names a workflow that is not published."""
        ...

    def pieces_of(self, file: SourceFile) -> Mapping[str, bytes]:
        """Return what is to be kept of a piece until the rest has come, by the thread that it is of.

        It is taken by the allow-list and holds no content. Raises SourceUnreadable.
        """
        ...

    def read_beside(self, file: SourceFile, earlier: Earlier, key: HmacKey) -> SourceRead:
        """Return the runs in a piece that `pieces_of` could read, and in what is kept of its threads."""
        ...

    def answer(self, file: SourceFile, refused: Sequence[SourceRefusal]) -> tuple[str, bytes]:
        """Return the media type and the body that the sender of a piece expects."""
        ...
