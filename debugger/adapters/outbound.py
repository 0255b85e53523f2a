"""One plain question to a registered place: its addresses checked, no redirect, no proxy, bounded."""

import http.client
import re
import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from queue import Empty, SimpleQueue
from typing import Final
from urllib.parse import urlsplit

from debugger.adapters.addresses import Allowed
from debugger.adapters.http_head import WholeHead

CONNECT_S: Final = 3.0
READ_S: Final = 10.0
MOST_BYTES: Final = 64 * 1024
MOST_URL: Final = 2048
MOST_PORT: Final = 65_535
_URL: Final = re.compile(rf"[\x21-\x7e]{{1,{MOST_URL}}}")
_LABEL: Final = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_NAME: Final = re.compile(rf"(?=.{{1,253}}\Z){_LABEL}(?:\.{_LABEL})*")
# Browsers take a name that ends so for IPv4 in one of its many spellings, and so do most resolvers.
_NUMBER: Final = re.compile(r"(?:.*\.)?(?:[0-9]+|0[xX][0-9A-Fa-f]*)")
_PORT: Final = re.compile(r"(?::([1-9][0-9]{0,4}))?")
_PORTS: Final = {"http": 80, "https": 443}


class Unreachable(Exception):
    """Nothing that can be relied on came back; `problem` is a closed word."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


@dataclass(frozen=True, slots=True)
class Page:
    """What came back; the body is looked at by whoever asked and kept nowhere."""

    status: int
    location: str | None
    cookies: tuple[str, ...]
    body: bytes


@dataclass(frozen=True, slots=True)
class Place:
    """A checked address in its parts."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def origin(self) -> str:
        """Scheme, host and port as text, as they were written."""
        return f"{self.scheme}://{self.host.lower()}:{self.port}"


def place_of(url: str) -> Place:
    """Take an address apart. Raises Unreachable for one that could mean two things."""
    if not _URL.fullmatch(url) or "\\" in url or "#" in url:
        raise Unreachable("url_form")
    try:
        parts = urlsplit(url)
    except ValueError:
        raise Unreachable("url_form") from None
    host, found = parts.netloc, _PORT.fullmatch("")
    if (at := parts.netloc.rfind(":")) > parts.netloc.rfind("]"):
        host, found = parts.netloc[:at], _PORT.fullmatch(parts.netloc[at:])
    if parts.scheme not in _PORTS or found is None or not _is_host(host):
        raise Unreachable("url_form")
    port = int(found[1] or _PORTS[parts.scheme])
    if port > MOST_PORT:
        raise Unreachable("url_form")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Place(parts.scheme, host, port, path)


def _is_host(host: str) -> bool:
    """Whether this is a plain name or an address in its one plain spelling."""
    try:
        if host.startswith("["):
            IPv6Address(host.removeprefix("[").removesuffix("]"))
            return host.endswith("]") and "%" not in host
        if _NUMBER.fullmatch(host):
            IPv4Address(host)
            return True
    except ValueError:
        return False
    return _NAME.fullmatch(host) is not None


def get(url: str, *, allowed: Allowed, headers: Mapping[str, str] | None = None) -> Page:
    """Ask once and return what came back, whatever its status. Raises Unreachable."""
    return _send(url, None, allowed=allowed, headers=headers or {})


def post(url: str, body: bytes, *, allowed: Allowed, headers: Mapping[str, str]) -> Page:
    """Send a body once and return what came back, whatever its status. Raises Unreachable."""
    return _send(url, body, allowed=allowed, headers=headers)


def _send(url: str, body: bytes | None, *, allowed: Allowed, headers: Mapping[str, str]) -> Page:
    place = place_of(url)
    address = checked_address(place, allowed)
    try:
        connected = connect(place, address)
    except (OSError, ValueError):
        raise Unreachable("no_connection") from None
    with closing(connected) as connection:
        return _asked(connection, place, headers, body)


def checked_address(place: Place, allowed: Allowed) -> tuple[str, int]:
    """Resolve once and return what to connect to; all addresses must be allowed. Raises Unreachable."""
    found = _in_time(lambda: socket.getaddrinfo(place.host.strip("[]"), place.port, type=socket.SOCK_STREAM))
    addresses = [str(entry[4][0]) for entry in found]
    if not addresses:
        raise Unreachable("no_address")
    if not all(allowed.admits(address) for address in addresses):
        raise Unreachable("address_refused")
    return addresses[0], place.port


def _in_time[Found](look: Callable[[], list[Found]]) -> list[Found]:
    """Look names up in a thread of their own: the system's resolver has no deadline."""
    answer: SimpleQueue[list[Found]] = SimpleQueue()

    def ask() -> None:
        found: list[Found] = []
        with suppress(OSError, UnicodeError):
            found = look()
        answer.put(found)

    threading.Thread(target=ask, daemon=True).start()
    try:
        return answer.get(timeout=CONNECT_S)
    except Empty:
        raise Unreachable("timeout") from None


def connect(place: Place, address: tuple[str, int]) -> http.client.HTTPConnection:
    """Connect to a checked address, within the time for it. Raises OSError, ValueError."""
    raw = socket.create_connection(address, timeout=CONNECT_S)
    try:
        if place.scheme == "https":
            context = ssl.create_default_context()
            raw = context.wrap_socket(raw, server_hostname=place.host.strip("[]"))
        raw.settimeout(READ_S)
    except BaseException:
        raw.close()
        raise
    connection = http.client.HTTPConnection(place.host.strip("[]"), place.port)
    connection.sock = raw
    connection.response_class = WholeHead
    connection.auto_open = 0  # what was checked is what is used
    return connection


def _asked(
    connection: http.client.HTTPConnection, place: Place, headers: Mapping[str, str], sent: bytes | None
) -> Page:
    is_cut = threading.Event()
    watch = threading.Timer(READ_S, _cut, [connection.sock, is_cut])
    watch.daemon = True
    watch.start()
    try:
        method = "GET" if sent is None else "POST"
        connection.request(method, place.path, sent, headers={**plain_headers(place), **headers})
        answer = connection.getresponse()
        with closing(answer):
            body = answer.read(MOST_BYTES + 1)
            cookies = tuple(answer.headers.get_all("Set-Cookie") or ())
            page = Page(answer.status, answer.headers.get("Location"), cookies, body)
            is_whole = not answer.length  # what is still to come; None where nobody said
            is_plain = answer.headers.get("Content-Encoding", "identity").lower() == "identity"
    except TimeoutError:
        raise Unreachable("timeout") from None
    except (OSError, http.client.HTTPException, ValueError):
        raise Unreachable("timeout" if is_cut.is_set() else "no_answer") from None
    finally:
        watch.cancel()
    if is_cut.is_set():  # a body without a length would look whole
        raise Unreachable("timeout")
    if len(page.body) > MOST_BYTES:
        raise Unreachable("too_large")
    if not is_whole:
        raise Unreachable("cut_short")
    if not is_plain:  # nothing else was asked for, and what it holds could be of any size
        raise Unreachable("encoded")
    return page


def plain_headers(place: Place) -> dict[str, str]:
    """Return the headers of every question."""
    port = "" if place.port == _PORTS[place.scheme] else f":{place.port}"
    return {
        "Host": place.host + port,
        "Accept": "application/json, text/html;q=0.5",
        "Accept-Encoding": "identity",
        "User-Agent": "branchgate",
        "Connection": "close",
    }


def _cut(raw: socket.socket, is_cut: threading.Event) -> None:
    """End a conversation that lasts too long, however slowly it still moves."""
    is_cut.set()
    with suppress(OSError):
        raw.shutdown(socket.SHUT_RDWR)
