"""Ed25519 signatures in DSSE envelopes, and the resume permit, which is one.

An envelope is ``{"payload": base64, "payloadType", "signatures": [{"keyid", "sig": base64}]}`` with exactly
one signature. Verification is against pinned keys and strict: of an envelope's bytes no one can be changed.
"""

import base64
import binascii
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from branches.evidence.canonical import JsonValue, ProfileError, canonical_bytes, is_canonical, parse_strict
from branches.evidence.ids import is_id
from branches.evidence.keys import is_digest

PERMIT_TYPE: Final = "application/vnd.branchgate.permit.v1+json"
GOVERNANCE_TYPE: Final = "application/vnd.in-toto+json"
MAX_ENVELOPE_BYTES: Final = 8 * 1024 * 1024
MAX_PERMIT_LIFE: Final = timedelta(minutes=15)
CLOCK_LEEWAY: Final = timedelta(seconds=60)

_ENVELOPE_FIELDS: Final = frozenset({"payload", "payloadType", "signatures"})
_SIGNATURE_FIELDS: Final = frozenset({"keyid", "sig"})
_PERMIT_IDS: Final[Mapping[str, tuple[str, ...]]] = {
    "permit": ("prm",),
    "branch": ("br",),
    "audience": ("rec", "wrt"),
}
_PERMIT_FIELDS: Final = frozenset({"v", *_PERMIT_IDS, "subject_digest", "issued_at", "expires_at", "bound"})


class SignatureInvalid(ValueError):
    """An envelope that proves nothing; ``rule`` says which check failed, in one word."""

    def __init__(self, rule: str) -> None:
        super().__init__(f"signature: {rule}")
        self.rule = rule


class PermitRefused(SignatureInvalid):
    """A permit whose signature holds and which is not for this recorder at this time."""


class Signer:
    """An Ed25519 key that signs; shows its key id only."""

    __slots__ = ("_key", "key_id", "public_bytes")

    def __init__(self, seed: bytes) -> None:
        self._key = Ed25519PrivateKey.from_private_bytes(seed)
        self.public_bytes: Final = self._key.public_key().public_bytes_raw()
        self.key_id: Final = public_key_id(self.public_bytes)

    def __repr__(self) -> str:
        return f"Signer(key_id={self.key_id!r})"

    def sign(self, message: bytes) -> bytes:
        """64 bytes over the message itself."""
        return self._key.sign(message)


def public_key_id(public: bytes) -> str:
    """``sha256:`` + the hash of the 32 bytes of a public key."""
    return "sha256:" + hashlib.sha256(public).hexdigest()


def sign_dsse(payload_type: str, payload: bytes, signer: Signer) -> dict[str, Any]:
    """A DSSE envelope with one signature over the payload and its type."""
    signature = signer.sign(_pre_authentication(payload_type, payload))
    return {
        "payload": _encode(payload),
        "payloadType": payload_type,
        "signatures": [{"keyid": signer.key_id, "sig": _encode(signature)}],
    }


def verify_dsse(envelope: object, keys: Mapping[str, bytes], *, payload_type: str | None = None) -> bytes:
    """The payload, when one of the pinned keys (key id -> 32 bytes) signed it. Raises SignatureInvalid.

    payload_type: the type it must have; give it wherever the payload is acted on.
    """
    if not isinstance(envelope, dict) or envelope.keys() != _ENVELOPE_FIELDS:
        raise SignatureInvalid("form")
    kind = envelope["payloadType"]
    if not isinstance(kind, str) or not kind.isascii():
        raise SignatureInvalid("form")
    payload = _decode(envelope["payload"])
    key_id, signature = _only_signature(envelope["signatures"])
    public = keys.get(key_id)
    if public is None:
        raise SignatureInvalid("unknown_key")
    if public_key_id(public) != key_id:
        raise SignatureInvalid("key_id")
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, _pre_authentication(kind, payload))
    except (InvalidSignature, ValueError):
        raise SignatureInvalid("signature") from None
    if payload_type is not None and kind != payload_type:
        raise SignatureInvalid("payload_type")
    return payload


def envelope_bytes(envelope: Mapping[str, Any]) -> bytes:
    """The one file form of an envelope."""
    return canonical_bytes(dict(envelope))


def parse_envelope(raw: bytes) -> dict[str, Any]:
    """The envelope in a file, when its bytes are the one form they can have. Raises SignatureInvalid."""
    try:
        envelope = parse_strict(raw, max_bytes=MAX_ENVELOPE_BYTES)
    except ProfileError:
        raise SignatureInvalid("json") from None
    if not isinstance(envelope, dict):
        raise SignatureInvalid("form")
    if not is_canonical(envelope, raw):
        raise SignatureInvalid("not_canonical")
    return envelope


@dataclass(frozen=True, slots=True)
class PermitClaims:
    """What a resume permit says: this branch, as approved (subject_digest), by this recorder, until then.

    ``bound``: the values the permit carries (JSON of our profile), such as checkpoint and fingerprints.
    """

    permit: str
    branch: str
    audience: str
    subject_digest: str
    issued_at: datetime
    expires_at: datetime
    bound: dict[str, JsonValue]


def sign_permit(claims: Mapping[str, Any], signer: Signer) -> dict[str, Any]:
    """The signed permit. Raises PermitRefused for claims that verify_permit would not accept in time.

    claims: permit, branch, audience (the recorder's id), subject_digest, issued_at, expires_at (RFC 3339
    with offset, at most 15 minutes apart), bound (JSON of our profile).
    """
    whole = {"v": 1, **claims}
    _read_claims(whole)
    return sign_dsse(PERMIT_TYPE, canonical_bytes(whole), signer)


def verify_permit(
    envelope: object, keys: Mapping[str, bytes], *, audience: str, now: datetime
) -> PermitClaims:
    """The claims of a permit for this recorder at this time. Raises SignatureInvalid or PermitRefused."""
    payload = verify_dsse(envelope, keys, payload_type=PERMIT_TYPE)
    try:
        value = parse_strict(payload)
    except ProfileError:
        raise PermitRefused("form") from None
    if not is_canonical(value, payload):
        raise PermitRefused("not_canonical")
    claims = _read_claims(value)
    if claims.audience != audience:
        raise PermitRefused("audience")
    if now >= claims.expires_at:
        raise PermitRefused("expired")
    if now < claims.issued_at - CLOCK_LEEWAY:
        raise PermitRefused("not_yet")
    return claims


def _read_claims(value: object) -> PermitClaims:
    if not isinstance(value, dict) or value.keys() != _PERMIT_FIELDS:
        raise PermitRefused("form")
    if type(value["v"]) is not int or value["v"] != 1 or not isinstance(value["bound"], dict):
        raise PermitRefused("form")
    for name, prefixes in _PERMIT_IDS.items():
        if not any(is_id(value[name], prefix) for prefix in prefixes):
            raise PermitRefused("form")
    if not isinstance(value["subject_digest"], str) or not is_digest(value["subject_digest"]):
        raise PermitRefused("form")
    issued_at, expires_at = _instant(value["issued_at"]), _instant(value["expires_at"])
    if not timedelta(0) < expires_at - issued_at <= MAX_PERMIT_LIFE:
        raise PermitRefused("life")
    return PermitClaims(
        permit=value["permit"],
        branch=value["branch"],
        audience=value["audience"],
        subject_digest=value["subject_digest"],
        issued_at=issued_at,
        expires_at=expires_at,
        bound=value["bound"],
    )


def _instant(text: object) -> datetime:
    try:
        instant = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        instant = None
    if instant is None or instant.tzinfo is None:
        raise PermitRefused("form")
    return instant


def _only_signature(signatures: object) -> tuple[str, bytes]:
    if not isinstance(signatures, list) or len(signatures) != 1:
        raise SignatureInvalid("form")
    (entry,) = signatures
    if not isinstance(entry, dict) or entry.keys() != _SIGNATURE_FIELDS:
        raise SignatureInvalid("form")
    if not isinstance(entry["keyid"], str):
        raise SignatureInvalid("form")
    return entry["keyid"], _decode(entry["sig"])


def _pre_authentication(payload_type: str, payload: bytes) -> bytes:
    """What DSSE signs: type and payload with their lengths, so that neither can flow into the other."""
    kind = payload_type.encode("ascii")
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def _encode(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")


def _decode(text: object) -> bytes:
    """The bytes of base64 text that is the only one for them: unused bits may not be set."""
    if not isinstance(text, str) or not text.isascii():
        raise SignatureInvalid("base64")
    try:
        content = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise SignatureInvalid("base64") from None
    if _encode(content) != text:
        raise SignatureInvalid("base64")
    return content
