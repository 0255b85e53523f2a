"""Observed edges between agents: who wrote the channel that made whom run."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

_SENDS: Final = "__pregel_tasks"
_PUSHED: Final = "__pregel_push"


@dataclass(frozen=True, slots=True)
class Edge:
    """One observed edge; `status` is that of the receiver's own step."""

    source: str
    receiver: str
    status: str


@dataclass(slots=True)
class _Task:
    name: str
    sources: frozenset[str]


@dataclass(slots=True)
class EdgeLog:
    """Follows the tasks of a run; a node that is no agent passes on the agents before it."""

    agents: frozenset[str]
    writers: dict[str, frozenset[str]] = field(default_factory=dict)
    """Channel -> the agents whose results wrote it in the step that led to the newest checkpoint."""
    _tasks: dict[str, _Task] = field(default_factory=dict)

    @property
    def tasks(self) -> frozenset[str]:
        """The ids of the tasks that began since the newest checkpoint."""
        return frozenset(self._tasks)

    def began(self, task: Mapping[str, Any]) -> None:
        """A task begins: its triggers say which channels made it run."""
        pushed = _PUSHED in task["triggers"]
        sources = sources_of(task["name"] if pushed else None, task["triggers"], self.writers)
        self._tasks[task["id"]] = _Task(task["name"], sources)

    def sources(self, task: str) -> frozenset[str]:
        """Return the agents that made a task run that began since the newest checkpoint."""
        known = self._tasks.get(task)
        return frozenset() if known is None else known.sources

    def ended(self, result: Mapping[str, Any]) -> Iterator[Edge]:
        """A task gave its result: yield the edges that led to it, when it is an agent's."""
        task = self._tasks.get(result["id"])
        if task is None or task.name not in self.agents:
            return
        status = "error" if result.get("error") else "unset" if result.get("interrupts") else "ok"
        for source in sorted(task.sources):
            yield Edge(source, task.name, status)

    def stepped(self, writes: Iterable[Sequence[Any]]) -> None:
        """A step is over: take its writes `(task, channel, value)`."""
        found: defaultdict[str, set[str]] = defaultdict(set)
        for task_id, channel, value in writes:
            if (task := self._tasks.get(task_id)) is None:
                continue
            origin = {task.name} if task.name in self.agents else task.sources
            for name in _targets(channel, value):
                found[name] |= origin
        self.writers = {name: frozenset(agents) for name, agents in found.items()}
        self._tasks = {}

    def resume(self, writers: Mapping[str, list[str]]) -> None:
        """Go on from a checkpoint that was passed before, perhaps by another run."""
        self.writers = {name: frozenset(agents) for name, agents in writers.items()}


def sources_of(
    sent_to: str | None, channels: Iterable[str], writers: Mapping[str, frozenset[str]]
) -> frozenset[str]:
    """Return the agents that wrote one of the channels, or sent to a node of this name."""
    names = [*channels] if sent_to is None else [*channels, f"send:{sent_to}"]
    return frozenset().union(*(writers.get(name, frozenset()) for name in names))


def _targets(channel: str, value: Any) -> Iterator[str]:
    if channel != _SENDS:
        yield channel
        return
    for send in value if isinstance(value, (list, tuple)) else [value]:
        if (node := getattr(send, "node", None)) is not None:
            yield f"send:{node}"
