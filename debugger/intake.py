"""Pieces of running traces: kept for minutes, in memory or in Redis, so that each is read with the others.

What is kept is what the importer takes of a piece by its allow-list, never a request's body, and it is sealed
so that only a web process of this installation opens it. Nothing of it is written anywhere but as receipts.
"""

import time
import zlib
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from threading import Lock
from typing import Any, Final, Protocol

from django.conf import settings
from nacl.exceptions import CryptoError
from nacl.secret import SecretBox

from branches.evidence.domains import PART, THREAD
from branches.evidence.keys import derive_key
from branches.models import Workspace
from branches.ports import Earlier
from branches.queries.secrets import workspace_key

_LEAST: Final = 512
"""What a piece counts for at least: its place costs more than its bytes."""
_CUT: Final = ""


@dataclass(frozen=True, slots=True)
class Limits:
    """How long a trace is kept after its newest piece, and how many bytes in all and of one trace.

    Bytes are counted before they are packed; where there are too many in all, the trace goes whose newest
    piece is the oldest.
    """

    kept_s: int = 300
    most_bytes: int = 64 * 1024 * 1024
    most_of_one: int = 16 * 1024 * 1024


LIMITS: Final = Limits()


@dataclass(frozen=True, slots=True)
class Piece:
    """A sealed piece: what it counts for, and a mark that is the same whenever the same is sent again."""

    mark: str
    size: int
    sealed: bytes


@dataclass(frozen=True, slots=True)
class Found:
    """What is kept of a trace; cut where a piece of it was more than may be kept."""

    sealed: tuple[bytes, ...] = ()
    is_cut: bool = False


class ShelfGone(Exception):
    """The place where pieces are kept does not answer."""


class Shelf(Protocol):
    """Where pieces lie, by the name of their trace."""

    def keep(self, pieces: Mapping[str, Piece]) -> None:
        """Put a piece to each of these traces. Raises ShelfGone."""
        ...

    def find(self, names: Iterable[str]) -> list[Found]:
        """Return what is kept of these traces, in their order. Raises ShelfGone."""
        ...


@dataclass(slots=True)
class _Trace:
    at: float = 0.0
    size: int = 0
    pieces: dict[str, bytes] = field(default_factory=dict)
    is_cut: bool = False


class MemoryShelf:
    """For one web process with threads."""

    def __init__(self, limits: Limits = LIMITS, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        self._clock = clock
        self._guard = Lock()
        self._traces: OrderedDict[str, _Trace] = OrderedDict()
        self._bytes = 0

    def keep(self, pieces: Mapping[str, Piece]) -> None:
        with self._guard:
            for name, piece in pieces.items():
                self._forget()
                self._put(self._traces.setdefault(name, _Trace()), piece)
                self._traces.move_to_end(name)
                self._forget()

    def find(self, names: Iterable[str]) -> list[Found]:
        with self._guard:
            self._forget()
            traces = [self._traces.get(name, _Trace()) for name in names]
            return [Found(tuple(trace.pieces.values()), trace.is_cut) for trace in traces]

    def _put(self, trace: _Trace, piece: Piece) -> None:
        trace.at = self._clock()
        if piece.mark in trace.pieces:
            return
        if trace.size + piece.size > self._limits.most_of_one:
            trace.is_cut = True
            return
        trace.pieces[piece.mark] = piece.sealed
        trace.size += piece.size
        self._bytes += piece.size

    def _forget(self) -> None:
        oldest = self._clock() - self._limits.kept_s
        while self._traces:
            first = next(iter(self._traces.values()))
            if first.at >= oldest and self._bytes <= self._limits.most_bytes:
                return
            self._bytes -= self._traces.popitem(last=False)[1].size


_KEEP: Final = """
local trace, index, sizes = KEYS[1], KEYS[2], KEYS[3]
local mark, size, sealed = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local kept, most, most_of_one = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local clock = redis.call('TIME')
local now = tonumber(clock[1]) + tonumber(clock[2]) / 1000000
local function held(name) return tonumber(redis.call('HGET', sizes, name) or 0) end
local function forget(name)
  local freed = held(name)
  if freed > 0 then redis.call('HINCRBY', sizes, '', -freed) end
  redis.call('HDEL', sizes, name)
  redis.call('ZREM', index, name)
  redis.call('DEL', name)
end
for _, old in ipairs(redis.call('ZRANGEBYSCORE', index, '-inf', now - kept)) do forget(old) end
if redis.call('EXISTS', trace) == 0 then forget(trace) end
if redis.call('HEXISTS', trace, mark) == 0 then
  if held(trace) + size > most_of_one then
    redis.call('HSET', trace, '', '')
  else
    redis.call('HSET', trace, mark, sealed)
    redis.call('HINCRBY', sizes, trace, size)
    redis.call('HINCRBY', sizes, '', size)
  end
end
redis.call('ZADD', index, now, trace)
for _, name in ipairs({trace, index, sizes}) do redis.call('EXPIRE', name, kept) end
while held('') > most and redis.call('ZCARD', index) > 0 do
  forget(redis.call('ZRANGE', index, 0, 0)[1])
end
"""


class RedisShelf:
    """For several web processes: each sees every piece, and the limits are those of all of them together."""

    def __init__(self, url: str, limits: Limits = LIMITS, prefix: str = "branchgate:traces") -> None:
        import redis

        self._redis: Any = redis.Redis.from_url(url, socket_connect_timeout=2, socket_timeout=5)
        self._gone: type[Exception] = redis.RedisError
        self._keep: Any = self._redis.register_script(_KEEP)
        self._limits = limits
        self._prefix = prefix

    def keep(self, pieces: Mapping[str, Piece]) -> None:
        limits, prefix = self._limits, self._prefix
        bounds = (limits.kept_s, limits.most_bytes, limits.most_of_one)
        pipe = self._redis.pipeline(transaction=False)
        for name, piece in pieces.items():
            keys = (f"{prefix}:{name}", f"{prefix}:index", f"{prefix}:sizes")
            self._keep(keys, (piece.mark, piece.size, piece.sealed, *bounds), client=pipe)
        self._asked(pipe)

    def find(self, names: Iterable[str]) -> list[Found]:
        pipe = self._redis.pipeline(transaction=False)
        for name in names:
            pipe.hgetall(f"{self._prefix}:{name}")
        found = self._asked(pipe)
        return [
            Found(tuple(each for mark, each in kept.items() if mark), _CUT.encode() in kept) for kept in found
        ]

    def _asked(self, pipe: Any) -> list[Any]:
        try:
            return list(pipe.execute())
        except self._gone as error:
            raise ShelfGone from error


@cache
def shelf() -> Shelf:
    """Return this installation's shelf."""
    url = settings.BRANCHGATE_EXCHANGE_URL
    return RedisShelf(url) if url else MemoryShelf()


def beside(workspace: Workspace, pieces: Mapping[str, bytes]) -> Callable[[], Earlier]:
    """Keep what was taken of a request, by trace; what is returned then looks at all that is kept of those.

    Where the shelf is gone the request is read alone, and all its traces count as cut.
    """
    names = {trace: workspace_key(workspace).digest(THREAD, trace) for trace in pieces}
    try:
        shelf().keep({names[trace]: _sealed(workspace, piece) for trace, piece in pieces.items()})
    except ShelfGone:
        return lambda: Earlier(cut=frozenset(pieces))
    return lambda: _earlier(workspace, names)


def _earlier(workspace: Workspace, names: Mapping[str, str]) -> Earlier:
    try:
        found = shelf().find(names.values())
    except ShelfGone:
        return Earlier(cut=frozenset(names))
    cut = {trace for trace, kept in zip(names, found, strict=True) if kept.is_cut}
    pieces: list[bytes] = []
    for trace, kept in zip(names, found, strict=True):
        opened = _opened(workspace, kept.sealed)
        pieces += opened
        if len(opened) < len(kept.sealed):
            cut.add(trace)
    return Earlier(tuple(pieces), frozenset(cut))


@cache
def _box(workspace: str) -> SecretBox:
    return SecretBox(derive_key(settings.BRANCHGATE_MASTER_KEY, f"kept-traces:{workspace}"))


def _sealed(workspace: Workspace, content: bytes) -> Piece:
    mark = workspace_key(workspace).digest(PART, content)
    sealed = bytes(_box(workspace.uid).encrypt(zlib.compress(content, 1)))
    return Piece(mark, max(_LEAST, len(content)), sealed)


def _opened(workspace: Workspace, sealed: Collection[bytes]) -> list[bytes]:
    """Return what opens: what somebody else put there, or another installation, does not."""
    opened = []
    for each in sealed:
        try:
            opened.append(zlib.decompress(_box(workspace.uid).decrypt(each)))
        except (CryptoError, ValueError, zlib.error):
            continue
    return opened
