"""The demo as a person starts it: without JavaScript, a second time, on a busy port, stopped, and walked."""

import json
import re
import signal
import socket
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from playwright.sync_api import Browser

from debugger.demo.walk import EXPECTED
from tests import worlds
from tests.browser.journey import STAGES, Journey
from tests.browser.visits import Visit, launched
from tests.worlds import DemoProcess

pytestmark = pytest.mark.walk
REFUSALS = [
    "resume without approval",
    "Ada approves herself",
    "resume after a late change",
    "an approval of the outdated digest",
    "a second redemption",
    "the parent's old report offered as the outcome",
]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DemoProcess]:
    """A world for this module, which its tests stop and start again."""
    with worlds.place(tmp_path_factory.mktemp("walk")) as world:
        yield world.start()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with launched() as browser:
        yield browser


@pytest.mark.browser
def test_it_walks_the_whole_path_without_javascript(demo: DemoProcess, chromium: Browser) -> None:
    visit = Visit(demo, chromium, signed_in={})
    journey = Journey(demo, visit, scripts=False)
    journey.walk()
    assert journey.stages == STAGES
    assert "The research and verification desks" in newest_report(demo)
    visit.close()


def test_it_ends_with_all_it_started_on_ctrl_c_and_continues_its_run_when_started_again(
    demo: DemoProcess,
) -> None:
    run = demo.run
    assert demo.stop(signal.SIGINT) == 0, demo.output()
    assert len(demo.children) >= 4
    assert demo.left() == []
    assert "Traceback" not in demo.output()
    demo.start()
    assert demo.run == run
    assert demo.output().count("The team runs") == 1


def test_it_says_which_port_is_busy_and_starts_nothing(demo: DemoProcess) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = worlds.manage("demo", "--port", str(port), env=demo.env)
    assert ended.returncode != 0
    assert f"Port {port} on 127.0.0.1 is in use" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert ended.stdout == ""


def test_it_walks_over_http_through_all_statuses_and_is_refused_six_times(demo: DemoProcess) -> None:
    assert demo.stop() == 0
    assert demo.left() == []
    ended = worlds.manage("demo", "--walk", env=demo.env)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "Traceback" not in ended.stderr
    seen = re.findall(r"^([a-z]+(?:_[a-z]+)*)  +\S", ended.stdout, re.MULTILINE)
    assert in_order(seen) == list(EXPECTED)
    assert re.findall(r"^  refused: ([^:]+):", ended.stdout, re.MULTILINE) == REFUSALS
    assert "8 statuses seen, 6 attempts refused." in ended.stdout


def in_order(statuses: list[Any]) -> list[Any]:
    """Return each status once, where it came first."""
    return list(dict.fromkeys(statuses))


def newest_report(demo: DemoProcess) -> str:
    with closing(sqlite3.connect(demo.var / "demo" / "desk" / "desk.sqlite")) as desk:
        (content,) = desk.execute("SELECT content FROM reports ORDER BY version DESC LIMIT 1").fetchone()
    return str(json.loads(content)["body"])
