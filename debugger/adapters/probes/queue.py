"""A Redis stream or list as it waits to be worked off: entries, and who holds which of them."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from branches.evidence.domains import PART, STATE
from branches.ports import Fact, Moment, StateMeasurement, Target
from debugger.adapters.options import TargetUnfit, text
from debugger.adapters.outbound import Unreachable
from debugger.adapters.probes.no_journal import NoJournal
from debugger.adapters.redis_wire import Redis, Refused, Reply, redis

MOST_ENTRIES: Final = 100_000
MOST_GROUPS: Final = 1_000
_PAGE: Final = 500
_TRIES: Final = 2


class _Changed(Exception):
    pass


@dataclass(frozen=True, slots=True)
class _Queue:
    """A queue's kind, two digests and three numbers."""

    kind: str
    entries: bytes = b""
    owners: bytes = b""
    depth: int = 0
    groups: int = 0
    pending: int = 0


class QueueProbe(NoJournal):
    """Options: `url` (`redis://host:port/database`, or rediss), `name` (the key), `password_env`, `allow`."""

    part_names = ("entries", "groups")
    limits = (
        "The entries in their order, and which consumer of which group holds which of them, are compared;"
        " idle times, the key's expiry and other keys are not."
    )
    remedy = "Put back what was taken out, or acknowledge that the queue went on, and probe again."

    def measure(self, target: Target, moment: Moment) -> StateMeasurement:
        """Read the queue page by page without taking anything; one that changed meanwhile is read again."""
        del moment
        try:
            name = text(target, "name").encode()
            with redis(target) as server:
                found = _still(server, name)
        except (TargetUnfit, UnicodeEncodeError):
            return StateMeasurement(None, reachable=False, problem="target_unfit")
        except Unreachable as error:
            return StateMeasurement(None, reachable=False, problem=error.problem)
        except ValueError:  # an answer with too few or too many members
            return StateMeasurement(None, reachable=False, problem="wire_form")
        return _measurement(target, found)


def _measurement(target: Target, found: _Queue) -> StateMeasurement:
    key = target.key
    facts: dict[str, Fact] = {
        "kind": found.kind,
        "depth": found.depth,
        "groups": found.groups,
        "pending": found.pending,
    }
    whole = _framed((b"queue", found.kind.encode(), found.entries, found.owners))
    halves = zip(QueueProbe.part_names, (found.entries, found.owners), strict=True)
    parts = {key.digest(PART, name): key.digest(STATE, b"queue\0" + half) for name, half in halves if half}
    return StateMeasurement(key.digest(STATE, whole), facts, parts=parts)


def _still(server: Redis, name: bytes) -> _Queue:
    for _ in range(_TRIES):
        try:
            return _watched(server, name)
        except _Changed:
            continue
    raise Unreachable("changing")


def _watched(server: Redis, name: bytes) -> _Queue:
    """Read under WATCH: an empty transaction afterwards fails if the key was touched. Raises _Changed."""
    server.ask("UNWATCH")
    server.ask("WATCH", name)
    try:
        found = _read(server, name)
    except Refused:  # also because the key went away in the middle
        if _is_touched(server):
            raise _Changed from None
        raise
    if _is_touched(server):
        raise _Changed
    return found


def _is_touched(server: Redis) -> bool:
    server.ask("MULTI")
    return server.ask("EXEC") is None


def _read(server: Redis, name: bytes) -> _Queue:
    kind = server.ask("TYPE", name)
    if kind == b"none":
        return _Queue("absent")
    if kind == b"list":
        return _list(server, name)
    if kind == b"stream":
        return _stream(server, name)
    raise Unreachable("wrong_kind")


def _list(server: Redis, name: bytes) -> _Queue:
    depth = _bounded(server.ask("LLEN", name))
    whole, count = hashlib.sha256(), 0
    while count < depth:
        page = _items(server.ask("LRANGE", name, count, count + _PAGE - 1))
        if not page:
            raise _Changed
        for item in page:
            whole.update(_framed([_bytes(item)]))
        count += len(page)
    if count != depth:
        raise _Changed
    return _Queue("list", whole.digest(), depth=depth)


def _stream(server: Redis, name: bytes) -> _Queue:
    depth = _bounded(server.ask("XLEN", name))
    before = _owners(server, name)
    whole, count, start = hashlib.sha256(), 0, b"-"
    while page := _items(server.ask("XRANGE", name, start, "+", "COUNT", _PAGE)):
        for entry in page:
            own, fields = _pair(entry)
            whole.update(_framed([own, *map(_bytes, _items(fields))]))
            start = b"(" + own
        count += len(page)
    # Who holds what changes without the key counting as touched.
    if count != depth or _owners(server, name) != before:
        raise _Changed
    owners, groups, pending = before
    return _Queue("stream", whole.digest(), owners, depth, groups, pending)


def _owners(server: Redis, name: bytes) -> tuple[bytes, int, int]:
    """Return a digest of the groups, their consumers and what each holds, and how many both are."""
    groups = [_table(each) for each in _items(server.ask("XINFO", "GROUPS", name))]
    if len(groups) > MOST_GROUPS:
        raise Unreachable("too_many_entries")
    digests, total = [], 0
    for group in groups:
        own, last = _bytes(group.get(b"name")), _bytes(group.get(b"last-delivered-id"))
        consumers = sorted(
            _bytes(_table(each).get(b"name")) for each in _items(server.ask("XINFO", "CONSUMERS", name, own))
        )
        held, pending = _pending(server, name, own)
        total += pending
        if total > MOST_ENTRIES:
            raise Unreachable("too_many_entries")
        digests.append(_framed([own, last, _framed(consumers), held]))
    return hashlib.sha256(_framed(sorted(digests))).digest(), len(groups), total


def _pending(server: Redis, name: bytes, group: bytes) -> tuple[bytes, int]:
    """Return a digest of what a group was given and has not acknowledged, and how many entries it is."""
    whole, count, start = hashlib.sha256(), 0, b"-"
    while page := _items(server.ask("XPENDING", name, group, start, "+", _PAGE)):
        for each in page:
            own, consumer, _, deliveries = _items(each)
            whole.update(_framed([_bytes(own), _bytes(consumer), b"%d" % _number(deliveries)]))
            start = b"(" + _bytes(own)
        count += len(page)
        if count > MOST_ENTRIES:
            raise Unreachable("too_many_entries")
    return whole.digest(), count


def _bounded(reply: Reply) -> int:
    depth = _number(reply)
    if depth > MOST_ENTRIES:
        raise Unreachable("too_many_entries")
    return depth


def _pair(reply: Reply) -> tuple[bytes, Reply]:
    own, fields = _items(reply)
    return _bytes(own), fields


def _table(reply: Reply) -> dict[bytes, Reply]:
    flat = _items(reply)
    return dict(zip(map(_bytes, flat[::2]), flat[1::2], strict=True))


def _items(reply: Reply) -> list[Reply]:
    if not isinstance(reply, list):
        raise Unreachable("wire_form")
    return reply


def _bytes(reply: Reply) -> bytes:
    if not isinstance(reply, bytes):
        raise Unreachable("wire_form")
    return reply


def _number(reply: Reply) -> int:
    if not isinstance(reply, int):
        raise Unreachable("wire_form")
    return reply


def _framed(contents: Iterable[bytes]) -> bytes:
    return b"".join(b"%d:%b" % (len(each), each) for each in contents)
