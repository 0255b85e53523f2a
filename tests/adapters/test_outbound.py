"""What may be asked at all: addresses and URLs that are refused, and answers that are cut off."""

import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from debugger.adapters import outbound
from debugger.adapters.addresses import Allowed
from debugger.adapters.outbound import Unreachable, get, place_of
from tests.adapters.places import Web
from tests.adapters.wire import accepting
from tests.patience import STALL_S, ends

LOOPBACK = Allowed.of("loopback")
REFUSED = """
0.0.0.0 0.1.2.3 10.0.0.1 10.255.255.255 100.64.0.1 100.100.100.200 127.0.0.1 127.1.2.3 169.254.0.1
169.254.169.254 172.16.0.1 172.31.255.255 192.0.0.1 192.0.0.170 192.0.2.1 192.88.99.1 192.168.0.1 198.18.0.1
198.19.255.255 198.51.100.1 203.0.113.1 224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255 168.63.129.16
:: ::1 ::ffff:10.0.0.1 ::ffff:127.0.0.1 ::ffff:8.8.8.8 ::127.0.0.1 64:ff9b::7f00:1 64:ff9b::808:808
64:ff9b:1::1 100::1 2001::1 2001:0:4136:e378:8000:63bf:3fff:fdd2 2001:2::1 2001:10::1 2001:20::1 2001:db8::1
2002:7f00:1:: 2002:808:808::1 3fff::1 3fff:fff::1 4000::1 5f00::1 fc00::1 fd00::1 fd00:ec2::254 fd20:ce::254
fe80::1 febf::1 fec0::1 ff02::1 ff0e::1 1::1 e000::1 8000::1
not-an-address 127.0.0.1%lo fe80::1%eth0 0x7f.1 2130706433
""".split()  # noqa: SIM905 - sixty quoted addresses read worse
PUBLIC = ["1.1.1.1", "8.8.8.8", "93.184.216.34", "2606:4700:4700::1111", "2a00:1450:4001:81b::200e"]
UNFIT = [
    *("ftp://a.example/", "file:///etc/passwd", "gopher://a.example", "http:///x", "http://", "//a.example"),
    *("http://user@a.example/", "http://user:pw@a.example/", "http://a.example\\@b.example/"),
    *("http://a.example/\r\nX: 1", "http://a.example/\t", "http://a example/", "http://a.example/ ", ""),
    *("http://a.example:99999/", "http://a.example:-1/", "http://a.example:x/", "http://[::1", "http://::1/"),
    *("http://a.example#b", "http://\u00e4.example/", "http://a.example/\u00e4", "http://%31.example/"),
    *("http://a.example:80@b.example/", "http://[::1%25lo]/", "http://[fe80::1%lo]/", "http://-a.example/"),
    *("javascript:alert(1)", "http:a.example", "HTTP//a.example", "http://a_b.example/", "http://a..\x00b/"),
    *("http://[v1.x]/", "data:text/plain,x", "http://a.example/\x7f"),
]


@pytest.mark.parametrize("address", REFUSED)
def test_it_refuses_the_address(address: str) -> None:
    assert not Allowed().admits(address)


@pytest.mark.parametrize("address", PUBLIC)
def test_it_admits_the_public_address(address: str) -> None:
    assert Allowed().admits(address)


@pytest.mark.parametrize("url", UNFIT)
def test_it_refuses_the_url(url: str) -> None:
    with pytest.raises(Unreachable) as refused:
        place_of(url)
    assert refused.value.problem == "url_form"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "127.1", "[::1]", "[::]"])
def test_it_connects_to_nothing_private_that_was_not_named(host: str) -> None:
    with pytest.raises(Unreachable) as refused:
        get(f"http://{host}:9/", allowed=Allowed())
    assert refused.value.problem in {"address_refused", "no_address", "url_form"}


def test_it_admits_only_the_networks_that_were_named_and_never_the_metadata() -> None:
    allowed = Allowed.of(["10.1.0.0/16", "169.254.0.0/16", "fd00::/8"])
    assert allowed.admits("10.1.2.3")
    assert allowed.admits("fd00::7")
    assert not any(map(allowed.admits, ("10.2.0.1", "127.0.0.1", "169.254.169.254", "fd00:ec2::254")))
    assert not LOOPBACK.admits("10.1.2.3")
    with pytest.raises(ValueError, match="allow"):
        Allowed.of("everything")


def test_it_refuses_a_name_of_which_one_address_is_private(monkeypatch: pytest.MonkeyPatch) -> None:
    both = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, 80)) for each in ("93.184.216.34", "10.0.0.1")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: both)
    with pytest.raises(Unreachable) as refused:
        get("http://a.example/", allowed=Allowed())
    assert refused.value.problem == "address_refused"


def test_it_connects_to_the_address_that_was_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter(["93.184.216.34", "127.0.0.1"])
    connected: list[Any] = []
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [(2, 1, 6, "", (next(answers), 80))])

    def connect(address: Any, timeout: float) -> socket.socket:
        connected.append(address)
        raise OSError

    monkeypatch.setattr(socket, "create_connection", connect)
    with pytest.raises(Unreachable):
        get("http://a.example/", allowed=LOOPBACK)
    assert connected == [("93.184.216.34", 80)]


@pytest.fixture
def web() -> Iterator[Web]:
    made = Web(lambda request: ANSWERS[request.path])
    yield made
    made.close()


ANSWERS: dict[str, Any] = {
    "/ok": (200, [], b"{}"),
    "/moved": (302, [("Location", "/ok")], b""),
    "/large": (200, [], b"x" * (outbound.MOST_BYTES + 1)),
    "/short": (200, [("Content-Length", "100")], b"x"),
}


def test_it_asks_once_follows_nothing_and_heeds_no_proxy(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    page = get(web.url + "/moved", allowed=LOOPBACK)
    assert (page.status, page.location, web.paths) == (302, "/ok", ["/moved"])


@pytest.mark.parametrize(("path", "problem"), [("/large", "too_large"), ("/short", "no_answer")])
def test_it_takes_no_part_for_the_whole(web: Web, path: str, problem: str) -> None:
    with pytest.raises(Unreachable) as refused:
        get(web.url + path, allowed=LOOPBACK)
    assert refused.value.problem in {problem, "cut_short"}


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 200 OK\r\nX: ", b"HTTP/1.0 200 OK\r\n\r\n{"])
def test_it_ends_a_conversation_that_only_drips(said: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbound, "READ_S", 0.6)
    with socket.create_server(("127.0.0.1", 0)) as server, accepting(server, lambda: _drip(server, said)):
        with ends(), pytest.raises(Unreachable) as refused:
            get(f"http://127.0.0.1:{server.getsockname()[1]}/", allowed=LOOPBACK)
        assert refused.value.problem == "timeout"


def _drip(server: socket.socket, said: bytes) -> None:
    connection, _ = server.accept()
    with connection, suppress(OSError):
        connection.sendall(said)
        connection.settimeout(0.1)
        until = time.monotonic() + STALL_S
        while time.monotonic() < until:
            with suppress(TimeoutError):
                if not connection.recv(4096):
                    return
            if said:
                connection.sendall(b"x")
