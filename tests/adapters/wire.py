"""A wire between a probe and a real server that can fall silent, be cut, or run slowly; and real servers."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from uuid import uuid4

import pytest

from tests.patience import PATIENCE_S, comes

POSTGRES = ("127.0.0.1", 5432)
REDIS = ("127.0.0.1", 6379)
REDIS_DATABASE = 11


@contextmanager
def accepting(listener: socket.socket, accept: Callable[[], None]) -> Iterator[None]:
    """Let a thread accept connections, and see it gone before the listener's number is another's.

    A thread that came to its call a moment after the listener was closed would accept what is meant for
    whoever got that number next.
    """
    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield
    finally:
        with suppress(OSError):  # wakes whoever waits in accept
            listener.shutdown(socket.SHUT_RDWR)
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


class Wire:
    """Passes bytes on; after `most` bytes from the server it does what `then` says: stall, cut or drip."""

    def __init__(self, server: tuple[str, int], *, then: str = "pass", most: int = 0) -> None:
        self.server, self.then, self.most = server, then, most
        self.passed = 0
        self.open: list[socket.socket] = []
        self._left = ExitStack()
        self.listener = self._left.enter_context(socket.create_server(("127.0.0.1", 0)))
        self._left.enter_context(accepting(self.listener, self._accept))

    @property
    def port(self) -> int:
        return int(self.listener.getsockname()[1])

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self.listener.accept()
                far = socket.create_connection(self.server)
                self.open += [near, far]
                threading.Thread(target=self._pass, args=(near, far, False), daemon=True).start()
                threading.Thread(target=self._pass, args=(far, near, True), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket, is_server: bool) -> None:
        with suppress(OSError):
            while chunk := source.recv(4096):
                if is_server and not self._send(chunk, sink):
                    return
                if not is_server:
                    sink.sendall(chunk)
        with suppress(OSError):
            sink.shutdown(socket.SHUT_RDWR)

    def _send(self, chunk: bytes, sink: socket.socket) -> bool:
        """Send what may still pass; false where nothing more will."""
        left = len(chunk) if self.then == "pass" else max(0, self.most - self.passed)
        sink.sendall(chunk[:left])
        self.passed += len(chunk[:left])
        if left >= len(chunk):
            return True
        if self.then == "cut":
            sink.shutdown(socket.SHUT_RDWR)
        if self.then == "drip":
            for byte in chunk[left:]:
                time.sleep(0.05)
                sink.sendall(bytes([byte]))
            return True
        return False

    def close(self) -> None:
        self._left.close()
        for each in self.open:
            each.close()


@contextmanager
def wire(server: tuple[str, int], *, then: str, most: int) -> Iterator[Wire]:
    made = Wire(server, then=then, most=most)
    try:
        yield made
    finally:
        made.close()


def open_descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@contextmanager
def leaves_nothing_open() -> Iterator[None]:
    """Fail where more is open afterwards than before, once other threads have closed what they hold."""
    before = open_descriptors()
    yield
    assert comes(lambda: open_descriptors() <= before)


@contextmanager
def database() -> Iterator[str]:
    """Make a database of one's own and return its name; skips where no server is."""
    psycopg = pytest.importorskip("psycopg", reason="needs psycopg")
    name = f"branchgate_probe_{uuid4().hex[:12]}"
    try:
        admin = psycopg.connect(
            "host=127.0.0.1 user=postgres dbname=postgres connect_timeout=60", autocommit=True
        )
    except psycopg.Error:
        pytest.skip("no PostgreSQL on 127.0.0.1:5432")
    try:
        admin.execute(f"CREATE DATABASE {name}")
        yield name
        admin.execute(f"DROP DATABASE {name} WITH (FORCE)")
    finally:
        admin.close()
