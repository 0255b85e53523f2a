"""Starts the demo world as a person does, in a folder, a database and on a port of its own, and stops it."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import psycopg

from debugger.supervisor import free_port
from tests.patience import PATIENCE_S, comes

ROOT: Final = Path(__file__).resolve().parent.parent
READY: Final = "Ctrl-C stops"
_START_S: Final = 300.0
SHARES_A_BROKER: Final = os.environ.get("CELERY_BROKER_URL", "").startswith("redis")
_DATABASES: Final = ("DATABASE_URL", "DATABASE_OWNER_URL")
# What the tests' own Django was told is nothing a person's shell would say.
_NOT_A_PERSONS: Final = ("DJANGO_SETTINGS_MODULE", "BRANCHGATE_TASKS_EAGER", "BRANCHGATE_TARGETS")


@dataclass
class DemoProcess:
    """A running `manage.py demo`: where it keeps its files, its port, its environment and its output."""

    var: Path
    port: int
    env: Mapping[str, str]
    log: Path
    running: "subprocess.Popen[bytes] | None" = None
    children: list[int] = field(default_factory=list)

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def run(self) -> str:
        """The id of the run that the team made."""
        return str(self._kept()["run"])

    @property
    def brief(self) -> str:
        """The id of the message that a person edits."""
        return str(self._kept()["brief"])

    @property
    def token(self) -> str:
        return (self.var / "demo" / "recorder-token").read_text().strip()

    def _kept(self) -> dict[str, object]:
        kept: dict[str, object] = json.loads((self.var / "demo" / "run.json").read_text())
        return kept

    def output(self) -> str:
        return self.log.read_text() if self.log.exists() else ""

    def start(self) -> "DemoProcess":
        """Start it and wait until it prints its address; what it had printed before is kept in the log."""
        seen = self.output().count(READY)
        with self.log.open("ab") as log:
            self.running = subprocess.Popen(
                [sys.executable, "manage.py", "demo", "--port", str(self.port)],
                cwd=ROOT,
                env=dict(self.env),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        comes(lambda: self.running.poll() is not None or self.output().count(READY) > seen, _START_S)
        assert self.running.poll() is None, self.output()
        assert self.output().count(READY) > seen, self.output()
        return self

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Stop it by a signal and return its exit code; safe to repeat."""
        if self.running is None:
            return 0
        if self.running.poll() is None:
            self.children = descendants(self.running.pid)
            self.running.send_signal(number)
        return self.running.wait(2 * PATIENCE_S)

    def left(self) -> list[int]:
        """Return the processes it had started that live on, however long they are waited for."""
        comes(lambda: not any(map(is_alive, self.children)))
        return [pid for pid in self.children if is_alive(pid)]


def manage(*arguments: str, env: Mapping[str, str]) -> "subprocess.CompletedProcess[str]":
    """Run one management command to its end; stdout and stderr are kept apart."""
    return subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=ROOT,
        env=dict(env),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )


@contextmanager
def place(folder: Path) -> Iterator[DemoProcess]:
    """Give a world a folder, a port and, on PostgreSQL, a database; stop it and drop them afterwards."""
    folder.mkdir(parents=True, exist_ok=True)
    kept = {name: value for name, value in os.environ.items() if name not in {*_NOT_A_PERSONS, *_DATABASES}}
    with _databases() as databases:
        var = folder / "var"
        env = {**kept, **databases, "BRANCHGATE_VAR": str(var), "PYTHONUNBUFFERED": "1"}
        world = DemoProcess(var, free_port(), env, folder / "demo.log")
        try:
            yield world
        finally:
            world.stop()
            shutil.rmtree(var, ignore_errors=True)


@contextmanager
def _databases() -> Iterator[dict[str, str]]:
    """Make a database on the server of the environment; SQLite needs none made."""
    urls = {name: os.environ[name] for name in _DATABASES if os.environ.get(name, "").startswith("postgres")}
    if not urls:
        yield {}
        return
    name = f"branchgate_world_{uuid4().hex[:12]}"
    owner = urls.get("DATABASE_OWNER_URL", urls.get("DATABASE_URL", ""))
    with psycopg.connect(owner, autocommit=True) as server:
        server.execute(f'CREATE DATABASE "{name}"')
        try:
            yield {key: _named(url, name) for key, url in urls.items()}
        finally:
            server.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


def _named(url: str, name: str) -> str:
    return urlunsplit(urlsplit(url)._replace(path=f"/{name}"))


def descendants(pid: int) -> list[int]:
    """Return every process below a process, as they are now."""
    listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True)
    pairs = [tuple(map(int, line.split())) for line in listed.stdout.splitlines()]
    below, wanted = [], {pid}
    while found := [child for child, parent in pairs if parent in wanted and child not in below]:
        below += found
        wanted = set(found)
    return below


def is_alive(pid: int) -> bool:
    """Return whether a process runs; one that ended and was not collected yet does not."""
    listed = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return bool(listed.stdout.strip()) and not listed.stdout.strip().startswith("Z")
