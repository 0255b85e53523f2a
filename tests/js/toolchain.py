"""Node and both versions of the SDK, installed once from the lock file; without Node the tests skip."""

import fcntl
import hashlib
import json
import os
import platform
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

HERE: Final = Path(__file__).resolve().parent
RECORDER: Final = HERE.parents[1] / "debugger" / "recorder" / "ai_sdk"
MODULE: Final = RECORDER / "branchgate.mjs"
VERSIONS: Final = {"6": "6.0.326", "7": "7.0.173"}
_MODULES: Final = HERE / "node_modules"
# What the recorder needs, and what version 7 needs.
_LEAST: Final = {"6": (20, 6), "7": (22, 0)}
_MACHINES: Final = {"x86_64": "x64", "aarch64": "arm64"}


@dataclass(frozen=True, slots=True)
class Toolchain:
    """The programs that run each version of the SDK, and the folder in which both are installed."""

    node: Mapping[str, str]
    modules: Path

    def run(
        self, major: str, script: str, *arguments: str, env: Mapping[str, str] | None = None, cwd: Path = HERE
    ) -> "subprocess.CompletedProcess[str]":
        """Run a script of this folder to its end, successfully."""
        done = subprocess.run(
            [self.node[major], script, *arguments],
            cwd=cwd,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-4000:]
        return done

    def told(self, major: str, script: str, *arguments: str, **more: Any) -> Any:
        """Run a script and return the JSON of its last line."""
        return json.loads(self.run(major, script, *arguments, **more).stdout.splitlines()[-1])


def installed() -> Toolchain:
    """Return what runs both versions; installs it where that was not done yet. Skips without Node."""
    own, npm = shutil.which("node"), shutil.which("npm")
    if own is None or npm is None:
        pytest.skip("Node or npm is not installed: nothing can run the Vercel AI SDK")
    _install(npm)
    brought = _MODULES / f"node-linux-{_MACHINES.get(platform.machine())}" / "bin" / "node"
    programs = [own, *([str(brought)] if brought.exists() else [])]
    return Toolchain({major: _fit(programs, least) for major, least in _LEAST.items()}, _MODULES)


def _install(npm: str) -> None:
    """Install what the lock file names; workers that come at once wait for the first."""
    lock = HERE / "package-lock.json"
    with lock.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        wanted = hashlib.sha256(held.read() + (HERE / "package.json").read_bytes()).hexdigest()
        stamp = _MODULES / ".installed"
        if stamp.exists() and stamp.read_text() == wanted:
            return
        command = [npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]
        done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, timeout=600, check=False)
        if done.returncode:
            pytest.skip("npm could not install the Vercel AI SDK: its registry did not give it")
        stamp.write_text(wanted)


def _fit(programs: list[str], least: tuple[int, int]) -> str:
    for program in programs:
        said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
        major, minor = said.strip().removeprefix("v").split(".")[:2]
        if (int(major), int(minor)) >= least:
            return program
    pytest.skip(
        f"no Node of at least {least[0]}.{least[1]} is here, nor one that npm brings for this machine"
    )
