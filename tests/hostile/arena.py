"""A database of its own with many processes on it: the door through which every race is run.

Run as a program it performs one scenario of `tests.hostile.scenarios` and prints its result as JSON; the
processes of a race are forked from it, so that a start costs nothing.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import psycopg

ROOT: Final = Path(__file__).resolve().parent.parent.parent
ON_POSTGRES: Final = os.environ.get("DATABASE_URL", "").startswith("postgres")
_MASTER: Final = "ab" * 32


@dataclass(frozen=True)
class Arena:
    """An empty, migrated database and the environment that names it."""

    env: dict[str, str]

    def run(self, scenario: str, *arguments: str, timeout: float = 600) -> Any:
        """Perform a scenario in a process of its own; returns what it printed."""
        done = subprocess.run(
            [sys.executable, "-m", "tests.hostile.arena", scenario, *arguments],
            cwd=ROOT,
            env=self.env,
            timeout=timeout,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-4000:]
        return json.loads(done.stdout.splitlines()[-1])


@contextmanager
def arena(folder: Path) -> Iterator[Arena]:
    """Make the database on the server of the environment, or as a file; drop it afterwards."""
    kept = {name: value for name, value in os.environ.items() if name != "DATABASE_OWNER_URL"}
    env = {
        **kept,
        "BRANCHGATE_VAR": str(folder),
        "BRANCHGATE_MASTER_KEY": _MASTER,
        "BRANCHGATE_TASKS_EAGER": "0",
        "CELERY_BROKER_URL": "memory://",
        "DJANGO_SETTINGS_MODULE": "tests.settings",
    }
    with database() as url:
        env["DATABASE_URL"] = url or f"sqlite:///{folder / 'arena.sqlite3'}"
        made = Arena(env)
        made.run("prepared")
        yield made


@contextmanager
def database() -> Iterator[str]:
    """Give the address of a new PostgreSQL database, or nothing where SQLite is tested."""
    if not ON_POSTGRES:
        yield ""
        return
    server = os.environ.get("DATABASE_OWNER_URL") or os.environ["DATABASE_URL"]
    name = f"branchgate_arena_{uuid4().hex[:12]}"
    with psycopg.connect(_named(server, "postgres"), autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')
        try:
            yield _named(server, name)
        finally:
            connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


def _named(url: str, name: str) -> str:
    return urlunsplit(urlsplit(url)._replace(path=f"/{name}"))


def _main() -> None:
    import django

    django.setup()
    from tests.hostile import scenarios

    scenario, *arguments = sys.argv[1:]
    print(json.dumps(getattr(scenarios, scenario)(*arguments)))


if __name__ == "__main__":
    _main()
