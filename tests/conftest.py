"""What every test may ask for; the environment is settled before Django reads its settings."""

import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from tests.builders import World
    from tests.plugins import FakeWorld

_RANDOM_ID = re.compile(r"([a-z]{2,3})_[a-z2-7]{24}")
_VAR = tempfile.mkdtemp(prefix="branchgate-tests-")
os.environ["BRANCHGATE_VAR"] = _VAR
os.environ.setdefault("BRANCHGATE_TASKS_EAGER", "1")
# The same examples everywhere and each time, however slow the machine is on which they are tried.
settings.register_profile(
    "branchgate",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("branchgate")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Name what was skipped, and fail the session for it where nothing may be."""
    skipped = terminalreporter.stats.get("skipped", [])
    if skipped and os.environ.get("BRANCHGATE_NO_SKIPS"):
        terminalreporter.section("skipped, although everything must run here")
        for report in skipped:
            terminalreporter.write_line(f"{report.nodeid}: {report.longrepr[-1]}")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run in which a test was skipped, where the environment says that nothing may be."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("BRANCHGATE_NO_SKIPS") and reporter is not None and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep tests of one demo world on one worker."""
    from tests.scheduling import WorldScheduling

    return WorldScheduling(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Let the longest start first where tests run side by side, so that no worker is left with them alone."""
    from tests.scheduling import longest_first

    if hasattr(config, "workerinput"):
        items[:] = longest_first(items)


def pytest_make_parametrize_id(config: pytest.Config, val: object, argname: str) -> str | None:
    """Name a random id by its sort, so that every worker collects the same tests."""
    if isinstance(val, str) and _RANDOM_ID.search(val):
        return _RANDOM_ID.sub(r"\1_…", val).strip()
    return None


def pytest_unconfigure() -> None:
    shutil.rmtree(_VAR, ignore_errors=True)


@pytest.fixture
def world(db: None) -> "World":
    """A workspace with its cast, a paired recorder and a published workflow."""
    from tests.builders import make_world

    return make_world()


@pytest.fixture
def outside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, settings: Any) -> "FakeWorld":
    """Fakes behind the ports, and what they look at."""
    from tests import plugins

    return plugins.install(monkeypatch, tmp_path, settings)
