"""The battery against requests that go where nobody meant: addresses, spellings, names, and what comes back.

Each case says whether it must be refused or allowed, so that a rule too strict fails here as well.
"""

import gzip
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from debugger.adapters import outbound
from debugger.adapters.addresses import Allowed
from debugger.adapters.outbound import Unreachable, get, place_of
from tests.patience import PATIENCE_S, STALL_S, ends

PUBLIC_ONLY = Allowed()
LOOPBACK = Allowed.of("loopback")
EVERYTHING = Allowed.of(["0.0.0.0/0", "::/0"])

# Where a target names no network of its own.
ADDRESSES = {
    "this network": "0.0.0.0 0.0.0.1 0.255.255.255",
    "private": "10.0.0.0 10.255.255.255 172.16.0.1 172.31.255.254 192.168.0.1 192.168.255.255",
    "shared by carriers": "100.64.0.0 100.127.255.255",
    "loopback": "127.0.0.1 127.0.0.53 127.255.255.254 ::1",
    "link-local": "169.254.0.1 169.254.255.254 fe80::1 febf::1 fec0::1",
    "metadata": (
        "169.254.169.254 169.254.170.2 169.254.170.23 168.63.129.16 100.100.100.200 192.0.0.192"
        " fd00:ec2::254 fd00:ec2::23 fd20:ce::254 fd00:c1::a9fe:a9fe fe80::a9fe:a9fe"
    ),
    "protocol assignments": "192.0.0.1 192.0.0.8 192.0.0.9 2001:2::1 2001:10::1 2001:20::1 2001:1ff::1",
    "documentation": "192.0.2.1 198.51.100.1 203.0.113.255 2001:db8::1 3fff::1 3fff:fff:ffff::1",
    "relays of 6to4": "192.88.99.0 192.88.99.1 192.88.99.255",
    "benchmarks": "198.18.0.1 198.19.255.255",
    "multicast": "224.0.0.1 232.1.1.1 239.255.255.255 ff02::1 ff05::1:3 ff0e::1",
    "reserved": "240.0.0.1 254.255.255.255 255.255.255.255 5f00::1 8000::1 e000::1 1::1 100::1 4000::1",
    "unspecified": ":: 0.0.0.0",
    "unique local": "fc00::1 fdff:ffff::1",
    "mapped": "::ffff:10.0.0.1 ::ffff:127.0.0.1 ::ffff:169.254.169.254 ::ffff:8.8.8.8 ::ffff:0:808:808",
    "compatible": "::127.0.0.1 ::8.8.8.8 ::a9fe:a9fe",
    "NAT64": "64:ff9b::7f00:1 64:ff9b::808:808 64:ff9b::a9fe:a9fe 64:ff9b:1::808:808 64:ff9b:1:ffff::1",
    "6to4": "2002:7f00:1:: 2002:a9fe:a9fe:: 2002:808:808::1",
    "Teredo": "2001::1 2001:0:4136:e378:8000:63bf:3fff:fdd2 2001:0:a9fe:a9fe::1",
    "with a zone": "fe80::1%eth0 ::1%lo 2606:4700:4700::1111%eth0 127.0.0.1%lo",
    "other spellings": (
        "0177.0.0.1 0x7f.0.0.1 0x7f000001 2130706433 127.1 127.0.1 127.0.0.1. 010.0.0.1 [::1] 1.1.1.1/32"
        " ::ffff:7f000001 \uff11.1.1.1 1.1.1.1\n"
    ),
}
REFUSED = [
    (kind, address) for kind, listed in ADDRESSES.items() for address in listed.replace("\n", "\0").split(" ")
]
ALLOWED = (  # noqa: SIM905 - quoted one by one they read worse
    "1.1.1.1 8.8.8.8 93.184.216.34 100.63.255.255 100.128.0.0 169.253.255.255 172.15.255.255 172.32.0.0"
    " 192.88.98.255 192.167.255.255 198.17.255.255 198.20.0.0 223.255.255.254 2606:4700:4700::1111"
    " 2a00:1450:4001:81b::200e 2001:4860:4860::8888 2003::1 2400:cb00::1"
).split()

# What no target can name for itself, however wide its list is.
NEVER = [
    address
    for kind in (
        *("this network", "link-local", "metadata", "relays of 6to4", "multicast", "mapped", "compatible"),
        *("NAT64", "6to4", "Teredo", "with a zone", "other spellings", "unspecified"),
    )
    for address in ADDRESSES[kind].replace("\n", "\0").split(" ")
]
NAMED = "10.0.0.1 172.16.0.1 192.168.1.1 127.0.0.1 ::1 100.64.0.1 fd12:3456::1 198.18.0.1".split()  # noqa: SIM905 - the same


@pytest.mark.parametrize(("kind", "address"), REFUSED)
def test_it_refuses_an_address(kind: str, address: str) -> None:
    assert not PUBLIC_ONLY.admits(address.replace("\0", "\n"))


def test_there_are_as_many_addresses_as_promised() -> None:
    assert len({address for _, address in REFUSED}) >= 60


@pytest.mark.parametrize("address", ALLOWED)
def test_it_allows_a_public_address(address: str) -> None:
    assert PUBLIC_ONLY.admits(address)


@pytest.mark.parametrize("address", NEVER)
def test_it_refuses_an_address_that_no_target_can_name(address: str) -> None:
    assert not EVERYTHING.admits(address.replace("\0", "\n"))


@pytest.mark.parametrize("address", NAMED)
def test_it_allows_a_private_address_that_the_target_names(address: str) -> None:
    assert EVERYTHING.admits(address)
    assert not PUBLIC_ONLY.admits(address)


@pytest.mark.parametrize("value", ["all", 7, True, {}, ["10.0.0.1/8"], ["CONTENT-MARKER-7f3a"], [10], [""]])
def test_it_refuses_a_list_of_networks_without_saying_what_it_says(value: Any) -> None:
    with pytest.raises(ValueError, match="allow: loopback or list:network") as refused:
        Allowed.of(value)
    assert "MARKER" not in str(refused.value)


URLS_REFUSED = {
    "a user": [
        "http://user@a.example/",
        "http://user:pw@a.example/",
        "http://@a.example/",
        "http://:@a.example/",
    ],
    "a port before a user": ["http://a.example:80@b.example/", "http://a.example%40b.example@c.example/"],
    "a backslash": ["http://a.example\\@b.example/", "http:\\\\a.example/", "http://a.example/\\..\\x"],
    "control characters": [
        *("http://a.example/\r\nX: 1", "http://a.example\r\n/", "http://a.ex\tample/", "http://a.example/\t"),
        *("http://a.example/\0", "\x01http://a.example/", "http://a.example/\x7f", "http://a.exa\nmple/"),
    ],
    "white space": ["http://a example/", " http://a.example/", "http://a.example/ ", "http://a.example/a b"],
    "letters that look alike": [
        *(
            "http://\u0430.example/",
            "http://a\u3002example/",
            "http://\uff41.example/",
            "http://\u2460.example/",
        ),
        *(
            "http://a.example\uff0fb/",
            "http://127\uff0e0.0.1/",
            "http://a\u00ad.example/",
            "http://\u00df.example/",
        ),
    ],
    "dots": [
        "http://a.example./",
        "http://a..example/",
        "http://.a.example/",
        "http://127.0.0.1./",
        "http://./",
    ],
    "a fragment": ["http://a.example#b", "http://a.example/#@b.example/", "http://a.example#@b.example"],
    "ports": [
        *(
            "http://a.example:0/",
            "http://a.example:65536/",
            "http://a.example:99999/",
            "http://a.example:-1/",
        ),
        *("http://a.example:x/", "http://a.example:/", "http://a.example:080/", "http://a.example:+80/"),
        *("http://a.example:80:80/", "http://[::1]:0/", "http://[::1]80/", "http://a.example:8 0/"),
    ],
    "schemes": [
        *("ftp://a.example/", "file:///etc/passwd", "gopher://a.example:70/_", "dict://a.example:11211/"),
        *(
            "data:text/plain,x",
            "javascript:alert(1)",
            "ws://a.example/",
            "unix:///run/x.sock",
            "//a.example/",
        ),
        *("a.example/", "http:a.example", "http:/a.example", "http:///a.example", "http://", "http://?x", ""),
        *("jar:http://a.example!/", "blob:http://a.example/", "view-source:http://a.example/"),
    ],
    "percent signs": [
        "http://%31.example/",
        "http://a.example%2eb/",
        "http://%61/",
        "http://127.0.0.1%2f@x/",
    ],
    "spellings of IPv4": [
        *("http://0177.0.0.1/", "http://0x7f.0.0.1/", "http://0x7f000001/", "http://2130706433/"),
        *("http://127.1/", "http://127.0.1/", "http://00.0.0.0/", "http://1.2.3.4.5/", "http://256.0.0.1/"),
        *("http://a.example.1/", "http://a.0x1/", "http://0/", "http://0x/"),
    ],
    "forms of IPv6": [
        *("http://[::1/", "http://::1/", "http://[::1%25lo]/", "http://[fe80::1%lo]/", "http://[v1.x]/"),
        *("http://[]/", "http://[:::]/", "http://[127.0.0.1]/", "http://[::1]a/", "http://[::1].example/"),
        *("http://[0:0:0:0:0:0:0:0:1]/", "http://[::g]/", "http://x[::1]/"),
    ],
    "names": [
        *("http://a_b.example/", "http://-a.example/", "http://a-.example/", "http://*.example/"),
        *(f"http://{'a' * 64}.example/", f"http://{'a.' * 130}example/", "http://a,b/", "http://a;b/"),
    ],
    "length": [f"http://a.example/{'x' * 3000}"],
}
URLS_ALLOWED = {
    "http://a.example": ("http", "a.example", 80, "/"),
    "https://a.example/x?y=1": ("https", "a.example", 443, "/x?y=1"),
    "HTTPS://A.Example:8443/": ("https", "A.Example", 8443, "/"),
    "http://a.example?x": ("http", "a.example", 80, "/?x"),
    "http://a.example/@b.example": ("http", "a.example", 80, "/@b.example"),
    "http://a.example/?u=http://b.example": ("http", "a.example", 80, "/?u=http://b.example"),
    "http://xn--bcher-kva.example/": ("http", "xn--bcher-kva.example", 80, "/"),
    "http://93.184.216.34:65535/": ("http", "93.184.216.34", 65_535, "/"),
    "http://[2606:4700:4700::1111]:1/": ("http", "[2606:4700:4700::1111]", 1, "/"),
    "http://[2606:4700:4700::1111]/": ("http", "[2606:4700:4700::1111]", 80, "/"),
    "http://localhost/%2e%2e/": ("http", "localhost", 80, "/%2e%2e/"),
    "http://1a.example/": ("http", "1a.example", 80, "/"),
    "http://a.1b/": ("http", "a.1b", 80, "/"),
}


@pytest.mark.parametrize(
    "url",
    [
        pytest.param(url, id=f"{kind} {ascii(url)[:60]}")
        for kind, urls in URLS_REFUSED.items()
        for url in urls
    ],
)
def test_it_refuses_a_url_before_any_name_is_looked_up(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: pytest.fail("a name was looked up"))
    with pytest.raises(Unreachable) as refused:
        get(url, allowed=EVERYTHING)
    assert (refused.value.problem, str(refused.value)) == ("url_form", "url_form")


@pytest.mark.parametrize("url", URLS_ALLOWED)
def test_it_takes_a_plain_url_apart(url: str) -> None:
    place = place_of(url)
    assert (place.scheme, place.host, place.port, place.path) == URLS_ALLOWED[url]


@pytest.mark.parametrize(
    "host", ["[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]", "[64:ff9b::7f00:1]"]
)
def test_it_refuses_an_address_within_an_address_even_where_loopback_is_named(host: str) -> None:
    assert problem_of(f"http://{host}:9/", LOOPBACK) == "address_refused"


def problem_of(url: str, allowed: Allowed = LOOPBACK) -> str:
    with pytest.raises(Unreachable) as refused:
        get(url, allowed=allowed)
    return refused.value.problem


def resolves(monkeypatch: pytest.MonkeyPatch, *answers: list[str]) -> list[str]:
    """Let every name resolve to the next of these lists; return the names that were looked up."""
    asked: list[str] = []
    left = iter(answers)

    def look(host: str, port: int, *_: Any, **__: Any) -> list[Any]:
        asked.append(host)
        return [
            (socket.AF_INET6 if ":" in each else socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port))
            for each in next(left)
        ]

    monkeypatch.setattr(socket, "getaddrinfo", look)
    return asked


@pytest.mark.parametrize(
    "found",
    [
        *(["93.184.216.34", "10.0.0.1"], ["10.0.0.1", "93.184.216.34"], ["93.184.216.34", "::1"]),
        *(["93.184.216.34", "169.254.169.254"], ["2606:4700:4700::1111", "64:ff9b::a00:1"], ["fe80::1%eth0"]),
        *(["127.0.0.1"], ["::ffff:10.0.0.1"], ["93.184.216.34", "not-an-address"]),
    ],
)
def test_it_refuses_a_name_of_which_one_address_is_bad(
    found: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    resolves(monkeypatch, found)
    monkeypatch.setattr(socket, "create_connection", lambda *_, **__: pytest.fail("it connected"))
    assert problem_of("http://a.example/", PUBLIC_ONLY) == "address_refused"


def test_it_looks_a_name_up_once_and_connects_to_what_it_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    connected: list[Any] = []
    asked = resolves(monkeypatch, ["93.184.216.34"], ["127.0.0.1"], ["127.0.0.1"])

    def connect(address: Any, timeout: float) -> socket.socket:
        connected.append((address, timeout))
        raise OSError

    monkeypatch.setattr(socket, "create_connection", connect)
    assert problem_of("http://rebinding.example/", PUBLIC_ONLY) == "no_connection"
    assert asked == ["rebinding.example"]
    assert connected == [(("93.184.216.34", 80), outbound.CONNECT_S)]


def test_it_waits_no_longer_for_a_name_than_for_a_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    is_over = threading.Event()
    monkeypatch.setattr(outbound, "CONNECT_S", 0.2)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: is_over.wait(STALL_S) and [])
    try:
        with ends():
            assert problem_of("http://a.example/") == "timeout"
    finally:
        is_over.set()


@contextmanager
def server(*answers: Callable[[socket.socket], object]) -> Iterator[str]:
    """A server whose n-th connection gets the n-th answer; more connections than answers fail the test."""
    counted = []
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(0.05)
        stop = threading.Event()

        def serve() -> None:
            while not stop.is_set():
                try:
                    connection, _ = listening.accept()
                except TimeoutError:
                    continue
                with connection, suppress(OSError):
                    counted.append(connection.recv(8192))
                    answers[len(counted) - 1](connection)
                    connection.shutdown(socket.SHUT_RDWR)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        stop.set()
        thread.join(PATIENCE_S)
    assert len(counted) == len(answers)


def says(raw: bytes) -> Callable[[socket.socket], object]:
    return lambda connection: connection.sendall(raw)


def drips(first: bytes, piece: bytes) -> Callable[[socket.socket], object]:
    def drip(connection: socket.socket) -> None:
        connection.sendall(first)
        until = time.monotonic() + STALL_S
        while time.monotonic() < until:  # or until nobody listens any more
            time.sleep(0.02)
            connection.sendall(piece)

    return drip


def silence(connection: socket.socket) -> None:
    connection.settimeout(STALL_S)
    connection.recv(8192)  # nothing, until whoever asked goes away


def page(body: bytes, *headers: str) -> bytes:
    lines = ["HTTP/1.1 200 OK", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("to", ["/other", "http://169.254.169.254/", "//b.example/", "file:///etc/passwd"])
def test_it_follows_no_redirect(status: int, to: str) -> None:
    moved = f"HTTP/1.1 {status} Moved\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n".encode()
    with server(says(moved)) as url:
        found = get(url, allowed=LOOPBACK)
    assert (found.status, found.location) == (status, to)


def test_it_heeds_no_refresh_and_no_alternative(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "")
    answer = page(b"{}", "Refresh: 0; url=http://b.example/", 'Alt-Svc: h2="b.example:443"')
    with server(says(answer)) as url:
        assert get(url, allowed=LOOPBACK).body == b"{}"


ANSWERS: dict[str, tuple[Callable[[socket.socket], object], set[str]]] = {
    "a small gzip bomb": (
        says(page(gzip.compress(b"x" * 10_000_000), "Content-Encoding: gzip")),
        {"encoded"},
    ),
    "another coding": (says(page(b"x", "Content-Encoding: br")), {"encoded"}),
    "too many bytes": (says(page(b"x" * (outbound.MOST_BYTES + 1))), {"too_large"}),
    "bytes without end": (drips(b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 4096), {"too_large", "timeout"}),
    "chunks without end": (
        drips(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1000\r\n" + b"x" * 4096 + b"\r\n"),
        {"too_large", "timeout"},
    ),
    "half a chunk": (
        says(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10\r\nhalf"),
        {"no_answer"},
    ),
    "half a body": (says(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"), {"cut_short", "no_answer"}),
    "a slow body": (drips(b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n", b"x"), {"timeout"}),
    "a slow body of no length": (drips(b"HTTP/1.1 200 OK\r\n\r\n", b"x"), {"timeout"}),
    "a slow status": (drips(b"HTTP/1.1 20", b"0"), {"timeout", "no_answer"}),
    "slow headers": (drips(b"HTTP/1.1 200 OK\r\nX: ", b"y"), {"timeout"}),
    "headers without end": (drips(b"HTTP/1.1 200 OK\r\n", b"X: y\r\n" * 40), {"no_answer"}),
    "a header without end": (drips(b"HTTP/1.1 200 OK\r\nX: ", b"y" * 40_000), {"no_answer"}),
    "continue without end": (drips(b"", b"HTTP/1.1 100 Continue\r\n\r\n"), {"timeout"}),
    "silence": (silence, {"timeout"}),
    "nothing": (says(b""), {"no_answer"}),
    "another protocol": (says(b"SSH-2.0-OpenSSH_9.2\r\n"), {"no_answer"}),
    "the oldest protocol": (says(b"<html>"), {"no_answer"}),
    "an odd status": (says(b"HTTP/1.1 007 Bond\r\n\r\n"), {"no_answer"}),
}


@pytest.mark.parametrize("answer", ANSWERS)
def test_it_knows_nothing_from(answer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    say, problems = ANSWERS[answer]
    if "timeout" in problems:
        monkeypatch.setattr(outbound, "READ_S", 1.0)
    with server(say) as url, ends():
        assert problem_of(url) in problems


@pytest.mark.parametrize("value", ["a\r\nX-Other: 1", "a\nb", "a\r\n\r\nGET / HTTP/1.1"])
def test_it_sends_no_header_that_would_be_two(value: str) -> None:
    with server(lambda _: None) as url, pytest.raises(Unreachable) as refused:
        get(url, allowed=LOOPBACK, headers={"Cookie": value})
    assert refused.value.problem == "no_answer"
