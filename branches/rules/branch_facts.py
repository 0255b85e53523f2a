"""The facts of a branch: frozen shapes that refuse what cannot be judged, and their JSON form both ways."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum, auto

from branches.rules.facts import FactError, Fields, check_unique

DEFAULT_ACKNOWLEDGEABLE_KEYS = ("tool_registry", "browser")


class Restore(StrEnum):
    MATCHED = auto()
    DRIFT_ACKNOWLEDGED = auto()
    DRIFTED = auto()
    UNREACHABLE = auto()
    NOT_RESTORED = auto()


class Ledger(StrEnum):
    """Everything after the checkpoint was recorded, a named person vouches for that, or nobody knows."""

    COMPLETE = auto()
    ATTESTED = auto()
    UNKNOWN = auto()


class EffectStatus(StrEnum):
    REVERTED = auto()
    RECONCILED = auto()
    PENDING = auto()
    IRREVERSIBLE = auto()


class EffectDecision(StrEnum):
    SKIP = auto()
    REPEAT = auto()


class Decision(StrEnum):
    NONE = auto()
    APPROVED = auto()
    REJECTED = auto()
    EXPIRED = auto()
    REVOKED = auto()
    SUPERSEDED = auto()


class Resume(StrEnum):
    NONE = auto()
    REDEEMED = auto()
    STARTED = auto()
    LOST = auto()


class Loop(StrEnum):
    """What the loop said of itself: it runs, it claimed to be done, or it ended without saying so."""

    RUNNING = auto()
    CLAIMED = auto()
    ENDED = auto()


class Check(StrEnum):
    """What destination, validator or person said of the expected outcome."""

    NONE = auto()
    PASSED = auto()
    FAILED = auto()
    UNREACHABLE = auto()


@dataclass(frozen=True, slots=True)
class ForkPoint:
    checkpoint_id: str
    in_parent: bool
    parent_unchanged: bool


@dataclass(frozen=True, slots=True)
class KeyState:
    """One state key: `fingerprint` is a labelled digest or None; `stale`: older than the policy allows."""

    fingerprint: str | None
    restore: Restore
    stale: bool = False


@dataclass(frozen=True, slots=True)
class Effect:
    """One operation with an external effect after the checkpoint, by the parent or any resumed sibling."""

    operation_key: str
    status: EffectStatus
    decision: EffectDecision | None = None
    stale: bool = False


@dataclass(frozen=True, slots=True)
class Authority:
    operator_authorised: bool
    required: bool
    decision: Decision


@dataclass(frozen=True, slots=True)
class Outcome:
    """`fresh`: what passed is this branch's and came after its resume."""

    loop: Loop
    check: Check
    fresh: bool


@dataclass(frozen=True, slots=True)
class BranchFacts:
    """Everything the six gates look at; FactError for facts that contradict themselves."""

    branch_id: str
    parent_id: str
    fork_point: ForkPoint
    required_state_keys: tuple[str, ...]
    state: Mapping[str, KeyState]
    effects_ledger: Ledger
    effects: tuple[Effect, ...]
    authority: Authority
    configuration_pinned: bool
    resume: Resume
    outcome: Outcome | None
    acknowledgeable_keys: tuple[str, ...] = DEFAULT_ACKNOWLEDGEABLE_KEYS

    def __post_init__(self) -> None:
        if not self.required_state_keys:
            # An empty list would let gate 2 pass with nothing proved.
            raise FactError("required_state_keys", "must not be empty")
        check_unique(tuple(self.required_state_keys), "required_state_keys")
        check_unique(tuple(effect.operation_key for effect in self.effects), "effects", "operation_key")
        for index, effect in enumerate(self.effects):
            if effect.decision is not None and effect.status != EffectStatus.IRREVERSIBLE:
                raise FactError(f"effects.{index}.decision", "is allowed on an irreversible effect only")

    def as_json(self) -> dict[str, object]:
        """The form that `parse_branch` reads back to equal facts, every default written out."""
        return {
            "branch_id": self.branch_id,
            "parent_id": self.parent_id,
            "fork_point": {
                "checkpoint_id": self.fork_point.checkpoint_id,
                "in_parent": self.fork_point.in_parent,
                "parent_unchanged": self.fork_point.parent_unchanged,
            },
            "required_state_keys": list(self.required_state_keys),
            "acknowledgeable_keys": list(self.acknowledgeable_keys),
            "state": {
                key: {"fingerprint": state.fingerprint, "restore": str(state.restore), "stale": state.stale}
                for key, state in self.state.items()
            },
            "effects_ledger": str(self.effects_ledger),
            "effects": [_effect_as_json(effect) for effect in self.effects],
            "authority": {
                "operator_authorised": self.authority.operator_authorised,
                "required": self.authority.required,
                "decision": str(self.authority.decision),
            },
            "configuration": {"pinned": self.configuration_pinned},
            "resume": str(self.resume),
            "outcome": _outcome_as_json(self.outcome),
        }


def _effect_as_json(effect: Effect) -> dict[str, object]:
    return {
        "operation_key": effect.operation_key,
        "status": str(effect.status),
        "decision": None if effect.decision is None else str(effect.decision),
        "stale": effect.stale,
    }


def _outcome_as_json(outcome: Outcome | None) -> dict[str, object] | None:
    if outcome is None:
        return None
    return {"loop": str(outcome.loop), "check": str(outcome.check), "fresh": outcome.fresh}


def parse_branch(value: object) -> BranchFacts:
    """Read the facts of a branch from a parsed JSON object; FactError names the first problem found."""
    fields = Fields(value)
    fields.only(
        *("branch_id", "parent_id", "fork_point", "required_state_keys", "acknowledgeable_keys", "state"),
        *("effects_ledger", "effects", "authority", "configuration", "resume", "outcome"),
    )
    return BranchFacts(
        branch_id=fields.text("branch_id"),
        parent_id=fields.text("parent_id"),
        fork_point=_read_fork_point(fields.fields("fork_point")),
        required_state_keys=fields.names("required_state_keys"),
        acknowledgeable_keys=_read_acknowledgeable(fields),
        state={key: _read_key_state(state) for key, state in fields.fields("state").objects_by_name()},
        effects_ledger=fields.word("effects_ledger", Ledger),
        effects=tuple(_read_effect(effect) for effect in fields.objects("effects")),
        authority=_read_authority(fields.fields("authority")),
        configuration_pinned=_read_pinned(fields.fields("configuration")),
        resume=fields.word("resume", Resume),
        outcome=_read_outcome(fields.nullable_fields("outcome")),
    )


def _read_acknowledgeable(fields: Fields) -> tuple[str, ...]:
    name = "acknowledgeable_keys"
    return fields.names(name) if name in fields else DEFAULT_ACKNOWLEDGEABLE_KEYS


def _read_fork_point(fields: Fields) -> ForkPoint:
    fields.only("checkpoint_id", "in_parent", "parent_unchanged")
    return ForkPoint(
        checkpoint_id=fields.name("checkpoint_id"),
        in_parent=fields.flag("in_parent"),
        parent_unchanged=fields.flag("parent_unchanged"),
    )


def _read_key_state(fields: Fields) -> KeyState:
    fields.only("fingerprint", "restore", "stale")
    return KeyState(
        fingerprint=fields.nullable_name("fingerprint"),
        restore=fields.word("restore", Restore),
        stale=fields.flag("stale", default=False),
    )


def _read_effect(fields: Fields) -> Effect:
    fields.only("operation_key", "status", "decision", "stale")
    return Effect(
        operation_key=fields.name("operation_key"),
        status=fields.word("status", EffectStatus),
        decision=fields.nullable_word("decision", EffectDecision),
        stale=fields.flag("stale", default=False),
    )


def _read_authority(fields: Fields) -> Authority:
    fields.only("operator_authorised", "required", "decision")
    return Authority(
        operator_authorised=fields.flag("operator_authorised"),
        required=fields.flag("required"),
        decision=fields.word("decision", Decision),
    )


def _read_pinned(fields: Fields) -> bool:
    fields.only("pinned")
    return fields.flag("pinned")


def _read_outcome(fields: Fields | None) -> Outcome | None:
    if fields is None:
        return None
    fields.only("loop", "check", "fresh")
    return Outcome(
        loop=fields.word("loop", Loop),
        check=fields.word("check", Check),
        fresh=fields.flag("fresh"),
    )
