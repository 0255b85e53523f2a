"""Edges between agents as a picture: agents in columns by how far they are from the start, drawn as paths."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from branches.evidence.keys import is_hmac

BOX_WIDTH: Final = 120
"""Of the narrowest box; a column is as wide as its longest name asks for."""
BOX_HEIGHT: Final = 32
GAP: Final = 70
LETTER: Final = 8
COVERED: Final = 8
"""Letters of a covered name as it is shown."""
ROW: Final = 48
MARGIN: Final = 24
MOST_ROWS: Final = 20
CLEARANCE: Final = 6
"""What a line that passes between two boxes keeps away from them at least."""
BACK: Final = 9
"""So much lower than the middle a line back leaves and arrives: one there and back are told apart."""


class EdgeLike(Protocol):
    """What the picture needs to know of an edge."""

    @property
    def source(self) -> str: ...
    @property
    def target(self) -> str: ...
    @property
    def state(self) -> str: ...
    @property
    def count(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Box:
    """One agent, by the upper left corner of its box and its width, in pixels."""

    agent: str
    x: int
    y: int
    width: int = BOX_WIDTH

    @property
    def middle(self) -> int:
        return self.x + self.width // 2

    @property
    def text_y(self) -> int:
        return self.y + BOX_HEIGHT // 2 + 4


@dataclass(frozen=True, slots=True)
class Line:
    """One edge: its state and the path that draws it."""

    state: str
    path: str
    width: str
    """In pixels, by how often the edge was seen."""


@dataclass(frozen=True, slots=True)
class Graph:
    """The whole picture, in pixels."""

    width: int
    height: int
    boxes: tuple[Box, ...]
    lines: tuple[Line, ...]
    box_width: int = BOX_WIDTH
    box_height: int = BOX_HEIGHT


@dataclass(frozen=True, slots=True)
class _Grid:
    """Where the boxes are, by column: lines bend between columns, and pass each between its boxes."""

    columns: tuple[tuple[Box, ...], ...]
    lefts: tuple[int, ...]
    rights: tuple[int, ...]
    place: Mapping[str, tuple[int, Box]]
    height: int

    def path(self, source: str, target: str) -> str:
        """Return the path of an edge between two agents."""
        (one, start), (two, end) = self.place[source], self.place[target]
        y1, y2 = start.y + BOX_HEIGHT // 2, end.y + BOX_HEIGHT // 2
        if one == two:
            x, out = self.rights[one], self.rights[one] + 28
            back = end.x + end.width + 3
            return f"M{start.x + start.width} {y1}H{x}C{out} {y1} {out} {y2} {x} {y2}H{back}"
        if one < two:
            return self._line(start.x + start.width, y1, end.x - 3, y2, range(one, two))
        y1, y2 = y1 + BACK, y2 + BACK
        return self._line(start.x, y1, end.x + end.width + 3, y2, range(one, two, -1))

    def _line(self, x1: int, y1: int, x2: int, y2: int, passed: range) -> str:
        """Draw from one side to the other through the gap behind each column of `passed`."""
        between = passed[1:]
        y = self._free(between, y2) if between else y2
        ahead = passed.step > 0
        # A gap lies right of a column that is passed from left to right, else left of it.
        first, last = (passed[0], passed[-1]) if ahead else (passed[0] - 1, passed[-1] - 1)
        parts = [f"M{x1} {y1}", self._bend(first, y1, y, ahead=ahead)]
        if between:
            parts.append(self._bend(last, y, y2, ahead=ahead))
        return "".join((*parts, f"H{x2}"))

    def _bend(self, gap: int, y1: int, y2: int, *, ahead: bool) -> str:
        left, right = self.rights[gap], self.lefts[gap + 1] - 8
        near, far = (left, right) if ahead else (right, left + 12)
        middle = (near + far) // 2
        return f"H{near}C{middle} {y1} {middle} {y2} {far} {y2}"

    def _free(self, between: range, wanted: int) -> int:
        """Return the height nearest to what is wanted at which a line meets no box of some columns."""
        taken = [box.y for column in between for box in self.columns[column]]
        heights = sorted(range(4, self.height - 3, 4), key=lambda y: (abs(y - wanted), y))
        fits = (
            y
            for y in (wanted, *heights)
            if not any(top - CLEARANCE < y < top + BOX_HEIGHT + CLEARANCE for top in taken)
        )
        return next(fits, 4)


def drawn(agents: Iterable[str], edges: Iterable[EdgeLike]) -> Graph:
    """Lay agents out from left to right; no line passes over a box, and a loop back is drawn lower."""
    names, found = list(agents), [edge for edge in edges if edge.source != edge.target]
    grid = _grid(_columns(names, found))
    most = max((edge.count for edge in found), default=1)
    lines = tuple(
        Line(edge.state, grid.path(edge.source, edge.target), f"{_thickness(edge.count, most):.1f}")
        for edge in found
    )
    width = grid.rights[-1] + MARGIN if grid.rights else 2 * MARGIN + BOX_WIDTH
    return Graph(width, grid.height, tuple(box for column in grid.columns for box in column), lines)


def _grid(columns: list[list[str]]) -> _Grid:
    tallest = max((len(column) for column in columns), default=1)
    placed, lefts, rights, x = [], [], [], MARGIN
    for column in columns:
        widths = [_box_width(agent) for agent in column]
        rows = zip(column, widths, strict=True)
        placed.append(
            tuple(
                Box(agent, x, MARGIN + _offset(tallest, len(column), row), wide)
                for row, (agent, wide) in enumerate(rows)
            )
        )
        lefts.append(x)
        rights.append(x + max(widths))
        x += max(widths) + GAP
    place = {box.agent: (number, box) for number, column in enumerate(placed) for box in column}
    height = 2 * MARGIN + (tallest - 1) * ROW + BOX_HEIGHT
    return _Grid(tuple(placed), tuple(lefts), tuple(rights), place, height)


def _thickness(count: int, most: int) -> float:
    """Return the width of an edge's line: the finest where none was seen more often than once."""
    return 1.4 if most < 2 else 1.4 + 3 * count / most


def _box_width(agent: str) -> int:
    letters = COVERED if is_hmac(agent) else len(agent)
    return max(BOX_WIDTH, letters * LETTER + 2 * LETTER)


def _offset(tallest: int, own: int, row: int) -> int:
    return (tallest - own) * ROW // 2 + row * ROW


def _columns(names: list[str], edges: list[EdgeLike]) -> list[list[str]]:
    """Put each agent a column after the first that leads to it; a cycle begins where it is met first."""
    after: dict[str, list[str]] = {name: [] for name in names}
    entered = set()
    for edge in edges:
        after[edge.source].append(edge.target)
        entered.add(edge.target)
    depth: dict[str, int] = {}
    wave = [name for name in names if name not in entered] or names[:1]
    level = 0
    while len(depth) < len(names):
        wave = [name for name in dict.fromkeys(wave) if name not in depth]
        if not wave:
            wave = [next(name for name in names if name not in depth)]
        for name in wave:
            depth[name] = level
        wave = [target for name in wave for target in after[name]]
        level += 1
    columns: list[list[str]] = []
    for name in sorted(names, key=depth.__getitem__):
        fits = columns and depth[columns[-1][0]] == depth[name] and len(columns[-1]) < MOST_ROWS
        if fits:
            columns[-1].append(name)
        else:
            columns.append([name])
    return columns
