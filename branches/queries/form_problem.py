"""What is wrong with a declaration: a field and a rule, and never a value."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """Where a declaration breaks which rule."""

    field: str
    rule: str
