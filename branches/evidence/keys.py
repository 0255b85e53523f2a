"""Keys and what is derived from them: one master secret, a purpose for each use, labelled HMACs."""

import hashlib
import hmac
import os
import re
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from branches.evidence.canonical import canonical_bytes

KEY_BYTES: Final = 32
KEY_ID_PATTERN: Final = "[0-9a-f]{8,16}"
HMAC_PATTERN: Final = f"hmac-sha256:{KEY_ID_PATTERN}:[0-9a-f]{{64}}"
SHA256_PATTERN: Final = "sha256:[0-9a-f]{64}"

_KEY_ID = re.compile(KEY_ID_PATTERN)
_HMAC = re.compile(HMAC_PATTERN)
_DIGEST = re.compile(f"{SHA256_PATTERN}|{HMAC_PATTERN}")


class KeyFormError(ValueError):
    """A key of the wrong form; the message names the rule only."""


@dataclass(frozen=True, slots=True)
class HmacKey:
    """A named secret for fingerprints of values that could be guessed; shows its id only."""

    key_id: str
    secret: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if _KEY_ID.fullmatch(self.key_id) is None:
            raise KeyFormError("key_id: pattern")
        if len(self.secret) < KEY_BYTES:
            raise KeyFormError("secret: too_short")

    def digest(self, domain: str, value: bytes | str) -> str:
        """``hmac-sha256:KEYID:`` + 64 hex digits over the domain, a NUL and the value."""
        content = value.encode("utf-8") if isinstance(value, str) else value
        code = hmac.digest(self.secret, domain.encode("ascii") + b"\0" + content, "sha256")
        return f"hmac-sha256:{self.key_id}:{code.hex()}"

    def digest_of(self, domain: str, value: object) -> str:
        """The same over the canonical bytes of a JSON value. Raises ProfileError."""
        return self.digest(domain, canonical_bytes(value))


def is_hmac(text: str) -> bool:
    """Whether text is a keyed digest with its label."""
    return _HMAC.fullmatch(text) is not None


def is_digest(text: str) -> bool:
    """Whether text is a labelled digest, keyed or not."""
    return _DIGEST.fullmatch(text) is not None


def derive_key(master: bytes, purpose: str) -> bytes:
    """32 bytes for one purpose (HKDF-SHA256); knowing them tells nothing of the master."""
    if len(master) < KEY_BYTES:
        raise KeyFormError("master: too_short")
    return HKDF(SHA256(), KEY_BYTES, salt=None, info=b"branchgate/key/v1\0" + purpose.encode()).derive(master)


def workspace_key(master: bytes, workspace_id: str) -> HmacKey:
    """The workspace's HMAC key; its id is a hash of it, so a changed key shows."""
    secret = derive_key(master, f"workspace-hmac:{workspace_id}")
    key_id = hashlib.sha256(b"branchgate/key-id/v1\0" + secret).hexdigest()[:8]
    return HmacKey(key_id, secret)


def signing_seed(master: bytes) -> bytes:
    """The seed of the server's Ed25519 key."""
    return derive_key(master, "ed25519-signing")


def load_or_create_master(path: Path) -> bytes:
    """The 32 bytes at path, made there (mode 0600) if absent. Raises KeyFormError.

    Of processes that start at once, one makes it and all return the same: the file is written whole
    under another name, and hard-linking it into place fails where another was first.
    """
    if not path.exists():
        _create_master(path)
    secret = path.read_bytes()
    if len(secret) != KEY_BYTES:
        raise KeyFormError("master: wrong_length")
    if path.stat().st_mode & 0o077:
        raise KeyFormError("master: readable_by_others")
    return secret


def _create_master(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(KEY_BYTES))
            file.flush()
            os.fsync(file.fileno())
        _link_if_absent(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def _link_if_absent(draft: Path, path: Path) -> None:
    try:
        os.link(draft, path)
    except FileExistsError:
        return
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
