"""Where an artifact lies: a file below a declared root, or an object of an HTTP store."""

from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Final
from urllib.parse import quote, urlsplit

from branches.ports import Target
from debugger.adapters.addresses import Allowed
from debugger.adapters.bearer import bearer
from debugger.adapters.destinations import files
from debugger.adapters.destinations.connections import Reply, exchange
from debugger.adapters.destinations.files import Artifact
from debugger.adapters.destinations.json_answer import problem_of
from debugger.adapters.destinations.keys_in_names import Template, named
from debugger.adapters.options import TargetUnfit, statuses, text_or
from debugger.adapters.outbound import Unreachable, place_of

MOST_KEYS: Final = 50
_NOBODY: Final = "branchgate-clock"


@dataclass(frozen=True, slots=True)
class Seen:
    """An artifact and the name under which it lies."""

    name: str
    artifact: Artifact

    @property
    def suffix(self) -> str:
        """The name's last suffix in small letters, with its dot."""
        return PurePosixPath(urlsplit(self.name).path).suffix.lower()


def template_of(target: Target, *, needs_key: bool = False) -> Template:
    """Return the template of the target's `path` or `url`. Raises TargetUnfit."""
    return Template.of(target, "url" if "url" in target.options else "path", needs_key=needs_key)


def name_of(target: Target, template: Template, operation_key: str) -> str:
    """Return the path or the address of one operation's artifact."""
    if "url" not in target.options or not template.has_key:
        return template.filled(operation_key)
    # A plus sign in an address is a space to some stores.
    return f"{template.before}{quote(named(operation_key), safe='')}{template.after}"


def look(target: Target, name: str) -> Seen | None:
    """Return what lies under a name, or None where the place says that nothing does. Raises Unreachable."""
    if "url" not in target.options:
        found = files.read(target, name)
        return None if found is None else Seen(name, found)
    reply = _asked(target, name)
    if reply.status in statuses(target, "absent", ()):
        return None
    if reply.status not in statuses(target, "found", (200,)):
        raise Unreachable(problem_of(reply.status))
    return Seen(name, _object(target, reply))


def of_keys(target: Target, template: Template, operation_keys: frozenset[str]) -> list[Seen]:
    """Return what lies under the names of these operations, the newest first."""
    if len(operation_keys) > MOST_KEYS:
        raise Unreachable("too_many")
    seen = [look(target, name_of(target, template, key)) for key in sorted(operation_keys)]
    return sorted(
        (each for each in seen if each is not None), key=lambda each: each.artifact.at, reverse=True
    )


def clock(target: Target, template: Template) -> str | None:
    """Return a time at the place before which every artifact there now was written; None where none is.

    Raises Unreachable.
    """
    if "url" in target.options:
        reply = _asked(target, name_of(target, template, _NOBODY))
        if reply.status >= 500:
            raise Unreachable("server_error")
        if not (at := _seconds(reply.headers.get("date"))):
            raise Unreachable("version_unreadable")  # without a time everything there would look newer
        return at
    return max((at for _, at in files.listed(target, template)), default=None)


def _asked(target: Target, url: str) -> Reply:
    method = text_or(target, "method", "GET")
    if method not in {"GET", "HEAD"}:
        raise TargetUnfit("method", "GET_or_HEAD")
    try:
        allowed = Allowed.of(target.options.get("allow"))
    except ValueError:
        raise TargetUnfit("allow", "networks") from None
    headers = bearer(target, place_of(url))
    return exchange("HEAD" if method == "HEAD" else "GET", url, allowed=allowed, headers=headers)


def _object(target: Target, reply: Reply) -> Artifact:
    media_type = reply.headers.get("content-type", "").partition(";")[0].strip().lower() or None
    at = _seconds(reply.headers.get("last-modified"))
    if text_or(target, "method", "GET") == "GET":
        return Artifact(sha256(reply.body).hexdigest(), len(reply.body), reply.body, at, media_type)
    # The store's own word for the content: told apart from a digest of it by its prefix.
    tag, size = reply.headers.get("etag", ""), reply.headers.get("content-length", "")
    if not tag or not size.isdigit():
        raise Unreachable("field_missing")
    return Artifact(f"etag:{tag}", int(size), b"", at, media_type)


def _seconds(written: str | None) -> str:
    """Return a time of HTTP in whole seconds since 1970, empty where there is none."""
    try:
        return str(int(parsedate_to_datetime(written or "").timestamp()))
    except (TypeError, ValueError, OverflowError, IndexError):
        return ""
