"""Spans in their places: which trace and parent, which agent, which run; the order they came in is lost."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from debugger.adapters.runtimes.otlp_roles import Role, agent_name, agent_of, conversation, role_of
from debugger.adapters.runtimes.otlp_spans import Span

type SpanKey = tuple[str, str]
"""A trace's id and a span's in it."""

_LOOPS = (Role.AGENT, Role.WORKFLOW)


@dataclass(slots=True, eq=False)
class Placed:
    """A span in its trace; what it is under is known only where every span above it is here."""

    span: Span
    parent: "Placed | None" = None
    children: "list[Placed]" = field(default_factory=list)
    role: Role = Role.FOREIGN
    agent: str | None = None
    """The agent it is of, or of which it is."""
    own: str | None = None
    """The conversation that it names itself."""
    run: str = ""
    """The conversation's id, or the trace's where none is named."""
    whole: bool = False
    """Whether all spans above it are here."""
    top: "Placed | None" = None
    """The outermost agent or workflow of its run that it is under, or is."""
    in_tool: bool = False
    """Whether a tool's call stands between it and that one."""

    @property
    def key(self) -> SpanKey:
        """Where it is."""
        return self.span.trace, self.span.span


class Forest:
    """All spans of a read, placed."""

    def __init__(self, spans: Iterable[Span]) -> None:
        ordered = sorted(spans, key=lambda span: (span.start, span.trace, span.span))
        self.placed: dict[SpanKey, Placed] = {
            (each.trace, each.span): Placed(each, own=conversation(each)) for each in ordered
        }
        default = _conversations(self.placed.values())
        level = self._join()
        while level:
            for each in level:
                _place(each, default)
            level = [child for each in level for child in each.children]

    def _join(self) -> list[Placed]:
        """Join children to parents and return those at the top; one below itself is at the top too."""
        tops = []
        for each in self.placed.values():
            parent = self.placed.get((each.span.trace, each.span.parent)) if each.span.parent else None
            if parent is None:
                each.whole = each.span.parent is None
                tops.append(each)
            else:
                each.parent = parent
                parent.children.append(each)
        return tops + self._cut_circles(tops)

    def _cut_circles(self, tops: list[Placed]) -> list[Placed]:
        reached: set[SpanKey] = set()
        level = tops
        while level:
            reached.update(each.key for each in level)
            level = [child for each in level for child in each.children]
        circled = [each for key, each in self.placed.items() if key not in reached]
        for each in circled:
            each.parent = None
            each.children = []
        return circled


def _conversations(placed: Iterable[Placed]) -> Mapping[str, str]:
    """Return the conversation of every trace that names exactly one."""
    named: dict[str, set[str]] = defaultdict(set)
    for each in placed:
        if each.own is not None:
            named[each.span.trace].add(each.own)
    return {trace: next(iter(found)) for trace, found in named.items() if len(found) == 1}


def _place(each: Placed, default: Mapping[str, str]) -> None:
    span, parent = each.span, each.parent
    above = None
    if parent is None:
        each.run = each.own or default.get(span.trace, span.trace)
    else:
        each.run = each.own or parent.run
        each.whole = parent.whole
        each.agent = parent.agent
        above = parent.top if parent.run == each.run else None
    outermost = each.whole and above is None
    each.role = role_of(span, None if parent is None else parent.span, outermost=outermost)
    if each.role is Role.AGENT:
        each.agent = agent_name(span)
    elif each.role is not Role.WORKFLOW and (named := agent_of(span)) is not None:
        each.agent = named
    if parent is not None and above is not None:
        each.top = above
        each.in_tool = parent.in_tool or parent.role is Role.TOOL
    elif each.role in _LOOPS:
        each.top = each
