"""One database for the races of a test session, made only when a race is asked for."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from branches.queries import clock
from tests import plugins
from tests.hostile.arena import ON_POSTGRES, Arena, arena

# SQLite has no roles: what does not apply there is not collected, for nothing is ever skipped.
collect_ignore = [] if ON_POSTGRES else ["test_two_roles.py"]


@pytest.fixture(scope="session")
def ring(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arena]:
    with arena(tmp_path_factory.mktemp("arena")) as made:
        yield made


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Move the server's clock; it goes on, or stands `still`, so that nothing here is too slow for it."""
    real = clock.timezone.now

    def move(delta: timedelta, *, still: bool = False) -> None:
        then = real() + delta

        def shifted() -> datetime:
            return then if still else real() + delta

        monkeypatch.setattr(clock.timezone, "now", shifted)

    return move


@pytest.fixture
def world_of_fakes(
    db: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, settings: Any
) -> plugins.FakeWorld:
    """Fakes behind the ports, and no world yet: the test makes its own."""
    return plugins.install(monkeypatch, tmp_path, settings)
