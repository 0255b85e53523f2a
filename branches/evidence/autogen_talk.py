"""What is said in an AutoGen team, message by message, as content-free facts: messages, edges, hand-overs.

There is no acceptance message: the first thing that the target of a hand-over says is its acceptance. A
hand-over to somebody outside the team gives nothing away that an agent could take up: it is a wait.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from branches.evidence.autogen_loop import HANDOFF_MESSAGE, STREAMED, Loop, Said
from branches.evidence.domains import CONTENT, MESSAGE, REF, THREAD
from branches.evidence.keys import HmacKey

APPROVAL: Final = "approval"
HANDOFF: Final = "handoff"
TURN: Final = "message"
_CLASSES: Final[Mapping[str, str]] = {
    HANDOFF_MESSAGE: "handoff",
    "ToolCallRequestEvent": "tool_call",
    "ToolCallExecutionEvent": "tool_result",
    "CodeExecutionEvent": "tool_result",
    "StopMessage": "system",
}


@dataclass(frozen=True, slots=True)
class Fact:
    """The body of a receipt about one thing that was said."""

    kind: str
    own: str
    body: dict[str, Any]
    agent: str | None
    given: Said | None = None
    """Of a hand-over: the message that gave the work away."""


@dataclass(slots=True)
class Talk:
    """Follows one team; `participants` and `handoff_tools` (name of the tool → target) are what is known.

    `tasks` begin with `begin`: what a stop receipt counts, it counts from there.
    """

    key: HmacKey
    run: str
    participants: frozenset[str]
    handoff_tools: Mapping[str, str]
    name: Callable[[str, str], str] = lambda _, text: text
    edge_kind: Callable[[str, str, str], str] = lambda _source, _receiver, kind: kind
    checkpoint: str | None = None
    loop: Loop = field(init=False)
    _by_call: dict[str, str] = field(default_factory=dict)
    _speaker: str | None = None
    _last: Said | None = None
    _open: set[str] = field(default_factory=set)
    _given: Said | None = None
    """The hand-over that nobody has taken up yet."""
    _held: list[Said] = field(default_factory=list)
    """The hand-overs that were taken up; each receiver's own, until it has finished."""
    _waiting: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """A task begins: what was said before is no part of its loop."""
        self.loop = Loop(self.participants, self.handoff_tools)

    def heard(self, said: Said) -> Iterator[Fact]:
        """Yield the facts of one message."""
        if said.sort == STREAMED:
            return
        is_agent = said.source in self.participants
        if is_agent and said.source not in self._open:
            yield from self._took_the_word(said)
            self._open.add(said.source)
        yield self._message(said)
        yield from self._wishes(said)
        self.loop.said.append(said)
        for call in said.calls:
            self._by_call[call.id] = said.id
        if said.is_chat:
            self._open.discard(said.source)
            self._last = said
            if is_agent:
                self._speaker = said.source
        if said.sort == HANDOFF_MESSAGE and said.target is not None:
            yield from self._gave(said)

    def ended(self, cause: str | None, at: str) -> Iterator[Fact]:
        """Yield what the end of a loop says of the work that its last agent has."""
        own = [each for each in self._held if each.target == self._speaker]
        if cause == "approval_requested":
            yield from self._wait(own, at, APPROVAL)
        elif cause in {"natural_finish", "done_tool"}:
            for held in own:
                self._held.remove(held)
                self._waiting.discard(held.id)
                yield self._handoff("completed", at, held, str(held.target))

    @property
    def waits_outside(self) -> bool:
        """Whether the last message hands over to somebody who is not of the team."""
        last = self._last
        return last is not None and last.target is not None and last.target not in self.participants

    def _took_the_word(self, said: Said) -> Iterator[Fact]:
        given = self._given
        if given is not None and given.target == said.source:
            self._given = None
            self._held.append(given)
            yield self._handoff("accepted", said.at, given, said.source)
            if given.source in self.participants:
                yield self._edge(said, given.source, said.source, HANDOFF, "ok")
        elif self._speaker is not None and self._speaker != said.source:
            yield self._edge(said, self._speaker, said.source, TURN, "ok")
        for held in self._held:
            if held.target == said.source and held.id in self._waiting:
                self._waiting.discard(held.id)
                yield self._handoff("progress", said.at, held, said.source)

    def _gave(self, said: Said) -> Iterator[Fact]:
        target = said.target or ""
        if target not in self.participants:
            return
        yield from self._wait([each for each in self._held if each.target == said.source], said.at, target)
        self._given = said
        yield self._handoff("delegated", said.at, said, said.source)

    def _wait(self, held: list[Said], at: str, dependency: str) -> Iterator[Fact]:
        for each in held:
            if each.id not in self._waiting:
                self._waiting.add(each.id)
                yield self._handoff("waiting", at, each, str(each.target), dependency=dependency)

    def _wishes(self, said: Said) -> Iterator[Fact]:
        """Yield an edge for each of several hand-overs that were asked for at once: only the first is made.

        None of these edges is ok, and the one that is taken comes again: so it is seen twice, which is an
        ambiguous route wherever it may be taken once.
        """
        wished = dict.fromkeys(self.handoff_tools[c.tool] for c in said.calls if c.tool in self.handoff_tools)
        if len(wished) > 1:
            for receiver in wished:
                yield self._edge(said, said.source, receiver, HANDOFF, "error")

    def _message(self, said: Said) -> Fact:
        of_team = said.source in self.participants
        sort = _CLASSES.get(said.sort) or ("system" if not said.is_chat else "answer" if of_team else "input")
        body = {
            "message": self.key.digest(MESSAGE, said.id),
            "checkpoint": self.checkpoint,
            "sender": self._named("agent", said.source) if of_team and sort != "tool_result" else None,
            "recipient": None if said.target is None else self._named("agent", said.target),
            "class": sort,
            "content": self.key.digest(CONTENT, said.text),
            "bytes": len(said.text.encode("utf-8", "surrogatepass")),
            "tokens": said.written,
            "replies_to": self._replied(said, sort),
        }
        return Fact("message", said.id, body, None)

    def _replied(self, said: Said, sort: str) -> str | None:
        if said.results:
            asked = self._by_call.get(said.results[0].call)
        else:
            asked = None if self._last is None or sort in {"input", "system"} else self._last.id
        return None if asked is None else self.key.digest(MESSAGE, asked)

    def _edge(self, said: Said, source: str, receiver: str, kind: str, status: str) -> Fact:
        body = {
            "from": self._named("agent", source),
            "to": self._named("agent", receiver),
            "kind": self.edge_kind(source, receiver, kind),
            "contract_version": None,
            "status": status,
        }
        return Fact("interaction", f"{said.id}\0{source}\0{receiver}\0{status}", body, said.source)

    def _handoff(
        self, event: str, at: str, given: Said, agent: str, *, dependency: str | None = None
    ) -> Fact:
        body: dict[str, Any] = {
            "operation": self._id("operation", given.id),
            "handoff": self._id("handoff", given.id),
            "event": event,
            "trace": self.key.digest(THREAD, self.run),
        }
        if event == "delegated":
            # Control does not come back by itself: what is promised is the last answer of the team.
            body |= {
                "receiver": self._named("agent", str(given.target)),
                "expected_artifact": self._id("output", ""),
            }
        if dependency is not None:
            body["dependency"] = self._named("dependency", dependency)
        return Fact("handoff", f"{given.id}\0{event}\0{at}", body, agent, given)

    def _named(self, category: str, text: str) -> str:
        return self.name(category, text)

    def _id(self, sort: str, own: str) -> str:
        return self.key.digest(REF, f"autogen\0{sort}\0{self.run}\0{own}")
