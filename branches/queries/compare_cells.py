"""The cells of a comparison."""

from dataclasses import dataclass

from branches.queries.words import Badge


@dataclass(frozen=True, slots=True)
class Cell:
    """One branch's value in one row; `diff` marks a change of input, `quiet` that nothing is there."""

    text: str = ""
    note: str = ""
    badge: Badge | None = None
    diff: bool = False
    quiet: bool = False
    mono: bool = False

    @property
    def said(self) -> tuple[str, str, str]:
        """Return what a reader sees: two cells that say the same do not differ."""
        return (self.text, self.note, self.badge.words if self.badge else "")


@dataclass(frozen=True, slots=True)
class Row:
    """One property of all columns."""

    label: str
    cells: tuple[Cell, ...]
    code: bool = False

    @property
    def differs(self) -> bool:
        return len({cell.said for cell in self.cells}) > 1
