"""Runs git against a remote that was checked: no configuration but ours, no hook, ended at its deadline."""

import base64
import os
import re
import shlex
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from branches.ports import Target
from debugger.adapters.addresses import Allowed
from debugger.adapters.options import TargetUnfit, text, text_or
from debugger.adapters.outbound import Place, Unreachable, checked_address
from debugger.adapters.programs import run

TIMEOUT_S: Final = 10.0
_URL: Final = re.compile(
    r"(?P<scheme>https|http|ssh)://(?:(?P<user>[A-Za-z0-9._-]+)@)?"
    r"(?P<host>[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(?::(?P<port>[0-9]{1,5}))?"
    r"(?P<path>/[A-Za-z0-9._~/+-]+)"
)
_PATH: Final = re.compile(r"[^\"\\%$\x00-\x1f]+")
_OBJECT: Final = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_PORTS: Final = {"https": 443, "http": 80, "ssh": 22}
_CONFIG: Final = {
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    "core.askPass": "false",
    "core.sshCommand": "false",
    "credential.helper": "",
    "fetch.recurseSubmodules": "false",
    "http.followRedirects": "false",
    "http.proxy": "",
    "http.sslVerify": "true",
    "protocol.allow": "never",
    "protocol.version": "2",
    "trailer.separators": ":",
}


@dataclass(frozen=True, slots=True)
class Remote:
    """A repository that may be asked, and what git is told about the way there."""

    address: str
    is_local: bool
    config: Mapping[str, str] = field(repr=False)
    deadline: float = field(default_factory=lambda: time.monotonic() + TIMEOUT_S)

    def refs(self, *patterns: str, most: int) -> dict[str, str]:
        """Return the remote's refs that fit a pattern: name -> object id. Raises Unreachable."""
        # In no repository: what one on the way configures may not lead elsewhere.
        printed = self._git(os.devnull, "ls-remote", "--", self.address, *patterns, most=most)
        lines = printed.decode("utf-8", "surrogateescape").split("\n")
        pairs = (line.partition("\t") for line in lines)
        return {name: commit for commit, _, name in pairs if _OBJECT.fullmatch(commit)}

    def inside(self, *arguments: str, most: int) -> bytes:
        """Run git in a local repository and return what it printed. Raises Unreachable."""
        return self._git(self.address, *arguments, most=most)

    def _git(self, git_dir: str, *arguments: str, most: int) -> bytes:
        ran = run(
            ["git", "--no-pager", "--git-dir", git_dir, *arguments],
            env=_environment({**_CONFIG, **self.config}),
            deadline=self.deadline,
            most_bytes=most,
        )
        if ran.code != 0:
            raise Unreachable("git_failed")
        return ran.out


def remote_of(target: Target) -> Remote:
    """Return the target's remote. Raises TargetUnfit, and Unreachable where it may not be asked."""
    address = text(target, "remote")
    if address.startswith("/"):
        return _local(Path(address))
    match = _URL.fullmatch(address)
    if match is None:
        raise TargetUnfit("remote", "path_or_url")
    try:
        allowed = Allowed.of(target.options.get("allow"))
    except ValueError:
        raise TargetUnfit("allow", "networks") from None
    scheme, host = match["scheme"], match["host"]
    port = int(match["port"] or _PORTS[scheme])
    found, _ = checked_address(Place(scheme, host, port, "/"), allowed)
    config = {f"protocol.{scheme}.allow": "always"}
    if scheme == "ssh":
        config["core.sshCommand"] = _ssh(target, found, host)
    elif match["user"] is not None:
        raise TargetUnfit("remote", "no_user")
    else:
        config |= _http(target, found, host, port)
    return Remote(address, is_local=False, config=config)


def _local(path: Path) -> Remote:
    if ".." in path.parts:
        raise TargetUnfit("remote", "path_or_url")
    if not os.path.isdir(path):  # noqa: PTH112 - it raises nothing, whatever the folder above allows
        raise Unreachable("path_absent")
    remote = Remote(str(path), is_local=True, config={"protocol.file.allow": "always"})
    if remote.inside("rev-parse", "--is-bare-repository", most=64) != b"true\n":
        raise Unreachable("not_bare")
    return remote


def _http(target: Target, address: str, host: str, port: int) -> dict[str, str]:
    """Pin the address that was checked, and send the secret that an environment variable holds."""
    config: dict[str, str] = {}
    if "[" not in host:
        shown = f"[{address}]" if ":" in address else address
        config["http.curloptResolve"] = f"{host}:{port}:{shown}"
    if "ca_file" in target.options:
        config["http.sslCAInfo"] = text(target, "ca_file")
    if "auth_env" in target.options:
        secret = os.environ.get(text(target, "auth_env"), "")
        if not re.fullmatch(r"[\x21-\x7e]+", secret):
            raise Unreachable("secret_missing")
        pair = f"{text_or(target, 'auth_user', 'x-access-token')}:{secret}"
        config["http.extraHeader"] = f"Authorization: Basic {base64.b64encode(pair.encode()).decode()}"
    is_plain = urlsplit(text(target, "remote")).scheme == "http"
    if is_plain and target.options.get("allow") != "loopback":
        raise TargetUnfit("remote", "https")
    return config


def _ssh(target: Target, address: str, host: str) -> str:
    """Return the ssh command: the checked address under the host's own key, and nobody's settings."""
    settings = {
        "HostName": address,
        "HostKeyAlias": host.strip("[]"),
        "StrictHostKeyChecking": "yes",
        "UserKnownHostsFile": _quoted(text(target, "known_hosts"), "known_hosts"),
        "GlobalKnownHostsFile": os.devnull,
        "IdentityFile": _quoted(text(target, "identity_file"), "identity_file"),
        "IdentitiesOnly": "yes",
        "IdentityAgent": "none",
        "BatchMode": "yes",
        "ConnectTimeout": "3",
        "ProxyCommand": "none",
        "PermitLocalCommand": "no",
    }
    command = ["ssh", "-F", os.devnull]
    for name, value in settings.items():
        command += ["-o", f"{name}={value}"]
    return shlex.join(command)


def _quoted(path: str, option: str) -> str:
    """Return a file's path as ssh reads it: whole, with nothing in it that ssh would replace."""
    if not path.startswith("/") or not _PATH.fullmatch(path):
        raise TargetUnfit(option, "path")
    return f'"{path}"'


def _environment(config: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which only our own settings count."""
    own = {
        "PATH": os.environ.get("PATH", os.defpath),
        "LC_ALL": "C",
        "HOME": os.devnull,  # where curl looks for passwords
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_PROTOCOL_FROM_USER": "0",
        "GIT_CONFIG_COUNT": str(len(config)),
    }
    for number, (name, value) in enumerate(config.items()):
        own |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    return own
