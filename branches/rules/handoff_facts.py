"""The facts of one delegated operation: its events as written, refused where they cannot be ordered."""

from dataclasses import dataclass
from enum import StrEnum, auto

from branches.rules.facts import FactError, Fields
from branches.rules.instants import Instant


class HandoffEvent(StrEnum):
    DELEGATED = auto()
    ACCEPTED = auto()
    PROGRESS = auto()
    WAITING = auto()
    COMPLETED = auto()
    OUTCOME_VERIFIED = auto()
    REJECTED = auto()
    RELEASED = auto()
    OUTCOME_FAILED = auto()


class HandoffEvidence(StrEnum):
    AVAILABLE = auto()
    UNAVAILABLE = auto()


@dataclass(frozen=True, slots=True)
class HandoffLimits:
    """Seconds; set them from the observed queue delay and the urgency of the work."""

    acceptance_s: int = 120
    progress_s: int = 600
    verification_s: int = 0


@dataclass(frozen=True, slots=True)
class HandoffRecord:
    """One event of one handoff, written by `agent`. Equal records are one record."""

    handoff_id: str
    event: HandoffEvent
    at: Instant
    agent: str
    receiver: str | None = None
    expected_artifact: str | None = None
    dependency: str | None = None
    deadline: Instant | None = None
    reason: str | None = None
    trace_id: str | None = None
    trusted: bool = True


@dataclass(frozen=True, slots=True)
class HandoffFacts:
    """Every event of one operation in the order it was given."""

    operation_id: str
    now: Instant
    events: tuple[HandoffRecord, ...]
    evidence: HandoffEvidence = HandoffEvidence.AVAILABLE
    limits: HandoffLimits = HandoffLimits()

    def __post_init__(self) -> None:
        if not self.events and self.evidence != HandoffEvidence.UNAVAILABLE:
            raise FactError("events", "may be empty only when the evidence is unavailable")
        for index, record in enumerate(self.events):
            if record.at > self.now:
                raise FactError(f"events.{index}.at", "must not be later than now")
            if record.event == HandoffEvent.DELEGATED:
                _check_delegation(record, f"events.{index}")


def _check_delegation(record: HandoffRecord, path: str) -> None:
    if not record.receiver:
        raise FactError(f"{path}.receiver", "is required on a delegation")
    if not record.expected_artifact:
        raise FactError(f"{path}.expected_artifact", "is required on a delegation")


def parse_handoff(value: object) -> HandoffFacts:
    """Read one operation from a parsed JSON object; FactError names the first problem found."""
    fields = Fields(value)
    fields.only("operation_id", "now", "evidence", "limits", "events")
    return HandoffFacts(
        operation_id=fields.name("operation_id"),
        now=fields.instant("now"),
        evidence=fields.word("evidence", HandoffEvidence, default=HandoffEvidence.AVAILABLE),
        limits=_read_limits(fields.fields("limits")) if "limits" in fields else HandoffLimits(),
        events=tuple(_read_record(record) for record in fields.objects("events")),
    )


def _read_limits(fields: Fields) -> HandoffLimits:
    fields.only("acceptance_s", "progress_s", "verification_s")
    usual = HandoffLimits()
    return HandoffLimits(
        acceptance_s=fields.count("acceptance_s", default=usual.acceptance_s),
        progress_s=fields.count("progress_s", default=usual.progress_s),
        verification_s=fields.count("verification_s", default=usual.verification_s),
    )


def _read_record(fields: Fields) -> HandoffRecord:
    fields.only(
        *("handoff_id", "event", "at", "agent", "receiver", "expected_artifact", "dependency"),
        *("deadline", "reason", "trace_id", "trusted"),
    )
    return HandoffRecord(
        handoff_id=fields.name("handoff_id"),
        event=fields.word("event", HandoffEvent),
        at=fields.instant("at"),
        agent=fields.name("agent"),
        receiver=fields.optional_name("receiver"),
        expected_artifact=fields.optional_name("expected_artifact"),
        # The table calls a null or empty dependency missing, as it does an absent one.
        dependency=fields.nullable_name("dependency") if "dependency" in fields else None,
        deadline=fields.optional_instant("deadline"),
        reason=fields.optional_name("reason"),
        trace_id=fields.optional_name("trace_id"),
        trusted=fields.flag("trusted", default=True),
    )
