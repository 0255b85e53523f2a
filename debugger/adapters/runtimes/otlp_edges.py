"""Who passed work to whom: by links, by what a span says of its node, by the graph's steps, by nesting."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from debugger.adapters.runtimes.otlp_attributes import STEP, TASK
from debugger.adapters.runtimes.otlp_roles import Role
from debugger.adapters.runtimes.otlp_sampling import Gap
from debugger.adapters.runtimes.otlp_spans import Status
from debugger.adapters.runtimes.otlp_tree import Forest, Placed, SpanKey


class Kind(StrEnum):
    """The kinds of an edge that we name ourselves; a link may name others of its closed list."""

    HANDOFF = "handoff"
    STEP = "step"
    INVOKE = "invoke"


@dataclass(frozen=True, slots=True)
class Edge:
    """One agent's span that another's work led to."""

    source: str
    kind: str
    to: Placed

    @property
    def status(self) -> Status:
        """What the span says of itself; one that waits, or may, or has not ended, says nothing yet."""
        span = self.to.span
        if span.failed:
            return Status.ERROR
        return Status.UNSET if span.waits or Gap.EVENTS in span.gaps or not span.end else span.status


# A line that goes on elsewhere is the same work, passed to nobody.
_SAME_WORK: Final = frozenset({"branch_of", "forked_from", "resume_of", "retry_of"})


def edges_of(forest: Forest) -> Iterator[Edge]:
    """Yield every edge seen; of several signs of one pair at one span, the plainest is taken."""
    agents = [each for each in forest.placed.values() if each.role is Role.AGENT and each.agent]
    nodes = _nodes(agents)
    steps = _steps(agents)
    for each in agents:
        found: dict[str, str] = {}
        for source, kind in _signs(each, forest, nodes, steps):
            if source != each.agent:
                found.setdefault(source, kind)
        yield from (Edge(source, kind, each) for source, kind in found.items())


def _signs(
    each: Placed,
    forest: Forest,
    nodes: Mapping[tuple[str, str], str],
    steps: Mapping[SpanKey, str],
) -> Iterator[tuple[str, str]]:
    for link in each.span.links:
        source = forest.placed.get((link.trace, link.span))
        if link.kind not in _SAME_WORK and source is not None and source.agent:
            yield source.agent, link.kind
    before = each.span.text("graph.node.parent_id")
    if before is not None:
        yield nodes.get((each.span.trace, before), before), Kind.HANDOFF
    if each.key in steps:
        yield steps[each.key], Kind.STEP
    if each.parent is not None and each.parent.agent:
        yield each.parent.agent, Kind.INVOKE


def _nodes(agents: Iterable[Placed]) -> Mapping[tuple[str, str], str]:
    """Return the agents by the ids that their spans give their nodes."""
    found: dict[tuple[str, str], str] = {}
    for each in agents:
        node = each.span.text("graph.node.id")
        if node is not None and each.agent:
            found[each.span.trace, node] = each.agent
    return found


def _steps(agents: Iterable[Placed]) -> Mapping[SpanKey, str]:
    """Return which node came before, for the nodes of one graph: only where it can have been no other."""
    graphs: dict[SpanKey, dict[int, list[Placed]]] = defaultdict(lambda: defaultdict(list))
    for each in agents:
        step = each.span.attributes.get(STEP)
        if type(step) is int and each.parent is not None:
            graphs[each.parent.key][step].append(each)
    found: dict[SpanKey, str] = {}
    for graph in graphs.values():
        for step, nodes in graph.items():
            # A node tried again has the same task; two tasks may each have led here.
            tasks = {each.span.text(TASK) or each.key: each.agent for each in graph.get(step - 1, ())}
            if len(tasks) == 1 and (before := next(iter(tasks.values()))):
                found.update((each.key, before) for each in nodes)
    return found
