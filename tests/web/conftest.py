"""Signed-in people, and runs that are long or went wrong."""

from pathlib import Path
from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client

from branches.models import Run
from tests import plugins
from tests.builders import World, failed_run, make_world
from tests.web.cast import forked, signed_in


@pytest.fixture(autouse=True)
def nobody_failed_yet() -> None:
    """Forget failed sign-ins and used codes of other tests, whose people had the same keys."""
    cache.clear()


@pytest.fixture
def world(db: None) -> World:
    return make_world()


@pytest.fixture
def outside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, settings: Any) -> plugins.FakeWorld:
    return plugins.install(monkeypatch, tmp_path, settings)


@pytest.fixture
def ada(world: World) -> Client:
    return signed_in(world.ada)


@pytest.fixture
def run(world: World) -> Run:
    return failed_run(world)


@pytest.fixture
def branch(world: World, run: Run, outside: plugins.FakeWorld) -> Run:
    return forked(world, run)
