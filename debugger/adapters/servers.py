"""Addresses of servers that speak no HTTP: taken apart, secrets by reference, checked after resolving."""

import os
import re
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

from branches.ports import Target
from debugger.adapters.addresses import Allowed
from debugger.adapters.options import TargetUnfit, text
from debugger.adapters.outbound import Place, Unreachable, checked_address

_URL: Final = re.compile(r"[\x21-\x7e]+")
_HOST: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\]")
_VARIABLE: Final = re.compile(r"(?:\{env:)?([A-Za-z_][A-Za-z0-9_]{0,127})(\})?")


@dataclass(frozen=True, slots=True)
class Server:
    """An address in its parts; it holds no secret, and still shows nothing of itself."""

    scheme: str
    host: str = field(repr=False)
    port: int = field(repr=False)
    user: str | None = field(repr=False)
    path: str = field(repr=False)
    """What follows the first slash, decoded."""
    settings: Mapping[str, str] = field(repr=False)


def server_of(target: Target, ports: Mapping[str, int], settings: frozenset[str] = frozenset()) -> Server:
    """Take the option `url` apart; `ports` names the schemes, `settings` what may follow a question mark.

    Raises TargetUnfit, also for a password inside: that is an environment variable's business. An address
    without a host would be a socket in the file system, and is none.
    """
    url = text(target, "url")
    if not _URL.fullmatch(url) or "\\" in url:
        raise TargetUnfit("url", "form")
    try:
        parts = urlsplit(url)
        port = parts.port
        asked = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError:
        raise TargetUnfit("url", "form") from None
    whole = parts.netloc.rpartition("@")[2]
    host = whole.rpartition(":")[0] if port is not None else whole
    if parts.scheme not in ports or parts.fragment or not _HOST.fullmatch(host):
        raise TargetUnfit("url", "form")
    if parts.password is not None:
        raise TargetUnfit("url", "password_env")
    if len(dict(asked)) != len(asked) or not settings.issuperset(dict(asked)):
        raise TargetUnfit("url", "settings")
    user = None if parts.username is None else unquote(parts.username)
    path = unquote(parts.path).removeprefix("/")
    return Server(parts.scheme, host.strip("[]"), port or ports[parts.scheme], user, path, dict(asked))


def address_of(server: Server, target: Target) -> str:
    """Resolve once and return the address to connect to. Raises TargetUnfit, Unreachable."""
    try:
        allowed = Allowed.of(target.options.get("allow"))
    except ValueError:
        raise TargetUnfit("allow", "networks") from None
    place = Place(server.scheme, server.host, server.port, "/")
    return checked_address(place, allowed)[0]


def password_of(target: Target, address: str, *, is_private: bool) -> str | None:
    """Return the secret that `password_env` (`NAME` or `{env:NAME}`) refers to; None where none is named.

    It goes in clear only to addresses that the target itself allows: never to public ones. `is_private`
    says that the conversation is encrypted. Raises TargetUnfit, Unreachable.
    """
    if "password_env" not in target.options:
        return None
    found = _VARIABLE.fullmatch(given := text(target, "password_env"))
    if found is None or given.startswith("{") != given.endswith("}"):
        raise TargetUnfit("password_env", "variable")
    secret = os.environ.get(found[1])
    if not secret:
        raise Unreachable("secret_missing")
    if not is_private and ip_address(address).is_global:
        raise Unreachable("secret_in_clear")
    return secret


@contextmanager
def ends_after(fileno: int, limit: float) -> Iterator[threading.Event]:
    """Cut a conversation that lasts longer than `limit` seconds, however slowly it still moves.

    The event says whether it was: a cut looks like an end.
    """
    is_cut = threading.Event()
    raw = socket.socket(fileno=os.dup(fileno))

    def cut() -> None:
        is_cut.set()
        with suppress(OSError):
            raw.shutdown(socket.SHUT_RDWR)

    watch = threading.Timer(max(0.0, limit), cut)
    watch.daemon = True
    watch.start()
    try:
        yield is_cut
    finally:
        watch.cancel()
        raw.close()


def whole(target: Target, option: str, default: int, most: int) -> int:
    """Return an option as a whole number from 1 to `most`. Raises TargetUnfit."""
    value = target.options.get(option, default)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise TargetUnfit(option, f"whole:1-{most}")
    return value


def seconds(target: Target, option: str, default: int, most: int) -> float:
    """Return an option as a time in seconds, more than 0 and at most `most`. Raises TargetUnfit."""
    value = target.options.get(option, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= most:
        raise TargetUnfit(option, f"seconds:{most}")
    return float(value)
