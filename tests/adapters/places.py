"""Real places for the probes: each can be made, changed, changed back, turned, held up and taken away."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from branches.evidence.keys import HmacKey
from branches.ports import Moment, Target
from debugger.adapters.probes import git_commands, http_answer, mcp_http, mcp_session
from tests.adapters.talks import hurry, server, stalls

MARKER = "CONTENT-MARKER-7f3a"
KEY = HmacKey("0badc0de", b"k" * 32)
NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
MOMENT = Moment(None, None, NOW)


def target(**options: Any) -> Target:
    return Target("here", options, KEY)


def git(folder: Path, *arguments: str) -> str:
    who = {f"GIT_{role}_{name}": "a@b" for role in ("AUTHOR", "COMMITTER") for name in ("NAME", "EMAIL")}
    env = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": os.devnull, **who}
    done = subprocess.run(
        ["git", "-C", str(folder), *arguments], env=env, check=True, capture_output=True, text=True
    )
    return done.stdout


class Place:
    """What every place offers the contract tests; its content, its names and its changes hold the marker."""

    probe = ""
    moment = MOMENT
    drifts: frozenset[str] = frozenset()
    """The names of the parts that `change` changes; empty where the probe has none."""
    is_listed = True
    """Whether the state is a list of things, so that it can be told in another order."""
    order_counts = False
    """Whether another order of the things is another state."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.held = ExitStack()

    def target(self) -> Target:
        raise NotImplementedError

    def spoken(self) -> dict[str, Any]:
        """The target's options as the command line takes them, where no moment is said."""
        return dict(self.target().options)

    def change(self) -> None:
        raise NotImplementedError

    def change_back(self) -> None:
        raise NotImplementedError

    def turn(self) -> None:
        """Put the same things there in another order."""
        raise NotImplementedError

    def take_away(self) -> None:
        raise NotImplementedError

    @contextmanager
    def stalling(self, patch: pytest.MonkeyPatch) -> Iterator[Target]:
        """A target at which this place does not come to an end; deadlines are made short."""
        raise NotImplementedError
        yield

    def close(self) -> None:
        self.held.close()


class PipedPlace(Place):
    """A place that is read from one file; `option` names it. A pipe in its stead never answers."""

    option = "path"

    @contextmanager
    def stalling(self, patch: pytest.MonkeyPatch) -> Iterator[Target]:
        os.mkfifo(self.folder / "pipe")
        yield target(**{**self.target().options, self.option: str(self.folder / "pipe")})


@contextmanager
def silent(patch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a server that takes a question and says nothing."""
    hurry(patch)
    for module in (http_answer, mcp_http, mcp_session):
        patch.setattr(module, "READ_S", 0.8)
    with server(stalls()) as port:
        yield f"http://127.0.0.1:{port}"


class Repository(Place):
    probe = "git_workspace"
    drifts = frozenset({"untracked"})

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.path = folder / "repo"
        self.path.mkdir()
        (self.path / "note.md").write_text(MARKER)
        git(self.path, "init", "-q", "-b", "main")
        git(self.path, "add", "-A")
        git(self.path, "commit", "-q", "-m", "first")

    def target(self) -> Target:
        return target(path=str(self.path))

    def change(self) -> None:
        (self.path / f"new-{MARKER}.md").write_text(MARKER)

    def change_back(self) -> None:
        (self.path / f"new-{MARKER}.md").unlink()

    def turn(self) -> None:
        (self.path / "note.md").rename(self.path / "aside.md")
        (self.path / "note.md").write_text(MARKER)
        (self.path / "aside.md").unlink()
        git(self.path, "repack", "-adq")
        git(self.path, "pack-refs", "--all")

    def take_away(self) -> None:
        self.path.rename(self.folder / "elsewhere")

    @contextmanager
    def stalling(self, patch: pytest.MonkeyPatch) -> Iterator[Target]:
        slow = self.folder / "bin"
        slow.mkdir()
        (slow / "git").write_text("#!/bin/sh\nsleep 120 &\nwait\n")
        (slow / "git").chmod(0o755)
        patch.setenv("PATH", f"{slow}:{os.environ['PATH']}")
        patch.setattr(git_commands, "TIMEOUT_S", 0.8)
        yield self.target()


class Registry(Place):
    probe = "mcp_tools"
    drifts = frozenset({"descriptions", "refund"})

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.settings = folder / "tools.json"
        self.write([tool("search"), tool("refund")])

    def write(
        self, tools: list[dict[str, Any]], *, page: int = 10, version: str = "1.0.0", **more: Any
    ) -> None:
        self.settings.write_text(json.dumps({"tools": tools, "page": page, "version": version, **more}))

    def target(self) -> Target:
        server = Path(__file__).with_name("mcp_server.py")
        return target(command=[sys.executable, str(server), str(self.settings)])

    def change(self) -> None:
        self.write([tool("search"), tool("refund", description=f"other {MARKER}")])

    def change_back(self) -> None:
        self.write([tool("search"), tool("refund")])

    def turn(self) -> None:
        self.write([tool("refund"), tool("search")], page=1)

    def take_away(self) -> None:
        self.settings.unlink()

    @contextmanager
    def stalling(self, patch: pytest.MonkeyPatch) -> Iterator[Target]:
        patch.setattr(mcp_session, "TIMEOUT_S", 3.0)
        self.write([tool("search")], hang=True)
        yield self.target()


def tool(name: str, **changes: Any) -> dict[str, Any]:
    described = {
        "name": name,
        "description": f"{name} {MARKER}",
        "inputSchema": {"type": "object", "properties": {"share": {"type": "number", "minimum": 0.5}}},
        "annotations": {"destructiveHint": name == "refund"},
    }
    return {**described, **changes}


class Site(Place):
    """A site whose page and session a test sets."""

    probe = "http_session"
    drifts = frozenset({"session"})
    is_listed = False

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.live = {"session=abc"}
        self.status = 200
        self.headers: list[tuple[str, str]] = []
        self.cookie_file = folder / "cookie"
        self.cookie_file.write_text("session=abc\n")
        self.web = Web(self.answer)

    def answer(self, request: BaseHTTPRequestHandler) -> tuple[int, list[tuple[str, str]], bytes]:
        cookie = request.headers.get("Cookie")
        status = 401 if cookie and cookie not in self.live else self.status
        return status, self.headers, MARKER.encode()

    def target(self) -> Target:
        return target(
            base_url=self.web.url, path=f"/{MARKER}", cookie_file=str(self.cookie_file), allow="loopback"
        )

    def change(self) -> None:
        self.live.clear()

    def change_back(self) -> None:
        self.live.add("session=abc")

    def take_away(self) -> None:
        self.web.close()

    @contextmanager
    def stalling(self, patch: pytest.MonkeyPatch) -> Iterator[Target]:
        with silent(patch) as url:
            yield target(**{**self.target().options, "base_url": url})

    def close(self) -> None:
        self.web.close()
        super().close()


class Web:
    """A real HTTP server on the loopback interface; `answer` gives status, headers and body."""

    def __init__(self, answer: Any) -> None:
        class Routes(BaseHTTPRequestHandler):
            def log_message(self, *_: Any) -> None:
                pass

            def do_GET(self) -> None:
                web.paths.append(self.path)
                web.seen.append(dict(self.headers))
                status, headers, body = answer(self)
                self.send_response(status)
                for name, value in headers:
                    self.send_header(name, value)
                if not any(name == "Content-Length" for name, _ in headers):
                    self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        web = self
        self.paths: list[str] = []
        self.seen: list[dict[str, str]] = []
        self.is_open = True
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Routes)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def close(self) -> None:
        if self.is_open:
            self.is_open = False
            self.server.shutdown()
            self.server.server_close()
