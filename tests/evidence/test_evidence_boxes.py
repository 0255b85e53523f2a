"""Sealed boxes."""

import pytest

from branches.evidence import boxes
from branches.evidence.boxes import BoxError, BoxKey

CONTENT = b"CONTENT-MARKER-7f3a"


def test_only_its_own_key_opens_a_box():
    key, other = BoxKey.generate(), BoxKey.generate()
    sealed = boxes.seal(key.public, CONTENT)
    assert CONTENT not in sealed
    assert key.open(sealed) == CONTENT
    with pytest.raises(BoxError) as refusal:
        other.open(sealed)
    assert "MARKER" not in str(refusal.value)


def test_a_key_can_be_kept_and_loaded():
    key = BoxKey.generate()
    assert BoxKey(key.private_bytes()).open(boxes.seal(key.public, b"")) == b""


def test_every_one_byte_mutant_of_a_box_stays_shut():
    key = BoxKey.generate()
    sealed = boxes.seal(key.public, CONTENT)
    for at in range(len(sealed)):
        with pytest.raises(BoxError):
            key.open(sealed[:at] + bytes([sealed[at] ^ 1]) + sealed[at + 1 :])
    for cut in (b"", sealed[:40], sealed[:-1]):
        with pytest.raises(BoxError):
            key.open(cut)


def test_keys_have_a_length_and_show_no_secret():
    with pytest.raises(BoxError):
        BoxKey(b"short")
    with pytest.raises(BoxError):
        boxes.seal(b"short", CONTENT)
    key = BoxKey(b"\x07" * 32)
    assert (b"\x07" * 32).hex() not in repr(key)
    assert key.public.hex() in repr(key)
