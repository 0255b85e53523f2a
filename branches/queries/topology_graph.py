"""Edges between agents as a picture: agents in columns by how far they are from the start, drawn as paths."""

from collections.abc import Iterable
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
ROW: Final = 52
MARGIN: Final = 24
MOST_ROWS: Final = 10


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


def drawn(agents: Iterable[str], edges: Iterable[EdgeLike]) -> Graph:
    """Lay agents out from left to right; a loop back is drawn as an arc above."""
    names, found = list(agents), [edge for edge in edges if edge.source != edge.target]
    columns = _columns(names, found)
    tallest = max((len(column) for column in columns), default=1)
    boxes, x = {}, MARGIN
    for column in columns:
        wide = max(map(_box_width, column))
        for row, agent in enumerate(column):
            boxes[agent] = Box(agent, x, MARGIN + _offset(tallest, len(column), row), wide)
        x += wide + GAP
    most = max((edge.count for edge in found), default=1) or 1
    lines = tuple(
        Line(edge.state, _path(boxes[edge.source], boxes[edge.target]), f"{1.4 + 3 * edge.count / most:.1f}")
        for edge in found
    )
    width = x - GAP + MARGIN if boxes else 2 * MARGIN + BOX_WIDTH
    return Graph(width, 2 * MARGIN + (tallest - 1) * ROW + BOX_HEIGHT, tuple(boxes.values()), lines)


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


def _path(start: Box, end: Box) -> str:
    y1, y2 = start.y + BOX_HEIGHT // 2, end.y + BOX_HEIGHT // 2
    if end.x > start.x:
        x1, x2 = start.x + start.width, end.x - 3
        bend = (x1 + x2) // 2
        return f"M{x1} {y1}C{bend} {y1} {bend} {y2} {x2} {y2}"
    if end.x == start.x:
        x = start.x + start.width
        return f"M{x} {y1}C{x + 44} {y1} {x + 44} {y2} {x + 3} {y2}"
    top = max(2, min(start.y, end.y) - ROW // 2)
    return f"M{start.middle} {start.y}C{start.middle} {top} {end.middle} {top} {end.middle} {end.y - 3}"
