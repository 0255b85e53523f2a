"""The product's own web server on a database of its own, as it runs in production."""

import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from debugger.supervisor import free_port, wait_for, web_program
from tests import worlds
from tests.hostile.arena import arena
from tests.patience import PATIENCE_S


@dataclass(frozen=True, slots=True)
class Served:
    """A running server, and a token that may send and read."""

    url: str
    token: str
    env: Mapping[str, str]
    """Names its database, for programs that write into it."""

    def get(self, path: str) -> httpx.Response:
        """Read something of the API."""
        headers = {"Authorization": f"Bearer {self.token}"}
        return httpx.get(f"{self.url}/api/v1/{path}", headers=headers, timeout=PATIENCE_S).raise_for_status()

    def runs(self) -> set[str]:
        """Return the ids of the newest runs."""
        return {each["run"] for each in self.get("runs").json()["runs"]}

    def receipts(self, run: str) -> list[dict[str, Any]]:
        """Return a run's receipts."""
        lines = self.get(f"runs/{run}/receipts").text.splitlines()
        return [httpx.Response(200, text=line).json() for line in lines]


@contextmanager
def served(folder: Path) -> Iterator[Served]:
    """Serve, and stop what was started."""
    with arena(folder) as ring:
        # What a person would serve with: the tests' own settings are none of it.
        env = {name: value for name, value in ring.env.items() if name != "DJANGO_SETTINGS_MODULE"}
        token = worlds.manage("issue_token", "tests", "--scope", "ingest", "--scope", "read", env=env)
        assert token.returncode == 0, token.stderr[-2000:]
        port = free_port()
        log = folder / "web.log"
        with log.open("wb") as out:
            running = subprocess.Popen(
                web_program("127.0.0.1", port).command, cwd=worlds.ROOT, env=env, stdout=out, stderr=out
            )
        try:
            assert wait_for(
                lambda: _answers(port), seconds=2 * PATIENCE_S, alive=lambda: running.poll() is None
            ), log.read_text()
            yield Served(f"http://127.0.0.1:{port}", token.stdout.strip(), ring.env)
        finally:
            running.send_signal(signal.SIGTERM)
            running.wait(PATIENCE_S)


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(PATIENCE_S)
        return probe.connect_ex(("127.0.0.1", port)) == 0
