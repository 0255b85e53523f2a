"""The picture of a coordination: every agent has its place, and no line passes over another's box."""

import re
from collections.abc import Iterator
from itertools import pairwise

import pytest

from branches.queries.topology_graph import Box, drawn

type Point = tuple[float, float]


class Edge:
    def __init__(self, source: str, target: str) -> None:
        self.source, self.target, self.state, self.count = source, target, "ok", 1


def test_a_picture_of_forty_agents_overlaps_nothing() -> None:
    agents = [f"a{number}" for number in range(40)]
    edges = [Edge(f"a{number}", f"a{(number * 7 + 3) % 40}") for number in range(40)]
    graph = drawn(agents, edges)
    places = {(box.x, box.y) for box in graph.boxes}
    assert len(places) == len(graph.boxes) == 40
    assert all(box.x + graph.box_width <= graph.width for box in graph.boxes)
    assert all(box.y + graph.box_height <= graph.height for box in graph.boxes)
    assert len(graph.lines) == len([edge for edge in edges if edge.source != edge.target])


def on_the_way(path: str) -> Iterator[Point]:
    """Yield points of a path that is made of M, H and C, a few pixels apart."""
    at = (0.0, 0.0)
    for letter, text in re.findall(r"([MHC])([^MHC]+)", path):
        numbers = [float(each) for each in re.findall(r"-?[0-9.]+", text)]
        if letter == "M":
            at = (numbers[0], numbers[1])
            continue
        ends = [(numbers[0], at[1])] if letter == "H" else list(zip(numbers[::2], numbers[1::2], strict=True))
        points = [at, at, *ends * 2] if letter == "H" else [at, *ends]
        for step in range(101):
            s = step / 100
            weights = ((1 - s) ** 3, 3 * (1 - s) ** 2 * s, 3 * (1 - s) * s**2, s**3)
            yield (
                sum(w * x for w, (x, _) in zip(weights, points, strict=True)),
                sum(w * y for w, (_, y) in zip(weights, points, strict=True)),
            )
        at = ends[-1]


def covers(box: Box, height: int, point: Point) -> bool:
    """Whether a point is inside a box and not at its edge, where lines begin and end."""
    x, y = point
    return box.x + 1 < x < box.x + box.width - 1 and box.y + 1 < y < box.y + height - 1


CHAIN = [(f"a{one}", f"a{other}") for one, other in pairwise(range(40))]
STAR = [("a0", f"a{other}") for other in range(1, 40)]
MESH = [(f"a{number}", f"a{(number * step + 3) % 40}") for number in range(40) for step in (3, 7)]


@pytest.mark.parametrize("pairs", [CHAIN, [*CHAIN, ("a39", "a0")], STAR, [*STAR, *MESH], MESH, MESH[::-1]])
def test_no_line_passes_over_a_box_at_forty_agents(pairs: list[tuple[str, str]]) -> None:
    agents = [f"a{number}" for number in range(40)]
    graph = drawn(agents, [Edge(*pair) for pair in pairs])
    crossed = {
        box.agent
        for line in graph.lines
        for point in on_the_way(line.path)
        for box in graph.boxes
        if covers(box, graph.box_height, point)
    }
    assert crossed == set()
    assert all(
        0 < x < graph.width and 0 < y < graph.height for line in graph.lines for x, y in on_the_way(line.path)
    )


def test_an_edge_and_the_one_back_are_two_lines() -> None:
    there, back = drawn(["a", "b"], [Edge("a", "b"), Edge("b", "a")]).lines
    assert set(on_the_way(there.path)).isdisjoint(on_the_way(back.path))


def test_a_picture_of_a_loop_and_of_nothing_is_drawn() -> None:
    graph = drawn(["a", "b"], [Edge("a", "b"), Edge("b", "a"), Edge("a", "a")])
    assert [box.agent for box in graph.boxes] == ["a", "b"]
    assert len(graph.lines) == 2
    assert drawn([], []).boxes == ()
