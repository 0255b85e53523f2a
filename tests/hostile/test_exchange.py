"""Where content meets: only the asked recorder answers, once, in time, and nothing is remembered."""

import os
import threading
import time
from collections.abc import Iterator
from typing import Final

import pytest

from branches.evidence import ids
from branches.queries.content import Wanted
from debugger import exchange as module
from debugger.exchange import ContentAnswer, ContentRequest, Exchange, MemoryExchange, RedisExchange
from tests.patience import PATIENCE_S

REDIS: Final = os.environ.get("BRANCHGATE_TEST_REDIS", "redis://127.0.0.1:6379/9")
GONE: Final = "redis://127.0.0.1:1/0"


def has_redis() -> bool:
    import redis

    try:
        return bool(redis.Redis.from_url(REDIS, socket_connect_timeout=10).ping())
    except redis.RedisError:
        return False


@pytest.fixture(params=["memory", "redis"])
def place(request: pytest.FixtureRequest) -> Iterator[Exchange]:
    """Both places; without a Redis at hand, the one in memory stands in, so that nothing is skipped."""
    made: Exchange = RedisExchange(REDIS) if request.param == "redis" and has_redis() else MemoryExchange()
    yield made
    if isinstance(made, RedisExchange):
        made._redis.close()


def asked() -> ContentRequest:
    return ContentRequest(ids.mint("req"), ids.mint("run"), "message", "subject", None, "key")


def answer(text: str) -> ContentAnswer:
    return ContentAnswer(text, None)


def test_only_the_recorder_that_was_asked_can_answer(place: Exchange) -> None:
    right, wrong, request = ids.mint("rec"), ids.mint("rec"), asked()
    place.ask(right, request)
    assert place.take(wrong, 0.05) == []
    assert not place.answer(wrong, request.request, answer("forged"))
    assert place.take(right, 1) == [request]
    assert place.answer(right, request.request, answer("true"))
    assert place.collect(request.request, 1) == answer("true")


def test_an_answer_is_read_once_and_cannot_be_replayed(place: Exchange) -> None:
    recorder, request = ids.mint("rec"), asked()
    place.ask(recorder, request)
    assert place.answer(recorder, request.request, answer("first"))
    place.answer(recorder, request.request, answer("second"))
    assert place.collect(request.request, 1) == answer("first")
    assert place.collect(request.request, 0.05) is None
    assert not place.answer(recorder, request.request, answer("third"))
    assert place.collect(request.request, 0.05) is None


def test_an_answer_nobody_asked_for_is_refused(place: Exchange) -> None:
    assert not place.answer(ids.mint("rec"), ids.mint("req"), answer("unasked"))


def test_two_who_ask_at_once_get_their_own_answers(place: Exchange) -> None:
    recorder = ids.mint("rec")
    requests = [asked() for _ in range(8)]
    found: dict[str, ContentAnswer | None] = {}

    def person(request: ContentRequest) -> None:
        place.ask(recorder, request)
        found[request.request] = place.collect(request.request, module.ANSWER_LIVES_S)

    def machine() -> None:
        seen = 0
        while seen < len(requests):
            for request in place.take(recorder, module.ANSWER_LIVES_S):
                place.answer(recorder, request.request, answer(request.request))
                seen += 1

    threads = [threading.Thread(target=person, args=(request,)) for request in requests]
    threads.append(threading.Thread(target=machine))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert found == {request.request: answer(request.request) for request in requests}


def test_one_request_is_taken_by_one_of_two_polls(place: Exchange) -> None:
    recorder, request = ids.mint("rec"), asked()
    taken: list[ContentRequest] = []
    until = time.monotonic() + PATIENCE_S

    def poll() -> None:
        while not taken and time.monotonic() < until:
            taken.extend(place.take(recorder, 0.5))

    threads = [threading.Thread(target=poll) for _ in range(4)]
    for thread in threads:
        thread.start()
    place.ask(recorder, request)
    for thread in threads:
        thread.join(2 * PATIENCE_S)
    assert taken == [request]


def test_what_nobody_waits_for_any_more_is_not_handed_out(place: Exchange) -> None:
    recorder, request = ids.mint("rec"), asked()
    place.ask(recorder, request)
    assert place.collect(request.request, 0.05) is None
    assert place.take(recorder, 0.05) == []


def test_a_request_ends_after_its_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    place, recorder, request = MemoryExchange(), ids.mint("rec"), asked()
    place.ask(recorder, request)
    real = time.monotonic
    monkeypatch.setattr(module.time, "monotonic", lambda: real() + module.ANSWER_LIVES_S + 1)
    assert not place.answer(recorder, request.request, answer("late"))
    assert place.take(recorder, 0) == []


def test_recorders_that_never_come_leave_nothing_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    place, recorders = MemoryExchange(), [ids.mint("rec") for _ in range(50)]
    real, shift = time.monotonic, [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: real() + shift[0])
    for number in range(2000):
        shift[0] += 1
        request = asked()
        place.ask(recorders[number % 50], request)
        place.answer(recorders[number % 50], request.request, answer("x"))
    held = sum(map(len, place._asked.values())) + len(place._open) + len(place._answers)
    assert held <= 3 * (module.ANSWER_LIVES_S + 1)


def test_a_redis_that_is_gone_stands_in_nobodys_way(monkeypatch: pytest.MonkeyPatch) -> None:
    place, recorder = RedisExchange(GONE), ids.mint("rec")
    began = time.monotonic()
    assert place.take(recorder, 0.2) == []
    assert time.monotonic() - began >= 0.2  # a recorder that polls must not spin
    assert not place.answer(recorder, ids.mint("req"), answer("x"))
    monkeypatch.setattr(module, "exchange", lambda: place)
    wanted = Wanted(recorder, ids.mint("run"), "message", "s", None)
    assert module.fetch_content(wanted, wait_s=0.1) == (None, "recorder_offline")
