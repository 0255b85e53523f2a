"""Places behind addresses: a resource, a page in a browser, a server of tools."""

import json
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from branches.ports import StateMeasurement, Target
from debugger.adapters.probes import browser
from debugger.adapters.probes.browser import BrowserProbe
from debugger.supervisor import free_port
from tests.adapters.places import MARKER, MOMENT, Place, Web, silent, target, tool
from tests.patience import comes

HTML = [("Content-Type", "text/html; charset=utf-8")]
SERVER = Path(__file__).with_name("mcp_server.py")


class Shop:
    """A site with one record, shown to whoever has the live session's cookie; a test sets what it answers."""

    def __init__(self, folder: Path) -> None:
        self.pages: dict[str, tuple[int, list[tuple[str, str]], str]] = {}
        self.web = Web(self.answer)
        self.saved = folder / "state.json"
        self.begin()

    def begin(self) -> None:
        """Be as it was at first."""
        self.live = "abc"
        self.record = f"Order 7: paid {MARKER}"
        self.field, self.token = "one", 1
        self.pages.clear()
        self.web.paths.clear()
        self.save("abc")

    def answer(self, request: Any) -> tuple[int, list[tuple[str, str]], bytes]:
        if request.path in self.pages:
            status, headers, body = self.pages[request.path]
            return status, headers, body.encode()
        if f"session={self.live}" not in (request.headers.get("Cookie") or ""):
            if request.path == "/sign-in":
                return 200, HTML, b"<h1>Sign in</h1>"
            return 302, [("Location", "/sign-in")], b""
        fields = f"<input name=a value={self.field}><input type=hidden value={self.token}>"
        body = f"<title>x</title><p id=who>Ada</p><main>{self.record}{fields}</main>"
        return 200, HTML, body.encode()

    def save(self, session: str, expires: float = 2_000_000_000, **other: Any) -> None:
        cookie = {
            "name": "session",
            "value": session,
            "domain": "127.0.0.1",
            "path": "/",
            "expires": expires,
            "httpOnly": True,
            "secure": False,
            "sameSite": "Lax",
        }
        kept = [{"name": "cart", "value": MARKER}]
        state = {"cookies": [cookie], "origins": [{"origin": self.web.url, "localStorage": kept}], **other}
        self.saved.write_text(json.dumps(state))

    def target(self, path: str = "/orders/7", **options: Any) -> Target:
        given = {
            "url": self.web.url + path,
            "storage_state": str(self.saved),
            "signed_in": "#who",
            "record": "main",
            "allow": "loopback",
            **options,
        }
        return target(**{name: value for name, value in given.items() if value is not None})

    def measured(self, path: str = "/orders/7", **options: Any) -> StateMeasurement:
        return BrowserProbe().measure(self.target(path, **options), MOMENT)


def hurry(patch: pytest.MonkeyPatch) -> None:
    """Most pages here are built at once; a test of how a page is waited for undoes it."""
    patch.setattr(browser, "WAIT_MS", 800)
    patch.setattr(browser, "PAUSE_MS", 50)


class ShopPage(Place):
    """The shop's page with its record, as who is signed in sees it."""

    probe = "browser"
    drifts = frozenset({"record"})

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        if shutil.which("chromium") is None:
            pytest.skip("no chromium on this machine")
        hurry(self.held.enter_context(pytest.MonkeyPatch.context()))
        self.shop = Shop(folder)
        self.held.callback(self.shop.web.close)
        self.record = self.shop.record
        self.other: dict[str, Any] = {
            "name": f"other-{MARKER}",
            "value": MARKER,
            "domain": "127.0.0.1",
            "path": "/",
        }
        self.other |= {"expires": -1, "httpOnly": False, "secure": False, "sameSite": "Lax"}
        self.write(reverse=False)

    def write(self, *, reverse: bool) -> None:
        self.shop.save("abc")
        state = json.loads(self.shop.saved.read_text())
        state["cookies"].append(self.other)
        if reverse:
            state = {"origins": state["origins"], "cookies": state["cookies"][::-1]}
        self.shop.saved.write_text(json.dumps(state))

    def target(self) -> Target:
        return self.shop.target()

    def change(self) -> None:
        self.shop.record = f"Order 7: refunded {MARKER}"

    def change_back(self) -> None:
        self.shop.record = self.record

    def turn(self) -> None:
        self.write(reverse=True)

    def take_away(self) -> None:
        self.shop.web.close()

    @contextmanager
    def stalling(self, patch: pytest.MonkeyPatch) -> Iterator[Target]:
        patch.setattr(browser, "TIMEOUT_S", 3.0)
        with silent(patch) as url:
            yield self.shop.target(url=f"{url}/orders/7")


class Resource(Place):
    """A resource with a body and two headers that belong to it."""

    probe = "http"
    drifts = frozenset({"body"})

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.body = MARKER.encode()
        self.headers = [("X-Owner", MARKER), ("X-Version", "1")]
        self.web = Web(lambda _: (200, self.headers, self.body))
        self.held.callback(self.web.close)
        self.declared = ["X-Version", "X-Owner"]

    def target(self) -> Target:
        return target(url=f"{self.web.url}/{MARKER}", headers=self.declared, allow="loopback")

    def change(self) -> None:
        self.body = MARKER[::-1].encode()

    def change_back(self) -> None:
        self.body = MARKER.encode()

    def turn(self) -> None:
        self.headers.reverse()
        self.declared.reverse()

    def take_away(self) -> None:
        self.web.close()

    @contextmanager
    def stalling(self, patch: pytest.MonkeyPatch) -> Iterator[Target]:
        with silent(patch) as url:
            yield target(url=url, allow="loopback")


class ToolsServer(Place):
    """Tools over HTTP; each state is a server of its own."""

    probe = "mcp_tools"
    drifts = frozenset({"descriptions", "refund"})

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.running: list[subprocess.Popen[bytes]] = []
        self.held.callback(self.take_away)
        self.first = self.url = self.start([tool("search"), tool("refund")])

    def start(self, tools: list[dict[str, Any]]) -> str:
        path = self.folder / f"tools-{len(self.running)}.json"
        path.write_text(json.dumps({"page": 1, "version": "1.0.0", "tools": tools}))
        url, started = serve_tools(path)
        self.running.append(started)
        return url

    def target(self) -> Target:
        return target(url=self.url, allow="loopback")

    def change(self) -> None:
        self.url = self.start([tool("search"), tool("refund", description=f"other {MARKER}")])

    def change_back(self) -> None:
        self.url = self.first

    def turn(self) -> None:
        self.url = self.start([tool("refund"), tool("search")])

    def take_away(self) -> None:
        for each in self.running:
            each.kill()
            each.wait()

    @contextmanager
    def stalling(self, patch: pytest.MonkeyPatch) -> Iterator[Target]:
        with silent(patch) as url:
            yield target(url=f"{url}/mcp", allow="loopback")


def serve_tools(settings: Path) -> tuple[str, subprocess.Popen[bytes]]:
    """Start a server of tools over HTTP; return its address once it answers."""
    port = free_port()
    command = [sys.executable, str(SERVER), str(settings), str(port)]
    started = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    if comes(lambda: started.poll() is not None or listens(port)) and started.poll() is None:
        return f"http://127.0.0.1:{port}/mcp", started
    started.kill()
    started.wait()
    pytest.fail("the server did not start")


def listens(port: int) -> bool:
    """Whether somebody listens on a port of the loopback interface."""
    with socket.socket() as trying:
        return trying.connect_ex(("127.0.0.1", port)) == 0
