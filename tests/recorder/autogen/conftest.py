"""One recorder and one gate for each test."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.recorder.autogen.teams import Bench, opened


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    # The library logs what its agents raised, words and all: that is its own log, in its own process.
    logging.getLogger("autogen_core").setLevel(logging.CRITICAL)
    with opened(tmp_path) as bench:
        yield bench
