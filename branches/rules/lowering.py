"""What a newer declaration asks less for than an older one: fewer words of others, or other answerers."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

_WORTH: Final = ("read", "reversible", "irreversible", "unknown")
"""Effect classes by how much is asked for them, least first."""


@dataclass(frozen=True, slots=True)
class DeclaredDestination:
    """How a destination is declared: who answers for it, and which answers need no person until when."""

    query: str
    target: str
    is_fixture: bool
    accepted: frozenset[str] = frozenset()
    accepted_until: datetime | None = None

    @property
    def place(self) -> tuple[str, str]:
        """Where it really is: who asks, and what."""
        return self.query, self.target


@dataclass(frozen=True, slots=True)
class DeclaredTool:
    """How a tool is declared: its effect class, and where it writes."""

    effect_class: str
    destination: str | None


@dataclass(frozen=True, slots=True)
class DeclaredReach:
    """What the agents of a workflow can do outside, as one of its versions declares it."""

    tools: Mapping[str, DeclaredTool]
    destinations: Mapping[str, DeclaredDestination]

    def asks_for(self, tool: DeclaredTool) -> int:
        """Return how much a tool asks for: 0 where it confines a branch, then reading, writing, for good."""
        where = None if tool.destination is None else self.destinations[tool.destination]
        if where is not None and where.is_fixture:
            return 0
        if tool.effect_class == "read":
            return 0 if where is None else 1
        return 2 if tool.effect_class == "reversible" else 3

    def writes_outside(self, tool: DeclaredTool) -> bool:
        """Return whether a tool can write anywhere but to a declared local fixture."""
        return self.asks_for(tool) > 1


def lowered(before: DeclaredReach, after: DeclaredReach) -> tuple[str, ...]:
    """Return the fields, sorted, by which the change class of a branch could fall or its ledger be answered.

    A tool that reached outside and is declared no more counts too: an agent may still have it.
    """
    found = {*_lowered_tools(before, after), *_lowered_names(before, after)}
    gone = (name for name, old in before.tools.items() if before.asks_for(old) and name not in after.tools)
    moved = (
        f"tools.{name}.destination"
        for name, old in before.tools.items()
        if before.writes_outside(old) and name in after.tools
        if after.tools[name].destination != old.destination
    )
    return tuple(sorted({*found, *(f"tools.{name}" for name in gone), *moved}))


def lowered_beside(other: DeclaredReach, after: DeclaredReach) -> tuple[str, ...]:
    """Return the fields, sorted, in which a declaration asks less than that of another workflow.

    A tool of one name is one: who declares it elsewhere for less would have it for less here.
    """
    return tuple(sorted({*_lowered_tools(other, after), *_lowered_names(other, after)}))


def lowered_places(known: Iterable[DeclaredDestination], after: DeclaredReach) -> tuple[str, ...]:
    """Return the fields, sorted, in which a place asks less than it is known to ask for.

    A place is one, by whatever name it is written to.
    """
    found = set[str]()
    for old in known:
        for name, new in after.destinations.items():
            if new.place == old.place and not old.is_fixture:
                found |= set(_with_less_of_a_word(f"destinations.{name}", old, new))
    return tuple(sorted(found))


def _lowered_names(before: DeclaredReach, after: DeclaredReach) -> Iterator[str]:
    """Yield the fields of destinations of one name that others answer for now, or with less of a word."""
    for name, old in before.destinations.items():
        new = after.destinations.get(name)
        if new is None or (old.is_fixture and not new.is_fixture):
            continue
        field = f"destinations.{name}"
        if new.query != old.query:
            yield f"{field}.query"
        if new.target != old.target:
            yield f"{field}.target"
        if not old.is_fixture:
            yield from _with_less_of_a_word(field, old, new)


def _with_less_of_a_word(field: str, old: DeclaredDestination, new: DeclaredDestination) -> Iterator[str]:
    if new.is_fixture:
        yield f"{field}.fixture"
    if not new.accepted <= old.accepted or (new.accepted and _later(old, new)):
        yield f"{field}.accept"


def _lowered_tools(before: DeclaredReach, after: DeclaredReach) -> Iterator[str]:
    for name, old in before.tools.items():
        new, field = after.tools.get(name), f"tools.{name}"
        if new is None or not before.asks_for(old):
            continue
        if _WORTH.index(new.effect_class) < _WORTH.index(old.effect_class):
            yield f"{field}.effect_class"
        elif after.asks_for(new) < before.asks_for(old):
            yield f"{field}.destination"


def _later(old: DeclaredDestination, new: DeclaredDestination) -> bool:
    if old.accepted_until is None or new.accepted_until is None:
        return new.accepted_until is not None
    return new.accepted_until > old.accepted_until
