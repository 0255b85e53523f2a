"""The chain of a run: each receipt sealed over the one before, and a check that needs only the bytes.

A chain finds a changed, missing, moved or inserted link. Alone it does not find a tail that was cut off
or a rewriting of everything: for these give the verifier a head that was kept elsewhere.
"""

import builtins
import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from branches.evidence.canonical import (
    RECEIPT,
    SENT,
    ProfileError,
    canonical_bytes,
    digest,
    is_canonical,
    parse_strict,
    write_bytes,
)

SENT_FIELDS: Final = ("v", "event_id", "run", "kind", "at", "actor", "writer_seq", "body")
SEALED_FIELDS: Final = frozenset((*SENT_FIELDS, "seq", "recorded_at", "writer", "prev_digest", "digest"))

_BEFORE_DIGEST: Final = ("actor", "at", "body")
_DOMAIN: Final = RECEIPT.encode("ascii") + b"\0"
_SEALED_LIMIT: Final = 16 * 1024
_SPLICE = re.compile(rb'"digest":"(sha256:[0-9a-f]{64})",')


@dataclass(frozen=True, slots=True)
class SealedReceipt:
    """A receipt as it is kept: its exact bytes (with the digest inside) and what links it."""

    bytes: builtins.bytes
    digest: str
    seq: int
    prev_digest: str | None


class ChainFault(StrEnum):
    """What is wrong with a link, in the order in which it is looked for."""

    UNREADABLE = "unreadable"
    FORM = "form"
    NOT_CANONICAL = "not_canonical"
    DIGEST_MISMATCH = "digest_mismatch"
    OTHER_RUN = "other_run"
    SEQ_GAP = "seq_gap"
    WRONG_PREV = "wrong_prev"
    EVENT_TWICE = "event_twice"
    COLUMNS_DIFFER = "columns_differ"
    HEAD_MISMATCH = "head_mismatch"


@dataclass(frozen=True, slots=True)
class ChainVerdict:
    """ok, or the first broken place: ``broken_seq`` is the position at which a link was expected.

    ``count`` and ``head`` are of the sound part in front of it.
    """

    ok: bool
    count: int
    head: str | None
    broken_seq: int | None = None
    reason: ChainFault | None = None


def sent_digest(sent: Mapping[str, Any]) -> str:
    """The digest of what a writer sent: equal ids with unequal digests are a conflict.

    ``sent`` has passed parse_strict or check_sent: it is not looked through once more.
    """
    return digest(SENT, write_bytes(sent))


def seal(
    sent: Mapping[str, Any], *, seq: int, recorded_at: str, writer: str, prev_digest: str | None
) -> SealedReceipt:
    """The receipt with what the server adds, its digest and its exact bytes. Raises ProfileError.

    ``sent`` has the eight fields of the envelope (schema.check_sent looks at what is in them).
    """
    first = canonical_bytes({name: sent[name] for name in _BEFORE_DIGEST})
    rest = {name: sent[name] for name in SENT_FIELDS if name not in _BEFORE_DIGEST}
    rest |= {"seq": seq, "recorded_at": recorded_at, "writer": writer, "prev_digest": prev_digest}
    # "digest" sorts between "body" and "event_id": the bytes with and without it share both halves.
    head, tail = first[:-1] + b",", canonical_bytes(rest)[1:]
    own = "sha256:" + hashlib.sha256(_DOMAIN + head + tail).hexdigest()
    whole = b"".join((head, b'"digest":"', own.encode("ascii"), b'",', tail))
    return SealedReceipt(whole, own, seq, prev_digest)


def verify_chain(
    receipts: Iterable[bytes],
    *,
    expect_first_prev: str | None,
    first_seq: int = 1,
    run: str | None = None,
    expect_head: str | None = None,
) -> ChainVerdict:
    """Whether the receipts are one unbroken chain, from their exact bytes alone.

    expect_first_prev: null for a run without parent, else the digest of the parent's link at the fork.
    run: the run they must all belong to; without it, the run of the first. expect_head: a head kept
    elsewhere, which shows a tail cut off.
    """
    walk = _Walk(first_seq, expect_first_prev, run)
    for raw in receipts:
        fault = walk.step(raw)
        if fault is not None:
            return ChainVerdict(False, walk.seq - first_seq, walk.head, walk.seq, fault)
    count = walk.seq - first_seq
    if expect_head is not None and walk.head != expect_head:
        return ChainVerdict(False, count, walk.head, walk.seq, ChainFault.HEAD_MISMATCH)
    return ChainVerdict(True, count, walk.head)


class _Walk:
    """What the next link must be: its number, what it must name as the one before, and whose it is."""

    def __init__(self, first_seq: int, first_prev: str | None, run: str | None) -> None:
        self.seq = first_seq
        self.head = first_prev
        self.run = run
        self.events: set[tuple[str, str]] = set()

    def step(self, raw: bytes) -> ChainFault | None:
        receipt = _read(raw)
        if isinstance(receipt, ChainFault):
            return receipt
        fault = self._misplaced(receipt)
        if fault is None:
            self.seq += 1
            self.head = receipt["digest"]
            self.run = receipt["run"]
            self.events.add((receipt["writer"], receipt["event_id"]))
        return fault

    def _misplaced(self, receipt: dict[str, Any]) -> ChainFault | None:
        if self.run is not None and receipt["run"] != self.run:
            return ChainFault.OTHER_RUN
        if receipt["seq"] != self.seq:
            return ChainFault.SEQ_GAP
        if receipt["prev_digest"] != self.head:
            return ChainFault.WRONG_PREV
        if (receipt["writer"], receipt["event_id"]) in self.events:
            return ChainFault.EVENT_TWICE
        return None


def _read(raw: bytes) -> dict[str, Any] | ChainFault:
    """The receipt in raw, when its bytes are canonical and its digest is theirs."""
    try:
        receipt = parse_strict(raw, max_bytes=_SEALED_LIMIT)
    except ProfileError:
        return ChainFault.UNREADABLE
    if not isinstance(receipt, dict) or not _has_form(receipt):
        return ChainFault.FORM
    if not is_canonical(receipt, raw):
        return ChainFault.NOT_CANONICAL
    return receipt if receipt["digest"] == _own_digest(raw) else ChainFault.DIGEST_MISMATCH


def _has_form(receipt: dict[str, Any]) -> bool:
    texts = (receipt.get("run"), receipt.get("event_id"), receipt.get("writer"), receipt.get("digest"))
    return (
        receipt.keys() == SEALED_FIELDS
        and all(type(text) is str for text in texts)
        and type(receipt["seq"]) is int
    )


def _own_digest(raw: bytes) -> str | None:
    """The digest of the bytes without their digest, cut out where it stands: after the whole body."""
    *_, last = (None, *_SPLICE.finditer(raw))
    if last is None:
        return None
    return "sha256:" + hashlib.sha256(_DOMAIN + raw[: last.start()] + raw[last.end() :]).hexdigest()
