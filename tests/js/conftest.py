"""Both versions of the SDK, for every test here."""

import pytest

from tests.js.toolchain import Toolchain, installed


@pytest.fixture(scope="session")
def toolchain() -> Toolchain:
    return installed()
