"""Runs a program and ends it, with everything it started, when its time or its bytes are up."""

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from debugger.adapters.outbound import Unreachable

MOST_SAID: Final = 32 * 1024
"""As much as a pipe holds before anybody reads it."""
_CHUNK: Final = 256 * 1024


@dataclass(frozen=True, slots=True)
class Ran:
    """How a program ended, and what it printed; its error stream goes nowhere."""

    code: int
    out: bytes = field(repr=False)


def run(
    command: Sequence[str], *, env: Mapping[str, str], deadline: float, most_bytes: int, said: bytes = b""
) -> Ran:
    """Run a program until `deadline` (of `time.monotonic`), telling it `said`, and return how it ended.

    Raises Unreachable: program_missing, timeout, too_large.
    """
    if len(said) > MOST_SAID:
        raise Unreachable("too_large")
    try:
        child = subprocess.Popen(  # noqa: S603 - our own commands only
            command,
            env=dict(env),
            stdin=subprocess.PIPE if said else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            bufsize=0,
        )
    except (OSError, ValueError):
        raise Unreachable("program_missing") from None
    try:
        _tell(child, said)
        out = _printed(child, deadline, most_bytes)
        return Ran(child.wait(timeout=max(0.0, deadline - time.monotonic())), out)
    except subprocess.TimeoutExpired:
        raise Unreachable("timeout") from None
    finally:
        _end(child)


def _tell(child: subprocess.Popen[bytes], said: bytes) -> None:
    if child.stdin is not None:
        with suppress(BrokenPipeError), child.stdin:
            child.stdin.write(said)


def _printed(child: subprocess.Popen[bytes], deadline: float, most_bytes: int) -> bytes:
    assert child.stdout is not None  # noqa: S101 - a pipe was asked for
    parts: list[bytes] = []
    left = most_bytes
    with selectors.DefaultSelector() as selector:
        selector.register(child.stdout, selectors.EVENT_READ)
        while True:
            remaining = deadline - time.monotonic()
            if remaining <= 0 or not selector.select(remaining):
                raise Unreachable("timeout")
            if not (part := os.read(child.stdout.fileno(), _CHUNK)):
                return b"".join(parts)
            if (left := left - len(part)) < 0:
                raise Unreachable("too_large")
            parts.append(part)


def _end(child: subprocess.Popen[bytes]) -> None:
    """Kill the program's group unless it is already gone, and leave neither a zombie nor a pipe."""
    if child.returncode is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()
