"""Signatures, envelopes, permits: every one-byte mutant is refused."""

import base64
import json
from datetime import UTC, datetime, timedelta

import pytest

from branches.evidence import ids, signing
from branches.evidence.canonical import canonical_bytes
from branches.evidence.signing import (
    GOVERNANCE_TYPE,
    PERMIT_TYPE,
    PermitRefused,
    SignatureInvalid,
    Signer,
    envelope_bytes,
    parse_envelope,
    sign_dsse,
    sign_permit,
    verify_dsse,
    verify_permit,
)

SIGNER = Signer(bytes(range(32)))
OTHER = Signer(bytes(range(1, 33)))
KEYS = {SIGNER.key_id: SIGNER.public_bytes}
NOW = datetime(2026, 11, 30, 9, 5, tzinfo=UTC)
RECORDER = ids.mint("rec")
# 34 bytes: base64 ends in two characters with unused bits, where lenient decoders accept mutants.
PAYLOAD = b'{"gate":"state","passed":true,"v":1'[:34]
ENVELOPE = sign_dsse(GOVERNANCE_TYPE, PAYLOAD, SIGNER)


def claims(**changes):
    return {
        "permit": ids.mint("prm"),
        "branch": ids.mint("br"),
        "audience": RECORDER,
        "subject_digest": "sha256:" + "a" * 64,
        "issued_at": "2026-11-30T09:00:00Z",
        "expires_at": "2026-11-30T09:10:00Z",
        "bound": {"checkpoint": "hmac-sha256:0a1b2c3d:" + "b" * 64},
    } | changes


def accepts(raw):
    try:
        verify_dsse(parse_envelope(raw), KEYS, payload_type=GOVERNANCE_TYPE)
    except SignatureInvalid:
        return False
    return True


def test_it_gives_back_what_was_signed():
    assert verify_dsse(ENVELOPE, KEYS) == PAYLOAD
    assert (
        verify_dsse(parse_envelope(envelope_bytes(ENVELOPE)), KEYS, payload_type=GOVERNANCE_TYPE) == PAYLOAD
    )


def test_it_signs_the_pre_authentication_encoding_of_dsse():
    message = b"DSSEv1 28 application/vnd.in-toto+json %d " % len(PAYLOAD) + PAYLOAD
    assert base64.b64decode(ENVELOPE["signatures"][0]["sig"]) == SIGNER.sign(message)


def test_a_signer_shows_no_seed():
    assert repr(SIGNER) == f"Signer(key_id='{SIGNER.key_id}')"
    assert not hasattr(SIGNER, "__dict__")


def test_every_one_byte_mutant_is_refused():
    raw = envelope_bytes(ENVELOPE)
    accepted = [
        (at, by)
        for at in range(len(raw))
        for by in range(256)
        if by != raw[at] and accepts(raw[:at] + bytes([by]) + raw[at + 1 :])
    ]
    assert accepts(raw)
    assert accepted == []


def test_every_byte_more_or_less_is_refused():
    raw = envelope_bytes(ENVELOPE)
    assert not any(accepts(raw[:at] + raw[at + 1 :]) for at in range(len(raw)))
    assert not any(
        accepts(raw[:at] + byte + raw[at:])
        for at in range(len(raw) + 1)
        for byte in (b" ", b"\n", b"A", b"=", b"0")
    )


def with_signature(**changes):
    return ENVELOPE | {"signatures": [ENVELOPE["signatures"][0] | changes]}


@pytest.mark.parametrize(
    ("envelope", "rule"),
    [
        (None, "form"),
        ([], "form"),
        ({}, "form"),
        (ENVELOPE | {"note": 1}, "form"),
        (ENVELOPE | {"payloadType": PERMIT_TYPE}, "signature"),
        (ENVELOPE | {"payloadType": 7}, "form"),
        (ENVELOPE | {"payloadType": "é"}, "form"),
        (ENVELOPE | {"payload": 7}, "base64"),
        (ENVELOPE | {"payload": ENVELOPE["payload"].rstrip("=")}, "base64"),
        (ENVELOPE | {"payload": ENVELOPE["payload"] + "\n"}, "base64"),
        (ENVELOPE | {"payload": "é"}, "base64"),
        (ENVELOPE | {"signatures": []}, "form"),
        (ENVELOPE | {"signatures": ENVELOPE["signatures"] * 2}, "form"),
        (ENVELOPE | {"signatures": ["x"]}, "form"),
        (ENVELOPE | {"signatures": {}}, "form"),
        (with_signature(extra=1), "form"),
        (with_signature(keyid=7), "form"),
        (with_signature(keyid=OTHER.key_id), "unknown_key"),
        (with_signature(sig=""), "signature"),
        (with_signature(sig=base64.b64encode(bytes(64)).decode()), "signature"),
    ],
)
def test_it_refuses_every_other_envelope(envelope, rule):
    with pytest.raises(SignatureInvalid) as refusal:
        verify_dsse(envelope, KEYS)
    assert refusal.value.rule == rule


def test_it_believes_pinned_keys_only():
    with pytest.raises(SignatureInvalid, match="unknown_key"):
        verify_dsse(ENVELOPE, {OTHER.key_id: OTHER.public_bytes})
    with pytest.raises(SignatureInvalid, match="key_id"):
        verify_dsse(ENVELOPE, {SIGNER.key_id: OTHER.public_bytes})
    with pytest.raises(SignatureInvalid, match="payload_type"):
        verify_dsse(ENVELOPE, KEYS, payload_type=PERMIT_TYPE)


def test_a_file_has_one_form():
    raw = envelope_bytes(ENVELOPE)
    for other, rule in (
        (json.dumps(ENVELOPE).encode(), "not_canonical"),
        (raw + b"\n", "not_canonical"),
        (b"[]", "form"),
        (raw[:-1], "json"),
    ):
        with pytest.raises(SignatureInvalid) as refusal:
            parse_envelope(other)
        assert refusal.value.rule == rule


def test_a_permit_is_for_its_recorder_while_it_lasts():
    signed = claims()
    permit = verify_permit(sign_permit(signed, SIGNER), KEYS, audience=RECORDER, now=NOW)
    assert (permit.permit, permit.branch, permit.bound) == (
        signed["permit"],
        signed["branch"],
        signed["bound"],
    )
    assert permit.expires_at - permit.issued_at == timedelta(minutes=10)


@pytest.mark.parametrize(
    ("audience", "now", "rule"),
    [
        (ids.mint("rec"), NOW, "audience"),
        (RECORDER, datetime(2026, 11, 30, 9, 10, tzinfo=UTC), "expired"),
        (RECORDER, datetime(2026, 11, 30, 9, 10, 1, tzinfo=UTC), "expired"),
        (RECORDER, datetime(2026, 11, 30, 8, 58, 59, tzinfo=UTC), "not_yet"),
        (RECORDER, NOW + timedelta(hours=1), "expired"),
        (RECORDER, NOW - timedelta(hours=1), "not_yet"),
    ],
)
def test_a_permit_is_refused_elsewhere_and_at_other_times(audience, now, rule):
    with pytest.raises(PermitRefused) as refusal:
        verify_permit(sign_permit(claims(), SIGNER), KEYS, audience=audience, now=now)
    assert refusal.value.rule == rule


def test_a_permit_holds_until_its_last_moment():
    now = datetime(2026, 11, 30, 9, 9, 59, 999999, tzinfo=UTC)
    assert verify_permit(sign_permit(claims(), SIGNER), KEYS, audience=RECORDER, now=now)


@pytest.mark.parametrize(
    "changes",
    [
        {"permit": ids.mint("br")},
        {"branch": "br_short"},
        {"branch": None},
        {"audience": ids.mint("per")},
        {"subject_digest": "sha256:short"},
        {"subject_digest": None},
        {"issued_at": "2026-11-30T09:00:00"},
        {"issued_at": "yesterday"},
        {"expires_at": None},
        {"expires_at": "2026-11-30T09:00:00Z"},
        {"expires_at": "2026-11-30T09:15:01Z"},
        {"bound": []},
        {"more": 1},
        {"v": 2},
        {"v": True},
    ],
)
def test_it_signs_and_accepts_no_other_claims(changes):
    with pytest.raises(PermitRefused):
        sign_permit(claims(**changes), SIGNER)
    forged = sign_dsse(PERMIT_TYPE, canonical_bytes({"v": 1, **claims(**changes)}), SIGNER)
    with pytest.raises(PermitRefused):
        verify_permit(forged, KEYS, audience=RECORDER, now=NOW)


def test_a_permit_has_one_byte_form_and_one_type():
    whole = {"v": 1, **claims()}
    for payload in (json.dumps(whole).encode(), b"no json", b"{}"):
        with pytest.raises(PermitRefused):
            verify_permit(sign_dsse(PERMIT_TYPE, payload, SIGNER), KEYS, audience=RECORDER, now=NOW)
    other_type = sign_dsse(GOVERNANCE_TYPE, canonical_bytes(whole), SIGNER)
    with pytest.raises(SignatureInvalid, match="payload_type"):
        verify_permit(other_type, KEYS, audience=RECORDER, now=NOW)


def test_a_key_id_is_the_hash_of_the_public_key():
    assert signing.public_key_id(SIGNER.public_bytes) == SIGNER.key_id
