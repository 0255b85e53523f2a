"""A site for the browser probe, looked at in a real Chromium without waiting long."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from branches.ports import StateMeasurement
from tests.adapters.places_pages import Shop, hurry

needs_chromium = [
    pytest.mark.browser,
    pytest.mark.skipif(shutil.which("chromium") is None, reason="no chromium on this machine"),
]


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    made = Shop(tmp_path_factory.mktemp("shop"))
    yield made
    made.web.close()


@pytest.fixture(scope="module")
def signed_in(site: Shop) -> StateMeasurement:
    """The site's page as it is at first."""
    site.begin()
    with pytest.MonkeyPatch.context() as patch:
        hurry(patch)
        return site.measured()


@pytest.fixture
def shop(site: Shop) -> Shop:
    site.begin()
    return site


def at_once[Found](*visits: Callable[[], Found]) -> list[Found]:
    """What visits find that are made at one time."""
    with ThreadPoolExecutor(3) as pool:
        return list(pool.map(lambda visit: visit(), visits))


@pytest.fixture
def visits() -> Iterator[Path]:
    """The folder where this test's visits put everything: nobody else's are in it.

    Its name is short: a browser makes sockets there, whose names may not be long.
    """
    with tempfile.TemporaryDirectory(prefix="visits-") as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", folder)
        yield Path(folder)


def leftovers(visits: Path) -> tuple[list[Path], dict[str, bytes]]:
    """What lies in the folder, and what runs there: each program with its command line."""
    programs = {}
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            is_own = bytes(visits) in path.read_bytes()
            if is_own and running(path.parent.name):
                programs[path.parent.name] = path.with_name("cmdline").read_bytes()
    return list(visits.iterdir()), programs


def running(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False
