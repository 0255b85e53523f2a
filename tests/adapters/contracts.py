"""What the contract tests of all three ports have in common."""

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pytest

from tests.adapters.mail_server import MailServer
from tests.adapters.wire import leaves_nothing_open
from tests.patience import END_S, ends

WORD: Final = re.compile("[a-z_]{3,40}")
VERSION: Final = re.compile("[A-Za-z0-9._-]{1,64}")
ODD: Final[dict[str, Any]] = {
    "half of a character": "\ud800",
    "a zero byte": "/a\0b",
    "a name too long": "/" + "x" * 300,
    "a path too long": "/x" * 4_000,
    "a number": 7,
    "a list": ["\ud800"],
    "an object": {"a\0": "\ud800"},
}
"""What may stand in an option, and what nobody can have meant."""


@pytest.fixture(autouse=True)
def everything_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")


@pytest.fixture(scope="module")
def mail_server() -> Iterator[MailServer]:
    if shutil.which("dovecot") is None:
        pytest.skip("dovecot is not on this machine")
    made = MailServer()
    yield made
    made.close()


@contextmanager
def ends_cleanly(most_s: float = END_S) -> Iterator[None]:
    """Fail where something does not end, or leaves a process or something open behind."""
    processes = children()
    with leaves_nothing_open(), ends(most_s):
        yield
    assert children() <= processes


def children() -> set[str]:
    """The processes that this one started and that are still there, as zombies too."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # one that ended meanwhile
            if path.read_text().rpartition(")")[2].split()[1] == str(os.getpid()):
                found.add(path.parent.name)
    return found
