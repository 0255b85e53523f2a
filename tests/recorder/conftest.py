"""A gate, a world of files and the probes for every test of the recorder."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from branches import registry
from debugger.recorder.conformance.gate import Gate
from tests.recorder.team import DECLARATION, PROBES, World


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate(DECLARATION)
    yield gate
    gate.close()


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr(registry, "find", lambda port, name: PROBES[name])
    world = World(tmp_path)
    yield world
    world.close()
