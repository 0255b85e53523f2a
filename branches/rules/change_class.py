"""The change class of a branch: the worst that its facts, and those of its ancestors, give; never chosen."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class ChangeClass(StrEnum):
    """What may happen when a branch resumes, worst last; CP is the policy itself and no branch's."""

    C1 = "C1"
    C2 = "C2"
    C3 = "C3"
    C4 = "C4"
    CP = "CP"

    @property
    def meaning(self) -> str:
        return _MEANINGS[self]

    @property
    def rank(self) -> int:
        return _ORDER.index(self)


_ORDER: Final = tuple(ChangeClass)
_MEANINGS: Final = {
    ChangeClass.C1: "confined: it can write nowhere but a declared local fixture",
    ChangeClass.C2: "a change of prompt, plan, model or tool; only read-only tools reach outside",
    ChangeClass.C3: "external: it may write where an undo exists",
    ChangeClass.C4: "irreversible: a decision on an irreversible effect, or a tool that cannot be undone",
    ChangeClass.CP: "the policy itself: what is asked for, and who may give it",
}


class ChangeKind(StrEnum):
    """What whoever forks says that a change touches: it can only raise the class."""

    RECIPIENTS = "recipients"
    BUDGET = "budget"
    PERMISSIONS = "permissions"
    TARGET = "target"
    DESTRUCTIVE = "destructive"


class Fact(StrEnum):
    """The sort of fact that gave a class."""

    UNDECLARED = "undeclared"
    REACHES_NOTHING = "reaches_nothing"
    READS_OUTSIDE = "reads_outside"
    WRITES_REVERSIBLY = "writes_reversibly"
    WRITES_IRREVERSIBLY = "writes_irreversibly"
    EFFECT_CLASS_UNKNOWN = "effect_class_unknown"
    EFFECT_SETTLED = "effect_settled"
    IRREVERSIBLE_DECIDED = "irreversible_decided"
    CONFIGURATION_CHANGED = "configuration_changed"
    KIND_DECLARED = "kind_declared"
    OWN_OUTCOME = "own_outcome"


@dataclass(frozen=True, slots=True)
class Reach:
    """A tool that a branch can call: where it reaches and what its effect is worth."""

    tool: str
    effect_class: str
    destination: str | None
    is_fixture: bool


@dataclass(frozen=True, slots=True)
class Settled:
    """An effect of before on which somebody gave a word: it was reverted, reconciled, or decided."""

    operation: str
    status: str
    is_decided: bool


@dataclass(frozen=True, slots=True)
class ClassFacts:
    """What one branch can do and what was changed on it; without a declaration nothing is ruled out."""

    is_declared: bool
    reaches: tuple[Reach, ...]
    settled: tuple[Settled, ...]
    changed_keys: tuple[str, ...]
    kinds: tuple[str, ...]
    has_own_outcome: bool


@dataclass(frozen=True, slots=True)
class Because:
    """One fact with the class it gives; `subject` is a tool, a key, a kind or an operation, or empty."""

    change_class: ChangeClass
    fact: Fact
    subject: str
    of_ancestor: bool = False


@dataclass(frozen=True, slots=True)
class ClassVerdict:
    """The worst class, and every fact that gave it; the others are kept for whoever asks why not less."""

    change_class: ChangeClass
    because: tuple[Because, ...]
    others: tuple[Because, ...]


_KEY_CLASSES: Final = {
    "recipients": ChangeClass.C3,
    "budget": ChangeClass.C3,
    "permissions": ChangeClass.C4,
    "target": ChangeClass.C4,
    "destructive": ChangeClass.C4,
}


def judge_class(facts: ClassFacts, ancestors: Sequence[ClassFacts] = ()) -> ClassVerdict:
    """Return the worst class over a branch and the branches it was forked from, with what made it so."""
    found = list(_of_branch(facts))
    for older in ancestors:
        found += [
            Because(each.change_class, each.fact, each.subject, of_ancestor=True) for each in _changes(older)
        ]
    worst = max(found, key=lambda each: each.change_class.rank).change_class
    return ClassVerdict(
        worst,
        tuple(each for each in found if each.change_class is worst),
        tuple(each for each in found if each.change_class is not worst),
    )


def _of_branch(facts: ClassFacts) -> Iterator[Because]:
    """What it can do is the floor: an edit of a message is opaque, so nothing that it says lowers this."""
    floor = list(_floor(facts))
    yield from floor or [Because(ChangeClass.C1, Fact.REACHES_NOTHING, "")]
    yield from _changes(facts)


def _floor(facts: ClassFacts) -> Iterator[Because]:
    if not facts.is_declared:
        yield Because(ChangeClass.C4, Fact.UNDECLARED, "")
    for reach in facts.reaches:
        if reach.is_fixture:
            continue
        if reach.effect_class == "read":
            if reach.destination is not None:
                yield Because(ChangeClass.C2, Fact.READS_OUTSIDE, reach.tool)
        elif reach.effect_class == "irreversible":
            yield Because(ChangeClass.C4, Fact.WRITES_IRREVERSIBLY, reach.tool)
        elif reach.effect_class == "unknown":
            yield Because(ChangeClass.C4, Fact.EFFECT_CLASS_UNKNOWN, reach.tool)
        else:
            yield Because(ChangeClass.C3, Fact.WRITES_REVERSIBLY, reach.tool)


def _changes(facts: ClassFacts) -> Iterator[Because]:
    """What people did on a branch; a branch forked from it inherits these, whatever itself can do."""
    for effect in facts.settled:
        if effect.is_decided:
            yield Because(ChangeClass.C4, Fact.IRREVERSIBLE_DECIDED, effect.operation)
        elif effect.status in ("reconciled", "reverted"):
            yield Because(ChangeClass.C3, Fact.EFFECT_SETTLED, effect.operation)
    for key in facts.changed_keys:
        yield Because(_KEY_CLASSES.get(key, ChangeClass.C2), Fact.CONFIGURATION_CHANGED, key)
    for kind in facts.kinds:
        yield Because(_KEY_CLASSES[kind], Fact.KIND_DECLARED, kind)
    if facts.has_own_outcome:
        # Whoever says at a fork what will count as done does not also let it go by themselves.
        yield Because(ChangeClass.C2, Fact.OWN_OUTCOME, "")
