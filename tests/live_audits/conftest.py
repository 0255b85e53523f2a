"""One server for a module, and Node where a test asks for it."""

from collections.abc import Iterator

import pytest

from tests.js.toolchain import Toolchain, installed
from tests.live_audits.live import Live, live


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with live(tmp_path_factory.mktemp("live")) as running:
        yield running


@pytest.fixture(scope="session")
def toolchain() -> Toolchain:
    return installed()
