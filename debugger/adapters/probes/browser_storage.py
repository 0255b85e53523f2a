"""A browser's saved session: cookies and local storage, as the browser itself writes them out."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from debugger.adapters.plain_files import read_plain

_MOST_BYTES: Final = 2 * 1024 * 1024
# An expiry moves with every visit and is no part of what is held.
_COOKIE: Final = ("name", "value", "domain", "path", "httpOnly", "secure", "sameSite", "partitionKey")


class StorageUnreadable(Exception):
    """The file holds no session that could be used; the message is a closed word."""


@dataclass(frozen=True, slots=True)
class Storage:
    """What is given to the browser, and the bytes by which two sessions are told apart."""

    state: Any = field(default=None, repr=False)
    content: bytes = field(default=b"[[],[]]", repr=False)
    is_used: bool = False


def read_storage(path: str | None) -> Storage:
    """Return the saved session; an empty one where there is no file. Raises StorageUnreadable."""
    if path is None:
        return Storage()
    try:
        raw = read_plain(Path(path), _MOST_BYTES)
    except FileNotFoundError:
        return Storage()
    except OSError:
        raise StorageUnreadable("storage_unreadable") from None
    if len(raw) > _MOST_BYTES:
        raise StorageUnreadable("too_large")
    try:
        state = json.loads(raw)
        cookies, origins = state.get("cookies", []), state.get("origins", [])
        kept = [sorted(map(_cookie, cookies)), sorted(map(_origin, origins))]
        return Storage({"cookies": cookies, "origins": origins}, written(kept), bool(cookies or origins))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise StorageUnreadable("storage_unreadable") from None


def written(value: Any) -> bytes:
    """Return JSON in one form."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _cookie(each: dict[str, Any]) -> str:
    if not all(isinstance(each[name], str) for name in ("name", "value")):
        raise ValueError("cookie")
    return written([each.get(name) for name in _COOKIE]).decode()


def _origin(each: dict[str, Any]) -> list[Any]:
    """Return an origin and the names it keeps things under; the things themselves change as it is used."""
    return [str(each["origin"]), sorted(str(item["name"]) for item in each.get("localStorage", []))]
