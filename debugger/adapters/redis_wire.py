"""Asks a Redis server at a checked address, in its own protocol: bounded in time, bytes and depth.

The client library bounds neither the whole conversation nor the size of one answer, and resolves again.
"""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import BinaryIO, Final

from branches.ports import Target
from debugger.adapters.options import TargetUnfit
from debugger.adapters.outbound import CONNECT_S, READ_S, Unreachable
from debugger.adapters.servers import Server, address_of, ends_after, password_of, server_of

MOST_BYTES: Final = 64 * 1024 * 1024
MOST_DEPTH: Final = 8
_LINE: Final = 64 * 1024
_PORTS: Final = {"redis": 6379, "rediss": 6379}
_MOST_DATABASE: Final = 2**31

type Reply = bytes | int | list["Reply"] | None


class Refused(Exception):
    """The server answered with an error; `word` is its first word."""

    def __init__(self, word: str) -> None:
        super().__init__(word)
        self.word = word


class Redis:
    """One conversation; every answer counts against one budget of bytes."""

    def __init__(self, raw: socket.socket, is_cut: threading.Event) -> None:
        self._raw = raw
        self._file: BinaryIO = raw.makefile("rb")
        self._is_cut = is_cut
        self._left = MOST_BYTES

    def ask(self, *words: bytes | str | int) -> Reply:
        """Send one command and return its answer. Raises Refused, Unreachable."""
        parts = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        try:
            self._raw.sendall(
                b"".join([b"*%d\r\n" % len(parts), *(b"$%d\r\n%b\r\n" % (len(p), p) for p in parts)])
            )
            return self._reply(0)
        except TimeoutError:
            raise Unreachable("timeout") from None
        except OSError:
            raise self._short() from None

    def close(self) -> None:
        """Let go of the reader; the socket is its owner's."""
        self._file.close()

    def _reply(self, depth: int) -> Reply:
        line = self._line()
        sort, rest = line[:1], line[1:]
        if sort == b"+":
            return rest
        if sort == b"-":
            raise Refused(rest.split(b" ", 1)[0].decode("ascii", "replace"))
        if sort == b":":
            return _number(rest)
        if sort == b"$":
            return self._bulk(_number(rest))
        if sort == b"*":
            return self._list(_number(rest), depth)
        raise Unreachable("wire_form")

    def _bulk(self, size: int) -> bytes | None:
        if size == -1:
            return None
        self._take(size)
        content = self._file.read(size + 2)
        if len(content) != size + 2 or not content.endswith(b"\r\n"):
            raise self._short()
        return content[:-2]

    def _list(self, count: int, depth: int) -> list[Reply] | None:
        if count == -1:
            return None
        if depth >= MOST_DEPTH:
            raise Unreachable("wire_form")
        self._take(count)  # a member is at least a byte, whatever the count claims
        return [self._reply(depth + 1) for _ in range(count)]

    def _line(self) -> bytes:
        line = self._file.readline(_LINE)
        if not line.endswith(b"\r\n"):
            raise Unreachable("wire_form") if len(line) == _LINE else self._short()
        self._take(len(line))
        return line[:-2]

    def _take(self, size: int) -> None:
        self._left -= size
        if size < 0:
            raise Unreachable("wire_form")
        if self._left < 0:
            raise Unreachable("too_large")

    def _short(self) -> Unreachable:
        return Unreachable("timeout" if self._is_cut.is_set() else "connection_lost")


def _number(digits: bytes) -> int:
    try:
        return int(digits)
    except ValueError:
        raise Unreachable("wire_form") from None


@contextmanager
def redis(target: Target) -> Iterator[Redis]:
    """Open a conversation with the server and database that `url` names. Raises TargetUnfit, Unreachable."""
    server = server_of(target, _PORTS)
    number = _database_of(server)
    address = address_of(server, target)
    password = password_of(target, address, is_private=server.scheme == "rediss")
    try:
        connected = socket.create_connection((address, server.port), timeout=CONNECT_S)
    except OSError:
        raise Unreachable("no_connection") from None
    with ExitStack() as held:
        is_cut = held.enter_context(ends_after(connected.fileno(), READ_S))
        raw = held.enter_context(closing(_private(connected, server)))
        opened = held.enter_context(closing(Redis(raw, is_cut)))
        try:
            if password is not None:
                opened.ask("AUTH", *([] if server.user is None else [server.user]), password)
            if number:
                opened.ask("SELECT", number)
            yield opened
        except Refused as error:
            raise Unreachable(_PROBLEMS.get(error.word, "refused")) from None


_PROBLEMS: Final = {
    **dict.fromkeys(("NOAUTH", "WRONGPASS", "NOPERM"), "not_authorized"),
    **dict.fromkeys(("LOADING", "BUSY", "MASTERDOWN", "TRYAGAIN"), "busy"),
    "WRONGTYPE": "wrong_kind",
}


def _database_of(server: Server) -> int:
    text = server.path or "0"
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and int(text) < _MOST_DATABASE):
        raise TargetUnfit("url", "database")
    return int(text)


def _private(raw: socket.socket, server: Server) -> socket.socket:
    """Return the socket, encrypted where the scheme says so."""
    try:
        if server.scheme == "rediss":
            raw = ssl.create_default_context().wrap_socket(raw, server_hostname=server.host)
        raw.settimeout(READ_S)
    except (OSError, ValueError):
        raw.close()
        raise Unreachable("no_connection") from None
    return raw
