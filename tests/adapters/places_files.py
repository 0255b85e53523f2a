"""Places on this machine's disk: a folder, a credential, a saved list of tools."""

import itertools
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from branches.ports import Target
from debugger.adapters.probes import file_tree
from tests.adapters.places import MARKER, PipedPlace, Place, target, tool


class Folder(Place):
    """A folder with a file, a folder, a program and a link that leads nowhere."""

    probe = "files"
    drifts = frozenset({f"{MARKER}.md"})

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.path = folder / "above" / "work"
        self.fill(["note", "sub", "link"])

    def fill(self, names: list[str]) -> None:
        self.path.mkdir(parents=True)
        for name in names:
            if name == "note":
                (self.path / f"{MARKER}.md").write_text(MARKER)
            elif name == "link":
                (self.path / "link").symlink_to(f"/nowhere/{MARKER}")
            else:
                (self.path / "sub").mkdir()
                (self.path / "sub" / "run.sh").write_text("echo")
                (self.path / "sub" / "run.sh").chmod(0o755)

    def target(self) -> Target:
        return target(path=str(self.path))

    def change(self) -> None:
        (self.path / f"{MARKER}.md").write_text(MARKER[::-1])

    def change_back(self) -> None:
        (self.path / f"{MARKER}.md").write_text(MARKER)

    def turn(self) -> None:
        """Elsewhere, if need be in memory: most file systems list names in an order of their own."""
        memory = Path("/dev/shm")
        if memory.is_dir() and os.access(memory, os.W_OK):
            elsewhere = self.held.enter_context(TemporaryDirectory(dir=memory, prefix="branchgate-"))
            self.path = Path(elsewhere) / "work"
        else:
            rmtree(self.path)
        self.fill(["link", "sub", "note"])

    def take_away(self) -> None:
        rmtree(self.path.parent)

    @contextmanager
    def stalling(self, patch: pytest.MonkeyPatch) -> Iterator[Target]:
        """A folder that never rests: each time it is listed, somebody writes into it."""
        real, number = os.scandir, itertools.count()

        def meddle(*given: Any) -> Any:
            (self.path / f"log{next(number)}").write_text("x")
            return real(*given)

        with patch.context() as meddled:
            meddled.setattr(file_tree.os, "scandir", meddle)
            yield self.target()


class Secret(PipedPlace):
    """A token in a file."""

    probe = "credential"
    option = "file"
    drifts = frozenset({"key"})

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.path = folder / "above" / f"{MARKER}.json"
        self.path.parent.mkdir()
        self.change_back()

    def write(self, token: str, scopes: list[str]) -> None:
        said = {"access_token": token, "expires_at": 4_000_000_000, "scopes": scopes}
        self.path.write_text(json.dumps(said))

    def target(self) -> Target:
        return target(file=str(self.path))

    def change(self) -> None:
        self.write(f"other-{MARKER}", ["read", MARKER])

    def change_back(self) -> None:
        self.write(MARKER, ["read", MARKER])

    def turn(self) -> None:
        self.write(MARKER, [MARKER, "read"])

    def take_away(self) -> None:
        rmtree(self.path.parent)


class ToolsFile(PipedPlace):
    """A saved list of two tools."""

    probe = "mcp_tools"
    option = "file"
    drifts = frozenset({"descriptions", "refund"})

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.path = folder / f"{MARKER}.json"
        self.change_back()

    def target(self) -> Target:
        return target(file=str(self.path))

    def change(self) -> None:
        self.path.write_text(json.dumps([tool("search"), tool("refund", description=f"other {MARKER}")]))

    def change_back(self) -> None:
        self.path.write_text(json.dumps({"tools": [tool("search"), tool("refund")]}))

    def turn(self) -> None:
        tools = [dict(reversed(tool(name).items())) for name in ("refund", "search")]
        self.path.write_text(json.dumps(tools, indent=1))

    def take_away(self) -> None:
        self.path.unlink()
