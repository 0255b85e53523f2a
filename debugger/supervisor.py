"""Runs several processes as one: all start, all stop, and none outlives the others."""

import ctypes
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Final

_STOP_S: Final = 12.0
_PR_SET_PDEATHSIG: Final = 1
_GIVEN_AWAY: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
_FIRST_PORT: Final = 10_000
_LAST_PORT: Final = 65_535
_FEWEST_PORTS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Program:
    """One process: a short name for messages, its command line, and what its environment adds."""

    name: str
    command: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)
    ends: bool = False
    """It does one thing and ends by itself; nothing else stops then."""


class PortBusy(OSError):
    """Somebody else listens on the port; the message says which and what to do."""


def check_port(host: str, port: int) -> None:
    """Raise PortBusy where the port cannot be bound."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            raise PortBusy(
                f"Port {port} on {host} is in use. Stop what listens there, or give --port."
            ) from None


def free_port(host: str = "127.0.0.1") -> int:
    """Return a port that is free now, and that nobody else gets by chance before somebody listens there.

    The system gives whoever asks for any port, and every connection, one of a range: this one lies below it.
    """
    most = _first_given_away() - 1
    if most - _FIRST_PORT < _FEWEST_PORTS:
        most = _LAST_PORT
    while True:
        port = random.SystemRandom().randint(_FIRST_PORT, most)
        try:
            check_port(host, port)
        except PortBusy:
            continue
        return port


def _first_given_away() -> int:
    """Return the lowest port that the system gives away by itself."""
    try:
        return int(_GIVEN_AWAY.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return 32_768


def wait_for(answered: Callable[[], bool], *, seconds: float, alive: Callable[[], bool]) -> bool:
    """Wait until something answers; give up when the time is over or its process is gone."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and alive():
        if answered():
            return True
        time.sleep(0.1)
    return False


def _die_with_parent() -> None:
    """Ask Linux to end the child when its parent is gone, even by SIGKILL."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


class Supervisor:
    """Starts programs in order and stops them in reverse; use as a context."""

    def __init__(self) -> None:
        self._running: list[tuple[Program, subprocess.Popen[bytes]]] = []
        self._stopping = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "Supervisor":
        for number in (signal.SIGTERM, signal.SIGINT):
            self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()
        for number, before in self._before.items():
            signal.signal(number, before)

    def start(self, program: Program) -> subprocess.Popen[bytes]:
        """Start a program in a process group of its own, so that Ctrl-C reaches it through us only."""
        running = subprocess.Popen(  # noqa: S603 - our own command lines
            list(program.command),
            env={**os.environ, **program.env},
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=_die_with_parent,  # noqa: PLW1509 - one thread only at this point
        )
        self._running.append((program, running))
        return running

    def wait(self) -> int:
        """Return 0 after a signal, or 1 when a program ended by itself, having named it."""
        while not self._stopping:
            for program, running in self._running:
                if running.poll() is not None and not program.ends and not self._stopping:
                    print(f"{program.name} ended with {running.returncode}; stopping.", file=sys.stderr)
                    return 1
            time.sleep(0.2)
        return 0

    def stop(self) -> None:
        """Ask every program to end, last started first; end by force what does not."""
        self._stopping = True
        for _, running in reversed(self._running):
            if running.poll() is None:
                running.terminate()
        deadline = time.monotonic() + _STOP_S
        for _, running in reversed(self._running):
            try:
                running.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                running.kill()
                running.wait()
            _end_group(running.pid)
        self._running.clear()

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._stopping = True


def _end_group(leader: int) -> None:
    """End what a program left behind of its group: one that ends while it starts may not end its children."""
    with suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


def web_program(host: str, port: int, *, processes: int = 1, env: Mapping[str, str] | None = None) -> Program:
    """Return the web server."""
    where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    command = [
        *(sys.executable, "-m", "gunicorn", "debugger.wsgi:application", "--bind", where),
        *("--workers", str(processes), "--threads", "24", "--worker-class", "gthread"),
        *("--no-control-socket", "--log-level", "warning", "--graceful-timeout", "3"),
        # Longer than clients keep an idle connection: none is closed under a request that is on its way.
        *("--keep-alive", "15"),
    ]
    return Program("web", command, env or {})


def worker_program(env: Mapping[str, str] | None = None) -> Program:
    """Return the Celery worker with its clock."""
    # The clock keeps nothing on disk: its one entry is due every few seconds, and a locked file would end it.
    command = [
        *(sys.executable, "-W", "ignore", "-m", "celery", "--quiet", "-A", "debugger.celery"),
        *("worker", "--beat"),
        *("--pool", "threads", "--concurrency", "4", "--loglevel", "warning"),
        *("--without-gossip", "--without-mingle", "--scheduler", "celery.beat:Scheduler"),
    ]
    return Program("worker", command, env or {})
