"""Repositories where operations leave refs and commits."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from branches.ports import Target
from tests.adapters.places import MARKER, git
from tests.adapters.places_git import Forge, host
from tests.adapters.places_left import NONSENSE, TOOL, Place
from tests.adapters.talks import OPERATION, hurry, says, server, stalls
from tests.adapters.test_http_json import payload


class Ref(Place):
    kind = "git_ref"
    tells_times = False

    def __init__(self, folder: Path, request: pytest.FixtureRequest) -> None:
        super().__init__(folder, request)
        self.forge = Forge(folder)

    def target(self, **changes: Any) -> Target:
        wanted = {"done": {"commit": self.forge.first}}
        return self.forge.target(**{"payload": ["commit"], "expected": wanted, **changes})

    @property
    def sent(self) -> str:
        return payload({"commit": self.forge.first}, TOOL)

    def put(self, key: str = OPERATION) -> None:
        self.forge.push(f"agent/{key.replace(':', '-')}")

    def put_other(self) -> None:
        self.forge.commit("other")
        self.forge.push(f"agent/{OPERATION.replace(':', '-')}", "--force")

    def gone(self) -> Iterator[tuple[str, Target]]:
        yield "no such folder", self.target(remote=str(self.folder / "none"))
        yield "no repository", self.target(remote=str(self.folder))
        (self.forge.bare / "HEAD").write_text(MARKER)
        yield "nonsense", self.target()

    @contextmanager
    def stalling(self) -> Iterator[Target]:
        slow = self.folder / "bin"
        slow.mkdir()
        (slow / "git").write_text("#!/bin/sh\nsleep 120 &\nwait\n")
        (slow / "git").chmod(0o755)
        self.patch.setenv("PATH", f"{slow}:{os.environ['PATH']}")
        hurry(self.patch)
        yield self.target()


class RefOverHttp(Ref):
    def __init__(self, folder: Path, request: pytest.FixtureRequest) -> None:
        super().__init__(folder, request)
        self.web = host(self.forge)
        self.held.callback(self.web.close)

    def target(self, **changes: Any) -> Target:
        return super().target(**{"remote": f"{self.web.url}/bare.git", "allow": "loopback", **changes})

    def gone(self) -> Iterator[tuple[str, Target]]:
        hurry(self.patch, 3)
        error = b"HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n"
        for name, said in {"an error": error, "nothing": b""}.items():
            with server(says(said)) as port:
                yield name, self.target(remote=f"http://127.0.0.1:{port}/bare.git")
        with server(NONSENSE) as port:
            yield "nonsense", self.target(remote=f"http://127.0.0.1:{port}/bare.git")
        yield "another path", self.target(remote=f"{self.web.url}/none.git")
        self.web.close()
        yield "nobody", self.target()

    @contextmanager
    def stalling(self) -> Iterator[Target]:
        hurry(self.patch)
        with server(stalls()) as port:
            yield self.target(remote=f"http://127.0.0.1:{port}/bare.git")


class Trailer(Ref):
    """A branch whose commits carry the keys."""

    tells_times = True

    def __init__(self, folder: Path, request: pytest.FixtureRequest) -> None:
        super().__init__(folder, request)
        self.before = self.forge.first
        self.forge.commit("done")
        self.tree = git(self.forge.tree, "rev-parse", "HEAD^{tree}").strip()
        git(self.forge.tree, "checkout", "-q", "-B", "topic", self.before)

    def target(self, **changes: Any) -> Target:
        options: dict[str, Any] = {"trailer": "Operation-Key", "ref": "refs/heads/topic", "payload": ["tree"]}
        options["expected"] = {"done": {"tree": self.tree}}
        return super().target(**{**options, **changes})

    @property
    def sent(self) -> str:
        return payload({"tree": self.tree}, TOOL)

    def put(self, key: str = OPERATION, content: str = "done") -> None:
        if key != OPERATION:
            self.commit(key, f"older {key[-1]}")
        else:
            self.before = git(self.forge.tree, "rev-parse", "HEAD").strip()
            self.commit(key, content)

    def put_other(self) -> None:
        """In place of the operation's commit, where there is one."""
        if git(self.forge.tree, "log", "-1", "--format=%B").find(OPERATION) >= 0:
            git(self.forge.tree, "checkout", "-q", "-B", "topic", self.before)
        self.commit(OPERATION, "other")

    def commit(self, key: str, content: str) -> None:
        self.forge.commit(content, f"Operation-Key: {key}")
        self.forge.push("topic", "--force")
