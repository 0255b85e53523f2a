"""Pieces of one trace meet whichever process they come to; what is kept of them is sealed and bounded."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import cycle
from typing import Any
from uuid import uuid4

import pytest

from branches.commands.import_source import Declared, import_source
from branches.models import Receipt, Run
from branches.ports import Earlier
from branches.queries.audits import audits_json, audits_now
from branches.queries.clock import now
from debugger import intake
from debugger.intake import Found, Limits, MemoryShelf, Piece, RedisShelf, Shelf, ShelfGone, beside
from tests.adapters.otlp_requests import JSON, PROTOBUF, agent, as_protobuf, request
from tests.api.trace_pieces import MARKER, REDIS, a_trace, desk, has_redis, post, seen
from tests.hostile.arena import ROOT, Arena, arena

GONE = "redis://127.0.0.1:1/0"
type Made = Callable[..., Shelf]


@pytest.fixture
def redis_shelf() -> Iterator[Made]:
    """Make shelves of one installation, as each of its web processes does."""
    import redis

    if not has_redis():
        pytest.skip("no Redis on 127.0.0.1:6379")
    prefix = f"branchgate-test:{uuid4().hex}"
    yield lambda **limits: RedisShelf(REDIS, Limits(**limits), prefix)
    with redis.Redis.from_url(REDIS) as server:
        for name in server.scan_iter(f"{prefix}:*"):
            server.delete(name)


@pytest.fixture(params=["memory", "redis"])
def made(request: pytest.FixtureRequest) -> Made:
    if request.param == "redis":
        found: Made = request.getfixturevalue("redis_shelf")
        return found
    return lambda **limits: MemoryShelf(Limits(**limits))


@pytest.fixture
def processes(redis_shelf: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each request come to the other of two web processes."""
    each = cycle([redis_shelf(), redis_shelf()])
    shelf = next(each)

    def other(workspace: Any, pieces: Any) -> Callable[[], Earlier]:
        nonlocal shelf
        shelf = next(each)
        return beside(workspace, pieces)

    monkeypatch.setattr("debugger.api.traces.beside", other)
    monkeypatch.setattr(intake, "shelf", lambda: shelf)


def piece(word: str, size: int = 10) -> Piece:
    return Piece(word, size, word.encode())


def sealed(shelf: Shelf, name: str) -> list[bytes]:
    (found,) = shelf.find([name])
    return sorted(found.sealed)


def test_a_shelf_gives_back_what_it_was_given_of_each_trace(made: Made) -> None:
    shelf = made()
    shelf.keep({"a": piece("1"), "b": piece("2")})
    shelf.keep({"a": piece("3")})
    assert sealed(shelf, "a") == [b"1", b"3"]
    assert shelf.find(["b", "c"]) == [Found((b"2",)), Found()]


def test_the_same_piece_sent_again_is_kept_once(made: Made) -> None:
    shelf = made(most_of_one=25)
    for _ in range(9):
        shelf.keep({"a": piece("1")})
    shelf.keep({"a": piece("2")})
    assert shelf.find(["a"])[0].is_cut is False
    assert sealed(shelf, "a") == [b"1", b"2"]


def test_a_trace_that_is_too_large_keeps_what_it_has_and_is_cut(made: Made) -> None:
    shelf = made(most_of_one=25)
    for number in range(4):
        shelf.keep({"a": piece(str(number)), "b": piece("b")})
    assert shelf.find(["a", "b"]) == [Found((b"0", b"1"), is_cut=True), Found((b"b",))]


def test_where_all_is_too_much_the_trace_goes_that_was_quiet_longest(made: Made) -> None:
    shelf = made(most_bytes=35)
    for name in ("a", "b", "c"):
        shelf.keep({name: piece(name)})
    shelf.keep({"a": piece("more")})
    shelf.keep({"d": piece("d", 5)})
    assert [sealed(shelf, name) for name in "abcd"] == [[b"a", b"more"], [], [b"c"], [b"d"]]
    for number in range(50):
        shelf.keep({f"n{number}": piece("n")})
    assert sum(len(each.sealed) for each in shelf.find([f"n{number}" for number in range(50)])) == 3


def test_a_trace_is_forgotten_some_time_after_its_newest_piece(redis_shelf: Made) -> None:
    shelf = redis_shelf(kept_s=1, most_bytes=25)
    shelf.keep({"a": piece("1")})
    limit = time.monotonic() + 60
    while sealed(shelf, "a") and time.monotonic() < limit:
        time.sleep(0.1)
    assert sealed(shelf, "a") == []
    # What went by itself counts no more.
    shelf.keep({"a": piece("2")})
    shelf.keep({"b": piece("3")})
    assert [sealed(shelf, name) for name in "ab"] == [[b"2"], [b"3"]]


def test_memory_forgets_by_its_clock() -> None:
    moment = [0.0]
    shelf = MemoryShelf(Limits(kept_s=10), lambda: moment[0])
    shelf.keep({"a": piece("1")})
    moment[0] = 9.0
    shelf.keep({"a": piece("2"), "b": piece("3")})
    moment[0] = 18.0
    assert [sealed(shelf, name) for name in "ab"] == [[b"1", b"2"], [b"3"]]
    moment[0] = 20.0
    assert shelf.find(["a", "b"]) == [Found(), Found()]


def test_two_processes_see_one_shelf_and_share_its_limits(redis_shelf: Made) -> None:
    one, other = redis_shelf(most_bytes=25), redis_shelf(most_bytes=25)
    one.keep({"a": piece("1")})
    other.keep({"a": piece("2")})
    assert sealed(one, "a") == sealed(other, "a") == [b"1", b"2"]
    other.keep({"b": piece("3")})
    assert [sealed(one, name) for name in "ab"] == [[], [b"3"]]


def test_everything_in_redis_ends_by_itself(redis_shelf: Made) -> None:
    import redis

    shelf = redis_shelf()
    shelf.keep({"a": piece("1")})
    assert isinstance(shelf, RedisShelf)
    with redis.Redis.from_url(REDIS) as server:
        names = list(server.scan_iter(f"{shelf._prefix}:*"))
        assert len(names) == 3
        assert all(0 < server.ttl(name) <= 300 for name in names)


@pytest.mark.django_db
@pytest.mark.parametrize("backwards", [False, True], ids=["root last", "root first"])
@pytest.mark.parametrize("cut", [1, 2, 3, 4])
@pytest.mark.usefixtures("processes")
def test_a_trace_in_two_pieces_at_two_processes_is_the_run_of_the_whole(cut: int, backwards: bool) -> None:
    whole, token, _ = desk("whole")
    assert post(token, *a_trace()).status_code == 200
    apart, token, _ = desk("apart")
    spans = a_trace()
    pieces = [spans[:cut], spans[cut:]]
    for each in reversed(pieces) if backwards else pieces:
        answer = post(token, *each)
        assert (answer.status_code, answer.content) == (200, b"")
    assert seen(apart) == seen(whole)
    assert seen(apart)["audits"]["stops"] == [{"state": "failed", "reasons": ["tool_failed"]}]
    before = Receipt.objects.count()
    for each in pieces:
        post(token, *each)
    assert Receipt.objects.count() == before


@pytest.mark.django_db
@pytest.mark.parametrize("sampled_at", [0, 4])
@pytest.mark.parametrize("media", [PROTOBUF, JSON])
@pytest.mark.usefixtures("processes")
def test_a_run_declared_whole_is_sampled_once_a_piece_says_so(sampled_at: int, media: str) -> None:
    """The first span is of a file declared whole, of a workflow with a contract; the rest comes live."""
    verdicts = []
    for name, threshold in (("whole", "ot=th:0"), ("sampled", "ot=th:c")):
        workspace, token, workflow = desk(name)
        spans = a_trace()
        spans[sampled_at] = replace(spans[sampled_at], trace_state=threshold)
        file = request(as_protobuf(spans[:1]))
        declared = Declared(workflow, is_whole=True)
        import_source(workspace=workspace, importer="otlp", files=[file], declared=declared)
        for each in spans:
            post(token, each, media=media)
        topology = audits_json(audits_now(Run.objects.get(workspace=workspace), now()))["topology"]
        verdicts.append((topology["verdict"], topology["reasons"]))
    assert verdicts == [("false_complete", ["no_outcome_receipt"]), ("uncertain", ["sampled"])]


@pytest.mark.django_db
def test_nothing_of_what_was_sent_can_be_read_where_it_is_kept(
    redis_shelf: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    import redis

    shelf = redis_shelf()
    monkeypatch.setattr(intake, "shelf", lambda: shelf)
    workspace, token, _ = desk("sealed")
    post(token, agent(1, 0, f"a name {MARKER}", attributes={"gen_ai.prompt": MARKER, "session.id": "user-7"}))
    assert isinstance(shelf, RedisShelf)
    lying = b""
    with redis.Redis.from_url(REDIS) as server:
        for name in server.scan_iter(f"{shelf._prefix}:*"):
            lying += name + (server.dump(name) or b"")
            if server.type(name) == b"hash":
                lying += b"".join(part for pair in server.hgetall(name).items() for part in pair)
    assert len(lying) > 500
    for word in (MARKER, "user-7", "a name", "invoke_agent", f"{1:032x}"):
        assert word.encode() not in lying
    (earlier,) = beside(workspace, {f"{1:032x}": b"other"})().pieces[:1]
    assert b"gen_ai.prompt" not in earlier


@pytest.mark.django_db
def test_what_another_put_there_is_not_read_and_counts_as_cut(made: Made, monkeypatch: Any) -> None:
    shelf = made()
    monkeypatch.setattr(intake, "shelf", lambda: shelf)
    (one, _, _), (other, _, _) = desk("one"), desk("other")
    look = beside(one, {"t": b"[]"})
    assert look() == Earlier((b"[]",))
    assert beside(other, {"t": b"[1]"})() == Earlier((b"[1]",))
    name = intake.workspace_key(one).digest(intake.THREAD, "t")
    shelf.keep({name: piece("forged")})
    shelf.keep({name: Piece("moved", 1, intake._sealed(other, b"[2]").sealed)})
    assert look() == Earlier((b"[]",), frozenset({"t"}))


@pytest.mark.django_db
def test_while_redis_is_gone_a_piece_is_taken_in_alone_and_nothing_good_follows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shelf = RedisShelf(GONE)
    with pytest.raises(ShelfGone):
        shelf.find(["a"])
    monkeypatch.setattr(intake, "shelf", lambda: shelf)
    workspace, token, _ = desk("alone")
    spans = a_trace()
    assert post(token, *spans[:2]).status_code == 200
    assert post(token, *spans[2:]).status_code == 200
    found = seen(workspace)
    assert (found["kinds"]["effect_intended"], found["kinds"]["recording_gap"]) == (2, 1)
    assert found["audits"]["stops"] == [{"state": "uncertain", "reasons": ["cause_not_recorded"]}]


@pytest.mark.django_db
def test_a_trace_larger_than_may_be_kept_says_that_it_is_truncated(monkeypatch: pytest.MonkeyPatch) -> None:
    shelf = MemoryShelf(Limits(most_of_one=1500))
    monkeypatch.setattr(intake, "shelf", lambda: shelf)
    workspace, token, _ = desk("large")
    for each in a_trace(calls=5):
        assert post(token, each).status_code == 200
    found = seen(workspace)
    assert (found["kinds"]["effect_intended"], found["kinds"]["recording_gap"]) == (5, 1)
    assert found["audits"]["stops"] == [{"state": "uncertain", "reasons": ["cause_not_recorded"]}]


_PROGRAM = """
import json, sys
import django
django.setup()
from tests.api import trace_pieces
print(json.dumps(getattr(trace_pieces, sys.argv[1])()))
"""


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arena]:
    """Give a database of its own to web processes that meet in Redis."""
    if not has_redis():
        pytest.skip("no Redis on 127.0.0.1:6379")
    with arena(tmp_path_factory.mktemp("pieces")) as made:
        yield made


def played(ground: Arena, scenario: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, scenario],
        cwd=ROOT,
        env={**ground.env, "BRANCHGATE_EXCHANGE_URL": REDIS},
        timeout=240,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_pieces_that_come_at_once_to_many_processes_are_one_run_and_none_is_lost(ground: Arena) -> None:
    assert played(ground, "at_once") == {"words": ["200"], "same": True, "again": True, "effects": 5}


def test_conversations_that_many_processes_go_on_at_once_lose_nothing(ground: Arena) -> None:
    found = played(ground, "talks_at_once")
    assert found == {"words": ["200"], "runs": 2, "effects": 8, "gapless": True}


def test_who_looked_at_less_does_not_have_the_last_word(ground: Arena) -> None:
    found = played(ground, "held_up_after_looking")
    assert found["stops"] == [{"state": "failed", "reasons": ["tool_failed"]}]
    assert (found["words"], found["same"]) == (["200", "200"], True)


def test_two_processes_that_go_on_with_one_run_count_as_one_writer(ground: Arena) -> None:
    found = played(ground, "held_up_while_counting")
    assert found == {"words": ["200", "200"], "runs": 1, "effects": 3, "gapless": True}


def test_two_processes_that_are_the_first_write_as_one_importer(ground: Arena) -> None:
    found = played(ground, "held_up_as_the_first")
    assert found == {"words": ["200", "200"], "runs": 2, "effects": 6, "gapless": True}
