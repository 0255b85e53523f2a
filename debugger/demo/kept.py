"""What a second start of the demo continues with: the run that was made, and the desk on a free port."""

import fcntl
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from debugger.demo.layout import DemoWorld
from debugger.demo.world import TeamRun, write_targets
from debugger.supervisor import PortBusy, check_port, free_port


class AlreadyRunning(RuntimeError):
    """Another demo runs on the same folder."""


@contextmanager
def only_demo(var: Path) -> Iterator[None]:
    """Hold the folder for one demo at a time; raises AlreadyRunning."""
    with (var / "demo.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise AlreadyRunning from None
        yield


def _file(world: DemoWorld) -> Path:
    return world.folder / "run.json"


def kept_run(world: DemoWorld) -> TeamRun | None:
    """Return the run made at an earlier start, or None."""
    try:
        return TeamRun(**json.loads(_file(world).read_text()))
    except (OSError, ValueError, TypeError):
        return None


def keep_run(world: DemoWorld, run: TeamRun) -> None:
    """Keep the run's ids for the next start."""
    _file(world).write_text(json.dumps(asdict(run)))


def kept_world(folder: Path, python: str) -> DemoWorld:
    """Return the world laid out earlier; its desk moves off a taken port. Raises OSError, ValueError."""
    world = DemoWorld.load(folder)
    try:
        check_port("127.0.0.1", world.desk_port)
        port = world.desk_port
    except PortBusy:
        port = free_port()
    moved = DemoWorld(folder, port, python)
    moved.save()
    write_targets(moved)
    return moved
