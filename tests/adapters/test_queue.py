"""The queue probe against a real Redis: streams, lists, who holds what, and what changes meanwhile."""

import time
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from branches.evidence.keys import is_hmac
from branches.ports import StateProbe, Unsupported
from debugger.adapters import redis_wire
from debugger.adapters.probes import queue
from debugger.adapters.probes.queue import QueueProbe
from tests.adapters import queues
from tests.adapters.places import KEY, MARKER, MOMENT, target
from tests.adapters.queues import fill, measured, problem
from tests.patience import PATIENCE_S, ends

server = queues.server
name = queues.name


def test_it_fulfils_its_port_and_has_no_past() -> None:
    probe = QueueProbe()
    assert isinstance(probe, StateProbe)
    for sentence in (probe.limits, probe.remedy):
        assert sentence.endswith(".")
        assert 40 < len(sentence) < 260
    with pytest.raises(Unsupported):
        probe.capture(target(), MOMENT)
    assert probe.measure(target(), MOMENT).problem == "target_unfit"


def test_it_measures_a_stream_and_takes_nothing(server: Any, name: str) -> None:
    fill(server, name)
    before = server.dump(name)
    first = measured(name)
    assert first.facts == {"kind": "stream", "depth": 3, "groups": 1, "pending": 2}
    assert is_hmac(first.fingerprint or "")
    assert set(first.parts) == {KEY.digest("part", part) for part in ("entries", "groups")}
    assert measured(name) == first
    assert server.dump(name) == before
    assert MARKER not in repr(first)


CHANGES: dict[str, Callable[[Any, str], object]] = {
    "one more entry": lambda server, name: server.xadd(name, {"task": "4"}, id="4-0"),
    "an entry gone": lambda server, name: server.xdel(name, "3-0"),
    "an entry held that is gone": lambda server, name: server.xdel(name, "1-0"),
    "another group": lambda server, name: server.xgroup_create(name, "others", id="0"),
    "a group gone": lambda server, name: server.xgroup_destroy(name, "workers"),
    "a group set back": lambda server, name: server.xgroup_setid(name, "workers", "0"),
    "another consumer": lambda server, name: server.xgroup_createconsumer(name, "workers", "third"),
    "one more delivered": lambda server, name: server.xreadgroup("workers", "second", {name: ">"}),
    "one acknowledged": lambda server, name: server.xack(name, "workers", "1-0"),
    "one claimed by another": lambda server, name: server.xclaim(name, "workers", "second", 0, ["1-0"]),
    "one delivered again": lambda server, name: server.xclaim(
        name, "workers", f"first-{MARKER}", 0, ["1-0"], retrycount=7
    ),
    "nothing left": lambda server, name: server.delete(name),
    "a list instead": lambda server, name: server.delete(name) and server.rpush(name, "1"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_it_sees(server: Any, name: str, change: str) -> None:
    fill(server, name)
    before = measured(name)
    CHANGES[change](server, name)
    after = measured(name)
    assert after.reachable
    assert after.fingerprint not in (None, before.fingerprint)


def test_it_is_the_same_stream_after_it_was_put_back_and_time_went_by(server: Any, name: str) -> None:
    fill(server, name)
    first, kept = measured(name), server.dump(name)
    server.xadd(name, {"task": "4"})
    time.sleep(0.05)
    server.restore(name, 0, kept, replace=True)
    assert measured(name) == first
    other = f"{name}:other"
    server.restore(other, 0, kept)
    assert measured(other) == first
    server.expire(name, 1000)
    assert measured(name) == first


def test_it_tells_what_drifted(server: Any, name: str) -> None:
    fill(server, name)
    before = measured(name)
    server.xack(name, "workers", "1-0")
    after = measured(name)
    drifted = {part for part in before.parts if before.parts[part] != after.parts[part]}
    assert drifted == {KEY.digest("part", "groups")}


def test_it_measures_a_list_in_its_order(server: Any, name: str) -> None:
    seen = []
    for items in ([b"a", b"b"], [b"b", b"a"], [b"ab"], [b"a", b"b", b"b"], [b"a", b"\xff\r\n$1"]):
        server.delete(name)
        server.rpush(name, *items)
        found = measured(name)
        assert found.facts == {"kind": "list", "depth": len(items), "groups": 0, "pending": 0}
        seen.append(found.fingerprint)
    assert None not in seen
    assert len(set(seen)) == len(seen)


def test_it_takes_an_absent_key_for_a_state_and_another_sort_for_none(server: Any, name: str) -> None:
    absent = measured(name)
    assert absent.facts == {"kind": "absent", "depth": 0, "groups": 0, "pending": 0}
    assert measured(f"{name}:other") == absent
    server.xadd(name, {"a": "b"}, id="1-0")
    server.xdel(name, "1-0")  # there, and empty
    assert measured(name).fingerprint not in (None, absent.fingerprint)
    server.delete(name)
    server.set(name, MARKER)
    assert problem(name) == "wrong_kind"


@pytest.mark.parametrize("sort", ["stream", "list"])
def test_it_gives_no_digest_of_a_part(server: Any, name: str, sort: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(queue, "MOST_ENTRIES", 1200)
    with server.pipeline() as pipe:
        for number in range(1200):
            pipe.xadd(name, {"n": number}) if sort == "stream" else pipe.rpush(name, number)
        pipe.execute()
    assert measured(name).facts["depth"] == 1200
    server.xadd(name, {"n": 0}) if sort == "stream" else server.rpush(name, 0)
    assert problem(name) == "too_many_entries"


CHURN: dict[str, Callable[[Any, str], object]] = {
    "rotated": lambda server, name: server.lmove(name, name, "LEFT", "RIGHT"),
    "written over": lambda server, name: server.lset(name, 0, uuid4().hex),
}


def meddling(meddle: Callable[[tuple[Any, ...]], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Have something done before each question that the probe asks; it is told the question."""
    ask = redis_wire.Redis.ask

    def meddled(self: Any, *words: Any) -> Any:
        meddle(words)
        return ask(self, *words)

    monkeypatch.setattr(redis_wire.Redis, "ask", meddled)


@pytest.mark.parametrize("churn", CHURN)
def test_it_says_changing_of_a_list_that_never_rests(
    server: Any, name: str, churn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The length stays: only what lies at which place changes, once in the middle of each reading."""
    server.rpush(name, *range(3_000))
    middle = ("LRANGE", name.encode(), 1_500)
    meddling(lambda words: words[:3] == middle and CHURN[churn](server, name), monkeypatch)
    assert {problem(name) for _ in range(3)} == {"changing"}
    monkeypatch.undo()
    assert measured(name).facts["depth"] == 3_000


@pytest.mark.parametrize(
    "change", ["one more entry", "one acknowledged", "one claimed by another", "nothing left"]
)
def test_it_reads_again_what_changed_once_between_two_pages(
    server: Any, name: str, change: str, monkeypatch: Any
) -> None:
    fill(server, name)
    changed: list[object] = []

    def meddle(words: tuple[Any, ...]) -> None:
        if words[0] == "XRANGE" and not changed:
            changed.append(CHANGES[change](server, name))

    meddling(meddle, monkeypatch)
    found = measured(name)
    monkeypatch.undo()
    assert len(changed) == 1
    assert found == measured(name)
    assert found.fingerprint is not None


def test_a_hundred_thousand_entries_are_measured(server: Any, name: str) -> None:
    for _ in range(100):
        with server.pipeline(transaction=False) as pipe:
            for number in range(1000):
                pipe.xadd(name, {"task": number})
            pipe.execute()
    with ends(PATIENCE_S):
        assert measured(name).facts["depth"] == 100_000
