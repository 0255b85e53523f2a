"""The saved state of an AutoGen team: its fingerprint, and messages that an agent would read twice.

An agent keeps what it has yet to read in a buffer and what it has read in its model's context. When a model
call fails the buffer is not emptied, although the context has the messages already: a team that is loaded
from such a state reads them twice.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from branches.evidence.domains import PART, STATE
from branches.evidence.keys import HmacKey

TEAM: Final = "TeamState"
THREAD: Final = "thread"
_MODEL_SAYS: Final = "UserMessage"
_CONTEXTS: Final = ("agent_state", "llm_context")


@dataclass(frozen=True, slots=True)
class Doubled:
    """A message that stands in an agent's buffer and was read already; `place` is the agent's, from 0."""

    place: int
    index: int


@dataclass(frozen=True, slots=True)
class Memory:
    """The fingerprint of a team's state, one for each agent and for the thread, and two numbers."""

    fingerprint: str
    parts: Mapping[str, str]
    agents: int
    messages: int


def memory_of(state: Mapping[str, Any], key: HmacKey) -> Memory:
    """Return the fingerprints of a saved state; equal states have equal ones, whatever the order of keys."""
    agents = agents_of(state)
    said = thread_of(state)
    digests = {name: _digest(key, each) for name, each in agents.items()}
    threads = {name: each for name, each in _states(state).items() if name not in agents}
    parts = {key.digest(PART, name): each for name, each in digests.items()}
    parts[key.digest(PART, f"\0{THREAD}")] = _digest(key, threads)
    return Memory(_digest(key, dict(state)), parts, len(agents), len(said))


def agents_of(state: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the states of the participants, by name; the team's own orchestrator is none of them."""
    return {name: each for name, each in _states(state).items() if not _has_thread(each)}


def thread_of(state: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the messages of the team's thread, in order."""
    found: list[Mapping[str, Any]] = []
    for each in _states(state).values():
        if _has_thread(each):
            found += [message for message in each["message_thread"] if isinstance(message, Mapping)]
    return found


def doubled_in(state: Mapping[str, Any]) -> list[Doubled]:
    """Return the buffered messages that their agent has read already.

    Each message of the thread is in a buffer or in the context, once. So a text that an agent has more often
    than the thread has it, or an id that is buffered twice, is one too many.
    """
    said = Counter(pair for message in thread_of(state) if (pair := _pair(message)) is not None)
    return [
        Doubled(place, index)
        for place, (_, each) in enumerate(sorted(agents_of(state).items()))
        for index in _too_many(each, said)
    ]


def _too_many(agent: Mapping[str, Any], said: Counter[tuple[str, str]]) -> Iterator[int]:
    held = Counter(pair for message in _context(agent) if (pair := _read_pair(message)) is not None)
    ids: set[str] = set()
    buffer = agent.get("message_buffer")
    for index, message in enumerate(buffer if isinstance(buffer, Sequence) else ()):
        if not isinstance(message, Mapping):
            continue
        pair, own = _pair(message), message.get("id")
        if pair is not None:
            held[pair] += 1
        is_again = isinstance(own, str) and own in ids
        if is_again or (pair is not None and held[pair] > max(said[pair], 1)):
            yield index
        if isinstance(own, str):
            ids.add(own)


def _context(agent: Mapping[str, Any]) -> list[Any]:
    found: Any = agent
    for name in (*_CONTEXTS, "messages"):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found if isinstance(found, list) else []


def _pair(message: Mapping[str, Any]) -> tuple[str, str] | None:
    source, content = message.get("source"), message.get("content")
    return (source, content) if isinstance(source, str) and isinstance(content, str) else None


def _read_pair(message: Any) -> tuple[str, str] | None:
    is_read = isinstance(message, Mapping) and message.get("type") == _MODEL_SAYS
    return _pair(message) if is_read else None


def _states(state: Mapping[str, Any]) -> Mapping[str, Any]:
    found = state.get("agent_states")
    return found if isinstance(found, Mapping) else {}


def _has_thread(state: Any) -> bool:
    return isinstance(state, Mapping) and isinstance(state.get("message_thread"), list)


def _digest(key: HmacKey, value: Any) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, default=str)
    return key.digest(STATE, b"autogen\0" + text.encode())
