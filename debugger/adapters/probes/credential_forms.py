"""Tells what sort of credential some bytes are, and reads what it says of itself without trusting it."""

import base64
import binascii
import json
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

CLASSES: Final = ("api_key", "jwt", "oauth_token", "basic", "pem", "unknown")
_JWT: Final = re.compile(rb"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*")
_API_KEY: Final = re.compile(rb"[A-Za-z0-9][A-Za-z0-9_.~+/=:-]{15,511}")
_BASIC: Final = re.compile(rb"(?i:basic) +([A-Za-z0-9+/]+={0,2})")
_PAIR: Final = re.compile(rb"[\x21-\x39\x3b-\x7e]{1,128}:[\x20-\x7e]{1,256}")
_BEARER: Final = re.compile(rb"(?i:bearer) +")
_PEM: Final = b"-----BEGIN "
_CERTIFICATE: Final = b"-----BEGIN CERTIFICATE-----"
_SECRETS: Final = ("access_token", "token", "id_token", "refresh_token", "api_key", "key")
_EXPIRIES: Final = ("expires_at", "expiry", "expires_on")
_LATEST: Final = 253_402_300_799  # the last second that a date can name
_MILLISECONDS: Final = 100_000_000_000  # seconds of the year 5138: what is larger counts thousandths


class Malformed(ValueError):
    """It looks like one sort and cannot be read as it."""


@dataclass(frozen=True, slots=True)
class Credential:
    """What a credential is and says; None where it says nothing."""

    sort: str
    secret: bytes = field(repr=False)
    expires: datetime | None = None
    scopes: tuple[str, ...] | None = field(default=None, repr=False)


def read_credential(content: bytes, hint: str | None) -> Credential:
    """Return what the bytes are; a hint is believed where they can be read so. Raises Malformed."""
    bare = _BEARER.sub(b"", content, count=1)
    sort = hint or _sort_of(content, bare)
    if sort == "jwt":
        return _jwt(bare)
    if sort == "oauth_token":
        return _json_token(content) if content.startswith(b"{") else Credential(sort, bare)
    if sort == "pem":
        return _pem(content)
    if sort == "basic":
        return Credential(sort, _basic(content))
    return Credential(sort, bare)


def _sort_of(content: bytes, bare: bytes) -> str:
    if _PEM in content:
        return "pem"
    if content.startswith(b"{") and isinstance(_object(content), dict):
        return "oauth_token" if _secret_in(_object(content) or {}) is not None else "unknown"
    if _JWT.fullmatch(bare) and "alg" in (_segment(bare.split(b".")[0]) or {}):
        return "jwt"
    if _BASIC.fullmatch(content) or (_PAIR.fullmatch(content) and not _API_KEY.fullmatch(content)):
        return "basic"
    if bare != content:
        return "oauth_token"
    return "api_key" if _API_KEY.fullmatch(bare) else "unknown"


def _jwt(content: bytes) -> Credential:
    pieces = content.split(b".")
    claims = _segment(pieces[1]) if len(pieces) == 3 else None
    if claims is None or _segment(pieces[0]) is None:
        raise Malformed
    said = claims.get("scope", claims.get("scp", claims.get("scopes")))
    return Credential("jwt", content, _moment(claims.get("exp"), texts=False), _scopes(said))


def _json_token(content: bytes) -> Credential:
    said = _object(content)
    secret = None if said is None else _secret_in(said)
    if said is None or secret is None:
        raise Malformed
    expiry = next((said[name] for name in _EXPIRIES if said.get(name) is not None), None)
    return Credential(
        "oauth_token", secret, _moment(expiry, texts=True), _scopes(said.get("scopes", said.get("scope")))
    )


def _secret_in(said: dict[str, Any]) -> bytes | None:
    found = [[name, said[name]] for name in _SECRETS if isinstance(said.get(name), str) and said[name]]
    return json.dumps(found).encode() if found else None


def _pem(content: bytes) -> Credential:
    if _PEM not in content:
        raise Malformed
    plain = b"\n".join(line.strip() for line in content.splitlines())
    return Credential("pem", plain, _not_after(plain) if _CERTIFICATE in plain else None)


def _not_after(content: bytes) -> datetime:
    """Return when the first of the certificates that lie together runs out."""
    from cryptography import x509

    try:
        return min(each.not_valid_after_utc for each in x509.load_pem_x509_certificates(content))
    except ValueError:
        raise Malformed from None


def _basic(content: bytes) -> bytes:
    """Return name and password as text, in whichever of the two forms they stood."""
    found = _BASIC.fullmatch(content)
    if found is None:
        if b":" not in content:
            raise Malformed
        return content
    try:
        pair = base64.b64decode(found[1], validate=True)
    except binascii.Error:
        raise Malformed from None
    if b":" not in pair:
        raise Malformed
    return pair


def _moment(value: Any, *, texts: bool) -> datetime | None:
    """Read seconds (or thousandths) since 1970, or a time as text where that may be. Raises Malformed."""
    if value is None:
        return None
    if isinstance(value, str) and texts:
        try:
            found = datetime.fromisoformat(value)
        except ValueError:
            raise Malformed from None
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Malformed
    number = value / 1000 if texts and value > _MILLISECONDS else value
    if not 0 <= number <= _LATEST:
        raise Malformed
    return datetime.fromtimestamp(number, UTC)


def _scopes(value: Any) -> tuple[str, ...] | None:
    if value is None:
        return None
    if isinstance(value, str):
        return tuple(value.split())
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return tuple(value)
    raise Malformed


def _segment(piece: bytes) -> dict[str, Any] | None:
    try:
        return _object(base64.b64decode(piece + b"=" * (-len(piece) % 4), altchars=b"-_", validate=True))
    except binascii.Error:
        return None


def _object(content: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
