"""Ids of our form: a prefix that says what it names, and randomness that says nothing."""

import base64
import hashlib
import re
import secrets
from typing import Final

PREFIXES: Final[tuple[str, ...]] = (
    "ws",  # workspace
    "wf",  # workflow
    "con",  # topology contract
    "run",  # run
    "br",  # branch
    "evt",  # event id of a receipt
    "req",  # approval request
    "dec",  # decision
    "prm",  # resume permit
    "att",  # attempt at a resume
    "rec",  # recorder
    "tok",  # token
    "job",  # row of work to be done
    "per",  # person
    "wrt",  # writer
    "note",  # notice
    "dlv",  # delivery of a notice
    "hook",  # webhook
    "grp",  # group of people
    "inv",  # invitation
    "pol",  # change of class CP
)
RANDOM_PART: Final = "[a-z2-7]{24}"
ID_PATTERN: Final = f"(?:{'|'.join(PREFIXES)})_{RANDOM_PART}"

_RANDOM_BYTES: Final = 15  # 120 bits are exactly 24 characters of base32
_ID = re.compile(ID_PATTERN)


class PrefixError(ValueError):
    """The prefix is not in the closed list; the message does not repeat it."""

    def __init__(self) -> None:
        super().__init__("prefix: not in the closed list")


def mint(prefix: str) -> str:
    """A new id, such as ``br_`` + 24 characters; needs no server. Raises PrefixError."""
    return _join(prefix, secrets.token_bytes(_RANDOM_BYTES))


def derive_id(prefix: str, *parts: str) -> str:
    """The same id for the same parts, so that a retry names the same thing. Raises PrefixError.

    The parts must hold an id of ours: only that makes the result unguessable.
    """
    seed = "\0".join(("branchgate/id/v1", prefix, *parts)).encode()
    return _join(prefix, hashlib.sha256(seed).digest()[:_RANDOM_BYTES])


def is_id(text: object, prefix: str | None = None) -> bool:
    """Whether text is an id of our form and, where a prefix is asked for, of that sort."""
    if not isinstance(text, str) or _ID.fullmatch(text) is None:
        return False
    return prefix is None or text.startswith(prefix + "_")


def id_pattern(*prefixes: str) -> str:
    """A pattern without anchors for ids of these sorts."""
    if not set(prefixes) <= set(PREFIXES):
        raise PrefixError
    return f"(?:{'|'.join(prefixes)})_{RANDOM_PART}"


def _join(prefix: str, randomness: bytes) -> str:
    if prefix not in PREFIXES:
        raise PrefixError
    return f"{prefix}_{base64.b32encode(randomness).decode('ascii').lower()}"
