"""The queue probe on the wire: a server that breaks off or speaks otherwise, and who may ask it."""

import re
import socket
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from debugger.adapters import redis_wire
from tests.adapters import queues
from tests.adapters.places import MARKER
from tests.adapters.queues import fill, measured, problem
from tests.adapters.wire import REDIS, REDIS_DATABASE, leaves_nothing_open, wire
from tests.patience import ends

server = queues.server
name = queues.name


def test_it_reads_no_more_bytes_than_it_may(server: Any, name: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(redis_wire, "MOST_BYTES", 200_000)
    server.rpush(name, *[b"x" * 1000] * 150)
    assert measured(name).facts["depth"] == 150
    server.rpush(name, b"x" * 100_000)
    assert problem(name) == "too_large"


@pytest.mark.parametrize("most", [0, 3, 40, 300, 5000])
@pytest.mark.parametrize(
    ("then", "word"), [("stall", "timeout"), ("cut", "connection_lost"), ("drip", "timeout")]
)
def test_it_ends_where_the_server_falls_silent_slows_down_or_is_cut(
    server: Any, name: str, then: str, word: str, most: int, monkeypatch: Any
) -> None:
    if word == "timeout":
        monkeypatch.setattr(redis_wire, "READ_S", 0.5)
    fill(server, name)
    for number in range(10, 600):
        server.xadd(name, {"task": "x" * 40}, id=f"{number}-0")
    with leaves_nothing_open(), ends(), wire(REDIS, then=then, most=most) as between:
        assert problem(name, port=between.port) == word


@pytest.mark.parametrize(
    ("said", "word"),
    [
        (b"", "connection_lost"),
        (b"HTTP/1.1 200 OK\r\n\r\n", "wire_form"),
        (b"-LOADING " + MARKER.encode() + b"\r\n", "busy"),
        (b"-NOAUTH " + MARKER.encode() + b"\r\n", "not_authorized"),
        (b"-" + MARKER.encode() + b"\r\n", "refused"),
        (b"+OK\r\n" * 3 + b"*1\r\n" * 20, "wire_form"),
        (b"+OK\r\n" * 3 + b"+stream\r\n+many\r\n", "wire_form"),
        (b"+OK\r\n" * 3 + b"+list\r\n:1\r\n*1\r\n$-1\r\n", "wire_form"),
        (b"+OK\r\n" * 3 + b"+list\r\n:1\r\n*1\r\n$99999999999\r\n", "too_large"),
        (b"+OK\r\n" * 3 + b"+list\r\n:1\r\n*99999999999\r\n", "too_large"),
        (b"+OK\r\n" * 3 + b"+list\r\n:1\r\n*1\r\n$-7\r\n", "wire_form"),
        (b"+OK\r\n" * 3 + b"+list\r\n:1\r\n*1\r\n$2\r\nabcd", "connection_lost"),
        (b"+OK\r\n" * 3 + b"+list\r\n:x\r\n", "wire_form"),
        (b"+OK\r\n" * 3 + b"+stream\r\n:1\r\n*1\r\n*3\r\n+a\r\n+b\r\n+c\r\n", "wire_form"),
        (b"+OK\r\n" * 3 + b"$4\r\nnone\r\n+OK\r\n:1\r\n", None),
        (b"x" * 100_000, "wire_form"),
        (b"x" * 1000, "connection_lost"),
    ],
)
def test_it_believes_no_server_that_speaks_otherwise(said: bytes, word: str | None) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection, suppress(OSError):
                connection.sendall(said)
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(4096):
                    pass

        answering = threading.Thread(target=answer, daemon=True)
        answering.start()
        found = measured("a", port=listener.getsockname()[1])
        answering.join()
    assert found.problem == word
    assert (found.fingerprint is None) == (word is not None)
    assert MARKER not in repr(found)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"allow": None}, "address_refused"),
        ({"url": "redis://127.0.0.1:1/0"}, "no_connection"),
        ({"url": "rediss://127.0.0.1:6379/0"}, "no_connection"),
        ({"url": "unix:///var/run/redis.sock"}, "target_unfit"),
        ({"url": "redis:///var/run/redis.sock"}, "target_unfit"),
        ({"url": "redis://:secret@127.0.0.1/0"}, "target_unfit"),
        ({"url": "redis://127.0.0.1/x"}, "target_unfit"),
        ({"url": "redis://127.0.0.1/-1"}, "target_unfit"),
        ({"url": "redis://127.0.0.1/0?db=1"}, "target_unfit"),
        ({"url": "redis://127.0.0.1/999999"}, "refused"),
        ({"allow": "everything"}, "target_unfit"),
        ({"password_env": "BRANCHGATE_NO_SUCH"}, "secret_missing"),
        ({"password_env": "{env:BRANCHGATE_TEST_SECRET}"}, "refused"),
        ({"password_env": "{env:BRANCHGATE_TEST_SECRET}", "url": "redis://8.8.8.8/0"}, "secret_in_clear"),
    ],
)
def test_it_connects_only_as_the_target_says(
    server: Any, options: dict[str, Any], word: str, monkeypatch: Any
) -> None:
    monkeypatch.setenv("BRANCHGATE_TEST_SECRET", MARKER)  # this server wants no password, and says so
    if str(options.get("url")).startswith("rediss:"):  # nor does it speak of secrets: it waits for more
        monkeypatch.setattr(redis_wire, "CONNECT_S", 1.0)
    assert problem("a", **options) == word


def test_a_user_who_may_only_read_is_enough_and_one_who_may_not_is_refused(
    server: Any, name: str, monkeypatch: Any
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "probes" / "queue.md").read_text()
    permissions = re.findall(r"\+[a-z]+", re.search(r"`(\+watch [^`]+)`", page)[1])  # type: ignore[index]
    user = f"branchgate-{uuid4().hex}"
    url = f"redis://{user}@127.0.0.1:{REDIS[1]}/{REDIS_DATABASE}"
    monkeypatch.setenv("BRANCHGATE_TEST_SECRET", MARKER)
    fill(server, name)
    try:
        server.execute_command("ACL", "SETUSER", user, "on", f">{MARKER}", "~*", *permissions)
        assert measured(name, url=url, password_env="BRANCHGATE_TEST_SECRET") == measured(name)
        server.rpush(f"{name}:other", "a")
        assert measured(f"{name}:other", url=url, password_env="BRANCHGATE_TEST_SECRET").facts["depth"] == 1
        monkeypatch.setenv("BRANCHGATE_TEST_SECRET", "another")
        assert problem(name, url=url, password_env="BRANCHGATE_TEST_SECRET") == "not_authorized"
        server.execute_command("ACL", "SETUSER", user, "-xpending", "nopass")
        assert problem(name, url=url, password_env="BRANCHGATE_TEST_SECRET") == "not_authorized"
    finally:
        server.execute_command("ACL", "DELUSER", user)


@pytest.mark.parametrize("given", ["", "\udcff", 7])
def test_it_asks_for_no_key_without_a_name(given: Any) -> None:
    assert problem(given) == "target_unfit"
