"""Servers that misbehave in the middle: they stall, close half-way, drip, or talk nonsense."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from branches.ports import DestinationAnswer, OutcomeCheck
from debugger.adapters import outbound, postgres
from debugger.adapters.destinations import connections, git_commands, imap_mailbox, sql_rows
from tests.adapters.wire import accepting
from tests.patience import PATIENCE_S, STALL_S

OPERATION = "hmac-sha256:0badc0de:" + "1" * 64 + "+br_abcdefghijklmnopqrstuvwx"
NAMED = OPERATION.replace(":", "-")
OTHER = "hmac-sha256:0badc0de:" + "2" * 64


@contextmanager
def server(talk: Callable[[socket.socket], None]) -> Iterator[int]:
    """A TCP server on the loopback interface that talks as it is told; gives its port."""
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        accepting(listening, lambda: _serve(listening, talk)),
    ):
        yield listening.getsockname()[1]


def _serve(listening: socket.socket, talk: Callable[[socket.socket], None]) -> None:
    with suppress(OSError):
        while True:
            connection, _ = listening.accept()
            threading.Thread(target=_talk, args=(connection, talk), daemon=True).start()


def _talk(connection: socket.socket, talk: Callable[[socket.socket], None]) -> None:
    with connection, suppress(OSError):
        talk(connection)


def says(said: bytes) -> Callable[[socket.socket], None]:
    """Say something once asked, and close."""

    def talk(connection: socket.socket) -> None:
        connection.settimeout(PATIENCE_S)
        with suppress(OSError):
            connection.recv(4096)
        connection.sendall(said)

    return talk


def blurts(said: bytes) -> Callable[[socket.socket], None]:
    """Say something unasked, as servers do that speak first, and close."""
    return lambda connection: connection.sendall(said)


def stalls(said: bytes = b"") -> Callable[[socket.socket], None]:
    """Say something, and then nothing at all, until whoever asked goes away."""

    def talk(connection: socket.socket) -> None:
        connection.sendall(said)
        connection.settimeout(STALL_S)
        with suppress(OSError):
            while connection.recv(4096):
                pass

    return talk


def drips(said: bytes = b"") -> Callable[[socket.socket], None]:
    """Say something, and then one letter after the other."""

    def talk(connection: socket.socket) -> None:
        connection.sendall(said)
        until = time.monotonic() + STALL_S
        while time.monotonic() < until:  # or until nobody listens any more
            time.sleep(0.1)
            connection.sendall(b"x")

    return talk


def hurry(monkeypatch: pytest.MonkeyPatch, seconds: float = 0.8) -> None:
    """Make every deadline short; only where it is to run out."""
    for module, name in (
        (outbound, "READ_S"),
        (connections, "READ_S"),
        (imap_mailbox, "READ_S"),
        (sql_rows, "QUERY_S"),
        (git_commands, "TIMEOUT_S"),
    ):
        monkeypatch.setattr(module, name, seconds)
    monkeypatch.setattr(postgres, "CONNECT_S", 2)  # whole seconds, and no fewer


def nothing_of(answer: DestinationAnswer | OutcomeCheck, *words: str) -> bool:
    """Whether none of these words stands in an answer."""
    return not any(word in repr(answer) for word in words)
