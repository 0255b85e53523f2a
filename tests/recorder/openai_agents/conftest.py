"""One recorder and one gate for each test; the SDK's own exporter is not there, so nothing leaves."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from agents import set_trace_processors

from tests.recorder.openai_agents.crew import Bench, opened


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    set_trace_processors([])
    with opened(tmp_path) as bench:
        yield bench
