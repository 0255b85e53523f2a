"""One demo world and one Chromium for all browser tests, and branches at the stages they look at."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from debugger.demo import walk as steps
from debugger.demo.walker import Walk
from tests import worlds
from tests.browser.journey import Journey
from tests.browser.visits import Visit, launched, walk_to
from tests.worlds import DemoProcess


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Look for leaks after everything else."""
    here = [item for item in items if Path(__file__).parent in item.path.parents]
    places = [place for place, item in enumerate(items) if item in here]
    in_order = sorted(here, key=lambda item: item.path.name == "test_leaks.py")
    for place, item in zip(places, in_order, strict=True):
        item.add_marker(pytest.mark.browser)
        items[place] = item


@pytest.fixture(scope="package")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DemoProcess]:
    """The demo, served; when it has stopped, nothing that it started may still run."""
    with worlds.place(tmp_path_factory.mktemp("demo")) as world:
        yield world.start()
        assert world.stop() == 0, world.output()
        assert world.left() == []


@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    """Chromium, until the last test of this package."""
    with launched() as browser:
        yield browser


@pytest.fixture(scope="package")
def signed_in() -> dict[str, Any]:
    """The cookies of everybody who signed in already."""
    return {}


@pytest.fixture
def visit(demo: DemoProcess, chromium: Browser, signed_in: dict[str, Any]) -> Iterator[Visit]:
    """Open pages as people; the test fails where one logged an error or asked another host."""
    made = Visit(demo, chromium, signed_in)
    yield made
    made.close()


@pytest.fixture(scope="package")
def journey(demo: DemoProcess, chromium: Browser, signed_in: dict[str, Any]) -> Iterator[Journey]:
    """The whole path, clicked once: the first branch of this world, and the only one that is resumed."""
    visit = Visit(demo, chromium, signed_in)
    made = Journey(demo, visit, scripts=True)
    made.walk()
    yield made
    visit.close()


@pytest.fixture(scope="package")
def unsettled(demo: DemoProcess, journey: Journey) -> Iterator[Walk]:
    """A branch that stands at its effects, none of them asked for."""
    with walk_to(demo, steps._fork, steps._state) as walk:
        yield walk


@pytest.fixture(scope="package")
def asked(demo: DemoProcess, journey: Journey) -> Iterator[tuple[Walk, str]]:
    """A branch whose approval was asked for and not given, and the request's id."""
    with walk_to(demo, steps._fork, steps._state, steps._effects) as walk:
        yield walk, steps._ask(walk)
