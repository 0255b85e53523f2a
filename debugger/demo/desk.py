"""The desk in a process of its own: `python -m debugger.demo.desk --port 8799 --store FILE`."""

import argparse
import json
import re
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import FrameType
from typing import Any, Final
from urllib.parse import unquote

from debugger.demo.desk_store import Conflict, DeskStore, DraftUnknown, SectionUnknown

COOKIE: Final = "desk_session"
DELAY_S: Final = 4.0
_MOST_BYTES: Final = 64 * 1024
_KEY: Final = re.compile(r"[\x21-\x7e]{1,200}")
_FIELDS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "tickets": ("ticket", ("subject", "body")),
    "mail": ("mail", ("recipient", "subject", "body")),
    "drafts": ("draft", ("title", "section", "body")),
}

type Answer = tuple[int, dict[str, Any]]


class Desk(ThreadingHTTPServer):
    """The server with its store and the clerk who publishes what was asked for, after a while."""

    daemon_threads = True

    def __init__(self, port: int, store: Path, delay_s: float = DELAY_S) -> None:
        super().__init__(("127.0.0.1", port), _Routes)
        self.store = DeskStore(store)
        self._delay_s = delay_s
        self._is_closing = threading.Event()
        self._clerk = threading.Thread(target=self._publish, daemon=True)
        self._clerk.start()

    @property
    def url(self) -> str:
        """The desk's address."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def server_close(self) -> None:
        """Stop publishing and let go of port and store."""
        self._is_closing.set()
        self._clerk.join()
        super().server_close()
        self.store.close()

    def _publish(self) -> None:
        while not self._is_closing.wait(0.2):
            self.store.publish_due(self._delay_s)


class _Routes(BaseHTTPRequestHandler):
    server: Desk

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's own word
        """Say nothing: addresses hold keys."""

    def do_GET(self) -> None:
        self._say(*_read(self.server.store, self._path(), self._cookie()))

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        if length > _MOST_BYTES:
            return self._say(413, {"error": "too_large"})
        try:
            body = json.loads(self.rfile.read(length) or b"{}")
        except ValueError:
            return self._say(400, {"error": "json"})
        key = self.headers.get("Idempotency-Key", "")
        return self._say(*_written(self.server.store, self._path(), key, body))

    def _path(self) -> list[str]:
        return [unquote(part) for part in self.path.partition("?")[0].strip("/").split("/")]

    def _cookie(self) -> str | None:
        try:
            found = SimpleCookie(self.headers.get("Cookie", "")).get(COOKIE)
        except CookieError:
            return None
        return None if found is None else found.value

    def _say(self, status: int, body: Mapping[str, Any]) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def _read(store: DeskStore, path: Sequence[str], cookie: str | None) -> Answer:
    match path:
        case ["health"]:
            return 200, {"ok": True}
        case ["tickets"]:
            return 200, {"items": store.listed("ticket")}
        case ["mail"]:
            return 200, {"items": store.listed("mail")}
        case ["drafts"]:
            return 200, {"items": store.listed("draft", "publication")}
        case ["tickets", "by-key", key]:
            return _found(store.find("ticket", key))
        case ["mail", "by-id", key]:
            return _found(store.find("mail", key))
        case ["drafts", "by-key", key]:  # a draft, or the wish to publish one: each has a key of its own
            return _found(store.find("draft", key) or store.find("publication", key))
        case ["reports", "latest"]:
            return _found(store.latest_report())
        case ["site"]:
            return _site(store, cookie)
    return 404, {"error": "route"}


def _site(store: DeskStore, cookie: str | None) -> Answer:
    if cookie is None:
        return 200, {"page": "the desk, seen from outside"}
    if store.is_signed_in(cookie):
        return 200, {"page": "the desk, with its drafts"}
    return 401, {"error": "session_expired"}


def _found(kept: dict[str, Any] | None) -> Answer:
    return (404, {"error": "unknown"}) if kept is None else (200, kept)


def _written(store: DeskStore, path: Sequence[str], key: str, body: Any) -> Answer:
    try:
        match path:
            case ["site", "sessions", cookie, ("live" | "expired") as word]:
                store.set_session(cookie, is_live=word == "live")
                return 200, {"session": word}
            case ["drafts", draft, "publish"]:
                return _kept(key, lambda: store.ask_to_publish(draft, key), asked=202)
            case [place] if place in _FIELDS:
                sort, names = _FIELDS[place]
                if not isinstance(body, dict) or not all(isinstance(body.get(name), str) for name in names):
                    return 400, {"error": "fields"}
                content = {name: body[name] for name in names}
                return _kept(key, lambda: store.keep(sort, key, content), asked=201)
    except Conflict:
        return 409, {"error": "key_stands_for_something_else"}
    except SectionUnknown:
        return 422, {"error": "section_unknown"}
    except DraftUnknown:
        return 404, {"error": "draft_unknown"}
    return 404, {"error": "route"}


def _kept(key: str, write: Callable[[], tuple[dict[str, Any], bool]], *, asked: int) -> Answer:
    if not _KEY.fullmatch(key):
        return 400, {"error": "idempotency_key"}
    kept, is_new = write()
    return (asked if is_new else 200), kept


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until stopped."""
    parser = argparse.ArgumentParser(prog="desk", description="The desk of the demo.")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--delay", type=float, default=DELAY_S, help="seconds until a report is published")
    options = parser.parse_args(arguments)
    desk = Desk(options.port, options.store, options.delay)

    def stop(_number: int, _frame: FrameType | None) -> None:
        threading.Thread(target=desk.shutdown).start()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    with desk:
        desk.serve_forever(poll_interval=0.1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
