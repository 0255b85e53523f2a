"""Git, asked about one repository with everything switched off by which that repository could act."""

import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from debugger.adapters.outbound import Unreachable
from debugger.adapters.programs import run

TIMEOUT_S: Final = 10.0
MOST_OUTPUT: Final = 64 * 1024 * 1024
MOST_CONTENT: Final = 256 * 1024 * 1024
# What a repository's own configuration could make git execute, fetch or believe is switched off.
_CONFIG: Final = {
    "core.fsmonitor": "false",
    "core.untrackedCache": "false",
    "core.hooksPath": os.devnull,
    "core.attributesFile": os.devnull,
    "core.excludesFile": os.devnull,
    "core.sshCommand": "false",
    "core.askPass": "false",
    "core.quotePath": "false",
    # A file changed within the same second and size must still be seen.
    "core.checkStat": "default",
    "core.trustctime": "true",
    "protocol.allow": "never",
    "status.showUntrackedFiles": "all",
    "submodule.recurse": "false",
}


class Unreadable(Exception):
    """The repository cannot be measured; the message is a closed word."""


@dataclass(slots=True)
class Limits:
    """What may still be spent on one measurement, over a repository and all its submodules."""

    deadline: float = field(default_factory=lambda: time.monotonic() + TIMEOUT_S)
    content_left: int = MOST_CONTENT

    def spend(self, size: int) -> None:
        """Count bytes that are about to be hashed. Raises Unreadable."""
        self.content_left -= size
        if self.content_left < 0:
            raise Unreadable("too_large")
        if time.monotonic() > self.deadline:
            raise Unreadable("timeout")


@dataclass(slots=True)
class Repository:
    """A work tree; `places` names its parts where git must not look for them itself."""

    path: Path
    limits: Limits = field(default_factory=Limits)
    places: dict[str, str] = field(default_factory=dict)
    config: dict[str, str] = field(default_factory=lambda: dict(_CONFIG))

    def git(self, *arguments: str) -> bytes:
        """Run git and return what it printed. Raises Unreadable."""
        command = ["git", "--no-optional-locks", "--no-pager", "-C", str(self.path), *arguments]
        env = {**_environment(self.config), **self.places}
        try:
            done = run(command, env=env, deadline=self.limits.deadline, most_bytes=MOST_OUTPUT)
        except Unreachable as error:
            missing = error.problem == "program_missing"
            raise Unreadable("git_missing" if missing else error.problem) from None
        if done.code not in (0, 1):
            raise Unreadable("git_failed")
        return done.out

    def switch_filters_off(self) -> None:
        """Name every filter the repository configures, so that none of them is run."""
        found = self.git("config", "--null", "--name-only", "--get-regexp", r"^filter\..*\.")
        for name in found.decode("utf-8", "surrogateescape").split("\0"):
            if name:
                self.config[name] = "false" if name.endswith(".required") else ""


def _environment(config: dict[str, str]) -> dict[str, str]:
    """Return an environment in which only this repository and our own settings count."""
    own = {
        "PATH": os.environ.get("PATH", os.defpath),
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        # A repository's own word on a protocol outweighs `protocol.allow`, and none outweighs this.
        "GIT_ALLOW_PROTOCOL": "none",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_CONFIG_COUNT": str(len(config)),
    }
    for number, (name, value) in enumerate(config.items()):
        own |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    return own
