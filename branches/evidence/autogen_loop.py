"""One loop of an AutoGen team, from a task to its end: its messages, turns, steps and tools."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from branches.evidence.autogen_words import Reason, Unit

HANDOFF_MESSAGE: Final = "HandoffMessage"
STREAMED: Final = "ModelClientStreamingChunkEvent"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that a model asked for."""

    id: str
    tool: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What came back from a call."""

    call: str
    tool: str
    is_error: bool


@dataclass(frozen=True, slots=True)
class Said:
    """One message or event of a team; `text` is only ever hashed and measured."""

    id: str
    sort: str
    source: str
    at: str
    text: str
    is_chat: bool
    tokens: int | None = None
    """Everything that its model call used; `written`: what it gave."""
    written: int | None = None
    target: str | None = None
    calls: tuple[ToolCall, ...] = ()
    results: tuple[ToolResult, ...] = ()


@dataclass(frozen=True, slots=True)
class Spent:
    """What a part of a loop called and used."""

    tools: tuple[str, ...]
    tokens: int | None


@dataclass(slots=True)
class Loop:
    """What was said since a task began."""

    participants: frozenset[str]
    handoff_tools: Mapping[str, str]
    said: list[Said] = field(default_factory=list)

    def failed_tools(self) -> set[str]:
        """Return the tools whose last result was an error."""
        failed: set[str] = set()
        for result in self._results():
            (failed.add if result.is_error else failed.discard)(result.tool)
        return failed

    def has_result(self) -> bool:
        """Whether a tool, none that only hands over, gave a result without error."""
        return any(not each.is_error and each.tool not in self.handoff_tools for each in self._results())

    def turns(self) -> list[list[Said]]:
        """Return the messages by turn: an agent's events up to its answer; tasks are no turns."""
        turns: list[list[Said]] = []
        begun: dict[str, list[Said]] = {}
        for said in self.said:
            if said.source not in self.participants:
                continue
            if said.source not in begun:
                begun[said.source] = []
                turns.append(begun[said.source])
            begun[said.source].append(said)
            if said.is_chat:
                del begun[said.source]
        return turns

    def steps(self, reason: Reason) -> list[Spent]:
        """Return the steps in the unit that the end was counted in.

        Turns, except where a limit of messages was reached: then messages. A limit is looked at after a turn;
        what the turn gave beyond it belongs to the step that reached it. After a finish the answer that
        closed the last turn is a step of its own: the calls before it were not the last thing done.
        """
        if reason.unit == Unit.MESSAGES:
            return self._message_steps(reason.limit, reason.counted)
        turns = self.turns()
        if reason.cause == "natural_finish" and turns and len(turns[-1]) > 1:
            turns = [*turns[:-1], turns[-1][:-1], turns[-1][-1:]]
        return [_spent(turn) for turn in turns]

    def last_tools(self) -> tuple[str, ...]:
        """Return the tools that the last turn called."""
        turns = self.turns()
        return _spent(turns[-1]).tools if turns else ()

    def _message_steps(self, limit: int | None, counted: int | None) -> list[Spent]:
        chats = sum(said.is_chat for said in self.said)
        # Some limits count events too; which one it was shows in the number that was reached.
        every = counted is not None and counted != chats and counted == len(self.said)
        groups: list[list[Said]] = [[]]
        for said in self.said:
            groups[-1].append(said)
            if (said.is_chat or every) and (limit is None or len(groups) < limit):
                groups.append([])
        return [_spent(group) for group in groups if group]

    def _results(self) -> Iterator[ToolResult]:
        return (result for said in self.said for result in said.results)


def _spent(group: list[Said]) -> Spent:
    counts = [said.tokens for said in group if said.tokens is not None]
    tools = tuple(call.tool for said in group for call in said.calls)
    return Spent(tools, sum(counts) if counts else None)
