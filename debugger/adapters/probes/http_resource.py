"""A resource behind an address: whether it is there and its bytes, or where it says that it went."""

import os
import re
from collections.abc import Mapping
from typing import Final

from branches.evidence.domains import PART, STATE
from branches.ports import Fact, Moment, StateMeasurement, Target
from debugger.adapters.addresses import Allowed
from debugger.adapters.answers import unfit_measurement
from debugger.adapters.options import TargetUnfit, text, texts
from debugger.adapters.outbound import Unreachable
from debugger.adapters.probes.http_answer import Answer, fetch
from debugger.adapters.probes.no_journal import NoJournal

_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}")
_SECRET: Final = re.compile(r"[\x21-\x7e]+")
# They differ from answer to answer, or between two servers that hold the same.
_UNSTEADY: Final = frozenset(
    {"age", "connection", "date", "etag", "expires", "keep-alive", "last-modified", "set-cookie", "via"}
)
_GONE: Final = frozenset({404, 410})
_STRONG: Final = re.compile(r'"[\x21\x23-\x7e]+"')
_WORDS: Final = {401: "not_authorized", 403: "not_authorized", 407: "not_authorized", 429: "busy"}


class HttpResourceProbe(NoJournal):
    """Options: `url`, `headers` (a list of names that belong to the state), `auth_env`, `allow`."""

    part_names = ("status", "location", "headers", "body", "etag")
    limits = (
        "Status, body and the declared headers of one GET are compared. A body over 64 kB is compared by its"
        " strong ETag only, and not at all without one; weak ETags and dates prove nothing."
    )
    remedy = "Put the resource back as it was at its place, or fork from a checkpoint after it changed."

    def measure(self, target: Target, moment: Moment) -> StateMeasurement:
        """Ask once, following nothing; an answer that says nothing of the resource is unreachable."""
        del moment
        try:
            names = _names(target)
            answer = fetch(text(target, "url"), Allowed.of(target.options.get("allow")), _secret(target))
            pieces = _pieces(answer, names)
        except ValueError as error:
            return unfit_measurement(error)
        except Unreachable as error:
            return StateMeasurement(None, reachable=False, problem=error.problem)
        return _measurement(target, answer, pieces)


def _measurement(target: Target, answer: Answer, pieces: Mapping[str, bytes]) -> StateMeasurement:
    key = target.key
    whole = b"".join(
        b"%b\0%d:%b" % (name.encode(), len(piece), piece) for name, piece in sorted(pieces.items())
    )
    facts: dict[str, Fact] = {"status": answer.status, "compared_by": _way(pieces)}
    parts = {key.digest(PART, name): key.digest(STATE, b"http\0" + piece) for name, piece in pieces.items()}
    return StateMeasurement(key.digest(STATE, b"http\0" + whole), facts, parts=parts)


def _way(pieces: Mapping[str, bytes]) -> str:
    return next((name for name in ("body", "etag", "location") if name in pieces), "status")


def _pieces(answer: Answer, names: list[str]) -> dict[str, bytes]:
    """Return what the state consists of. Raises Unreachable.

    The error page of a missing resource is no part of it: it often says when it was made, and for whom.
    """
    pieces = {"status": b"%d" % answer.status}
    if answer.status in _GONE:
        return pieces
    if 300 <= answer.status < 400 and answer.status != 304 and (location := answer.header("location")):
        return {**pieces, "location": location.encode()}
    if not 200 <= answer.status < 300 or answer.status == 206:  # a part that nobody asked for is no whole
        raise Unreachable(
            _WORDS.get(answer.status, "server_error" if answer.status >= 500 else "status_undeclared")
        )
    if (answer.header("content-encoding") or "identity").strip().lower() != "identity":
        raise Unreachable("encoded")  # one text has many encoded forms
    if names:
        pieces["headers"] = b"".join(_framed(name, answer.header(name)) for name in names)
    if answer.digest is not None:
        return {**pieces, "body": answer.digest}
    etag = answer.header("etag") or ""
    if not _STRONG.fullmatch(etag):
        raise Unreachable("too_large")
    return {**pieces, "etag": etag.encode()}


def _framed(name: str, value: str | None) -> bytes:
    content = b"-" if value is None else b"+" + value.encode()
    return b"%d:%b%d:%b" % (len(name), name.encode(), len(content), content)


def _names(target: Target) -> list[str]:
    """Return the declared headers' names, sorted. Raises TargetUnfit."""
    names = [name.lower() for name in texts(target.options.get("headers", []), "headers")]
    if not all(_NAME.fullmatch(name) for name in names) or len(names) > 32:
        raise TargetUnfit("headers", "names")
    if not _UNSTEADY.isdisjoint(names):
        raise TargetUnfit("headers", "steady")
    return sorted(set(names))


def _secret(target: Target) -> str | None:
    if "auth_env" not in target.options:
        return None
    secret = os.environ.get(text(target, "auth_env"), "")
    if not _SECRET.fullmatch(secret):
        raise Unreachable("secret_missing")
    return secret
