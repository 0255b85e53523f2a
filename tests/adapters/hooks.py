"""A real receiver of webhooks on this machine: it keeps what came, and answers as it is told."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Came:
    """One request as it arrived; header names in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class Receiver:
    """Answers with `status`; `location` redirects; `hold` keeps the answer back until it is set."""

    def __init__(self) -> None:
        self.came: list[Came] = []
        self.status = 204
        self.location = ""
        self.hold: threading.Event | None = None
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._routes())
        self.server.daemon_threads = True
        self.port = int(self.server.server_address[1])
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    def close(self) -> None:
        if self.hold is not None:
            self.hold.set()
        self.server.shutdown()
        self.server.server_close()

    def _routes(self) -> type[BaseHTTPRequestHandler]:
        receiver = self

        class Routes(BaseHTTPRequestHandler):
            def log_message(self, *_: Any) -> None:
                pass

            def do_GET(self) -> None:
                self._take()

            def do_POST(self) -> None:
                self._take()

            def _take(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                headers = {name.lower(): value for name, value in self.headers.items()}
                receiver.came.append(Came(self.command, self.path, headers, body))
                if receiver.hold is not None:
                    receiver.hold.wait()
                self.send_response(receiver.status)
                if receiver.location:
                    self.send_header("Location", receiver.location)
                self.send_header("Content-Length", "0")
                self.end_headers()

        return Routes


@contextmanager
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    try:
        yield made
    finally:
        made.close()
