"""The product itself behind a port, on the test's own connection, and the homes of who talks to it."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from django.core.wsgi import get_wsgi_application
from django.db import connection, connections

from branches.commands.admit import issue_token
from branches.commands.publish_workflow import publish_workflow
from branches.commands.recover_handoff import recover_handoff
from branches.models import Receipt, Run
from branches.queries.audit_page import audit_page
from branches.queries.clock import now
from branches.queries.workflow_form import problem_of
from debugger.recorder import Verifier
from tests.builders import World, make_world

ALL = ("ingest", "redeem", "read")


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Quiet(WSGIRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


class Site:
    """A workspace on a server that answers. One thread at a time uses the connection."""

    def __init__(self, world: World, folder: Path, guard: threading.RLock, url: str) -> None:
        self.world, self.folder, self.guard, self.url = world, folder, guard, url
        self.opened: list[Any] = []
        self._tokens: dict[tuple[str, ...], str] = {}

    def publish(self, declared: dict[str, Any]) -> None:
        assert problem_of(declared) is None
        with self.guard:
            publish_workflow(
                workspace=self.world.workspace, publisher=self.world.workspace.uid, declaration=declared
            )

    def options(self, who: str, declared: dict[str, Any], *scopes: str) -> dict[str, Any]:
        """Return what opens a home, each time with the same token of its own."""
        own = (who, *scopes)
        if own not in self._tokens:
            with self.guard:
                _, token = issue_token(workspace=self.world.workspace, name=who, scopes=scopes)
            self._tokens[own] = token
        named = {"workflow": declared["workflow"], "version": declared["version"]}
        return {"server": self.url, "token": self._tokens[own], **named}

    def recorder(self, open_home: Any, declared: dict[str, Any], *scopes: str) -> Any:
        opened = open_home(self.folder / "home", **self.options("recorder", declared, *(scopes or ALL)))
        self.opened.append(opened)
        return opened

    def verifier(self, declared: dict[str, Any]) -> Verifier:
        opened = Verifier.open(self.folder / "verifier", **self.options("verifier", declared, *ALL))
        self.opened.append(opened)
        return opened

    def close(self, opened: Any) -> None:
        opened.close()
        self.opened.remove(opened)

    def decide(self, run: str, operation: str, action: str = "redeliver") -> None:
        """Let Ada, an engineer, decide on what stands on the board."""
        with self.guard:
            recover_handoff(
                person=self.world.ada,
                run=Run.objects.get(uid=run),
                operation=operation,
                action=action,
                shown=self.card(run, operation).shown,
            )

    def card(self, run: str, operation: str) -> Any:
        with self.guard:
            board = audit_page(Run.objects.get(uid=run), now()).board
        return next(card for column in board for card in column.cards if card.operation == operation)

    def state(self, run: str, operation: str) -> str:
        return str(self.card(run, operation).audit.verdict.state)

    def worked(self, run: str, operation: str) -> list[bool]:
        """Return, for each decision on an operation, whether a receipt shows that it worked."""
        return [each.worked is not None for each in self.card(run, operation).decided]

    def handoffs(self, run: str) -> list[Receipt]:
        with self.guard:
            return list(Receipt.objects.filter(run__uid=run, kind="handoff").order_by("seq"))


@contextmanager
def served(folder: Path) -> Iterator[Site]:
    """Serve the product within the test's own transaction."""
    guard, own, inner = threading.RLock(), connection._connections["default"], get_wsgi_application()

    def application(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        with guard:
            connections["default"] = own
            response = inner(environ, start_response)
            try:
                return list(response)
            finally:
                response.close()

    own.inc_thread_sharing()
    server = make_server("127.0.0.1", 0, application, server_class=_Server, handler_class=_Quiet)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    site = Site(make_world(), folder, guard, f"http://127.0.0.1:{server.server_port}")
    try:
        yield site
    finally:
        for each in site.opened:
            each.close()
        server.shutdown()
        server.server_close()
        thread.join()
        own.dec_thread_sharing()
