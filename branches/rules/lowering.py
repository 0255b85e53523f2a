"""What a newer declaration asks less for than an older one: fewer words of others, or other answerers."""

from collections.abc import Iterator, Mapping
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

    def writes_outside(self, tool: DeclaredTool) -> bool:
        """Return whether a tool can write anywhere but to a declared local fixture."""
        if tool.effect_class == "read":
            return False
        return tool.destination is None or not self.destinations[tool.destination].is_fixture


def lowered(before: DeclaredReach, after: DeclaredReach) -> tuple[str, ...]:
    """Return the fields, sorted, by which the change class of a branch could fall or its ledger be answered.

    A tool that wrote outside and is declared no more counts too: an agent may still have it.
    """
    return tuple(sorted({*_lowered_tools(before, after), *_lowered_places(before, after)}))


def lowered_beside(other: DeclaredReach, after: DeclaredReach) -> tuple[str, ...]:
    """Return the fields, sorted, in which a declaration asks less than that of another workflow.

    A place is one, by whatever name it is written to, and a tool of one name is one: who declares it
    elsewhere for less would have it for less here.
    """
    found = set(_lowered_places(other, after))
    real = {each.place for each in other.destinations.values() if not each.is_fixture}
    for name, new in after.destinations.items():
        if new.is_fixture and new.place in real:
            found.add(f"destinations.{name}.fixture")
    for name, old in other.tools.items():
        tool = after.tools.get(name)
        if tool is not None and other.writes_outside(old) and _is_worth_less(old, tool):
            found.add(f"tools.{name}.effect_class")
    return tuple(sorted(found))


def _lowered_places(before: DeclaredReach, after: DeclaredReach) -> Iterator[str]:
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
        if old.is_fixture:
            continue
        if new.is_fixture:
            yield f"{field}.fixture"
        if not new.accepted <= old.accepted or (new.accepted and _later(old, new)):
            yield f"{field}.accept"


def _lowered_tools(before: DeclaredReach, after: DeclaredReach) -> Iterator[str]:
    for name, old in before.tools.items():
        if not before.writes_outside(old):
            continue
        new, field = after.tools.get(name), f"tools.{name}"
        if new is None:
            yield field
            continue
        if _is_worth_less(old, new):
            yield f"{field}.effect_class"
        if new.destination != old.destination:
            yield f"{field}.destination"


def _is_worth_less(old: DeclaredTool, new: DeclaredTool) -> bool:
    return _WORTH.index(new.effect_class) < _WORTH.index(old.effect_class)


def _later(old: DeclaredDestination, new: DeclaredDestination) -> bool:
    if old.accepted_until is None or new.accepted_until is None:
        return new.accepted_until is not None
    return new.accepted_until > old.accepted_until
