"""Sealed boxes: content that only the holder of a key can open, on its way through the server."""

from typing import Final

from nacl.exceptions import CryptoError
from nacl.public import PrivateKey, PublicKey, SealedBox

KEY_BYTES: Final = 32


class BoxError(ValueError):
    """A box that does not open with this key, or a key of the wrong form; says nothing of the content."""


class BoxKey:
    """A Curve25519 key pair; shows its public half only."""

    __slots__ = ("_key", "public")

    def __init__(self, private: bytes) -> None:
        if len(private) != KEY_BYTES:
            raise BoxError("key: length")
        self._key = PrivateKey(private)
        self.public: Final = bytes(self._key.public_key)

    def __repr__(self) -> str:
        return f"BoxKey(public={self.public.hex()!r})"

    @classmethod
    def generate(cls) -> "BoxKey":
        """A fresh key pair."""
        return cls(bytes(PrivateKey.generate()))

    def private_bytes(self) -> bytes:
        """The 32 secret bytes, for the owner's own file."""
        return bytes(self._key)

    def open(self, sealed: bytes) -> bytes:
        """The content of a box sealed to this key. Raises BoxError."""
        try:
            return SealedBox(self._key).decrypt(sealed)
        except (CryptoError, ValueError, TypeError):
            raise BoxError("box: does_not_open") from None


def seal(public: bytes, content: bytes) -> bytes:
    """The content sealed to a public key (32 bytes); 48 bytes longer. Raises BoxError."""
    if len(public) != KEY_BYTES:
        raise BoxError("key: length")
    try:
        return SealedBox(PublicKey(public)).encrypt(content)
    except CryptoError:  # a point of low order: what is sealed to it is sealed to everybody
        raise BoxError("key: weak") from None
