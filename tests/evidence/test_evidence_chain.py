"""The chain: sealing, and a battery of mutations that must all be found."""

import hashlib
import json

import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st
from receipt_samples import sample, samples

from branches.evidence import chain, ids
from branches.evidence.canonical import ProfileError, canonical_bytes
from branches.evidence.chain import ChainFault, seal, sent_digest, verify_chain

RUN = ids.mint("run")
TOKEN = ids.mint("tok")
AT = "2026-11-30T09:00:00.000001Z"


def a_chain(length=6, *, run=RUN, first_prev=None):
    sealed, prev = [], first_prev
    for seq in range(1, length + 1):
        sent = sample("message") | {"run": run, "event_id": ids.mint("evt"), "writer_seq": seq}
        sealed.append(seal(sent, seq=seq, recorded_at=AT, writer=TOKEN, prev_digest=prev))
        prev = sealed[-1].digest
    return sealed


CHAIN = a_chain()
LINKS = [link.bytes for link in CHAIN]


def reseal(raw, **changes):
    """The link with other members and a digest that fits them, as one who owns the table could write it."""
    receipt = json.loads(raw) | changes
    receipt.pop("digest")
    receipt = {name: member for name, member in receipt.items() if member is not ...}
    own = hashlib.sha256(b"branchgate/receipt/v1\0" + rfc8785.dumps(receipt)).hexdigest()
    return rfc8785.dumps(receipt | {"digest": f"sha256:{own}"})


def test_the_digest_is_over_the_reference_form_without_it():
    for kind, sent in samples():
        sealed = seal(sent, seq=3, recorded_at=AT, writer=TOKEN, prev_digest=None)
        receipt = json.loads(sealed.bytes)
        assert rfc8785.dumps(receipt) == sealed.bytes, kind
        assert receipt.pop("digest") == sealed.digest
        expected = hashlib.sha256(b"branchgate/receipt/v1\0" + rfc8785.dumps(receipt)).hexdigest()
        assert sealed.digest == f"sha256:{expected}"
        assert receipt == sent | {"seq": 3, "recorded_at": AT, "writer": TOKEN, "prev_digest": None}


def test_an_unbroken_chain_is_found_so():
    verdict = verify_chain(LINKS, expect_first_prev=None, run=RUN, expect_head=CHAIN[-1].digest)
    assert (verdict.ok, verdict.count, verdict.head) == (True, 6, CHAIN[-1].digest)
    assert (verdict.broken_seq, verdict.reason) == (None, None)


def test_a_branch_starts_at_its_parents_link():
    branch = a_chain(2, run=ids.mint("br"), first_prev=CHAIN[2].digest)
    links = [link.bytes for link in branch]
    assert verify_chain(links, expect_first_prev=CHAIN[2].digest).ok
    assert verify_chain(links, expect_first_prev=CHAIN[3].digest).reason == ChainFault.WRONG_PREV


def test_an_empty_chain_has_the_head_it_starts_from():
    assert verify_chain([], expect_first_prev=None) == chain.ChainVerdict(True, 0, None)
    assert not verify_chain([], expect_first_prev=None, expect_head=CHAIN[0].digest).ok


def test_a_part_of_a_chain_can_be_checked_from_a_known_link():
    assert verify_chain(LINKS[3:], expect_first_prev=CHAIN[2].digest, first_seq=4).ok


def test_the_same_content_has_the_same_sent_digest_in_any_order_of_keys():
    sent = sample("progress")
    assert sent_digest(sent) == sent_digest(dict(reversed(sent.items())))
    assert sent_digest(sent) != sent_digest(sent | {"writer_seq": 8})


def test_sealing_refuses_what_has_no_canonical_form():
    with pytest.raises(ProfileError):
        seal(sample("progress") | {"writer_seq": 1.0}, seq=1, recorded_at=AT, writer=TOKEN, prev_digest=None)
    with pytest.raises(ProfileError):
        seal(sample("progress") | {"body": {"x": 1.0}}, seq=1, recorded_at=AT, writer=TOKEN, prev_digest=None)


def spaced(raw):
    return json.dumps(json.loads(raw)).encode()


def unsorted(raw):
    return json.dumps(dict(reversed(json.loads(raw).items())), separators=(",", ":")).encode()


def escaped(raw):
    return raw.replace(b'"progress"', b'"\\u0070rogress"').replace(b'"message"', b'"\\u006dessage"', 1)


def body_of(raw, **changes):
    return json.loads(raw)["body"] | changes


L = LINKS
OTHER = "sha256:" + "0" * 64
MUTATIONS = {
    "a link left out": (L[:2] + L[3:], ChainFault.SEQ_GAP, 3),
    "the first link left out": (L[1:], ChainFault.SEQ_GAP, 1),
    "two links exchanged": ([L[0], L[2], L[1], *L[3:]], ChainFault.SEQ_GAP, 2),
    "a link twice": ([*L[:2], L[1], *L[2:]], ChainFault.SEQ_GAP, 3),
    "reversed": (L[::-1], ChainFault.SEQ_GAP, 1),
    "a bit of the body": (
        [*L[:3], L[3].replace(b'"tokens":7', b'"tokens":8'), *L[4:]],
        ChainFault.DIGEST_MISMATCH,
        4,
    ),
    "another time": ([L[0].replace(b"09:00:00.5Z", b"09:00:01.5Z"), *L[1:]], ChainFault.DIGEST_MISMATCH, 1),
    "another digest": (
        [L[0].replace(CHAIN[0].digest.encode(), OTHER.encode()), *L[1:]],
        ChainFault.DIGEST_MISMATCH,
        1,
    ),
    "another prev": (
        [*L[:4], L[4].replace(CHAIN[3].digest.encode(), OTHER.encode()), *L[5:]],
        ChainFault.DIGEST_MISMATCH,
        5,
    ),
    "rewritten and sealed anew": (
        [*L[:3], reseal(L[3], body=body_of(L[3], tokens=8)), *L[4:]],
        ChainFault.WRONG_PREV,
        5,
    ),
    "sealed anew with another prev": (
        [*L[:3], reseal(L[3], prev_digest=OTHER), *L[4:]],
        ChainFault.WRONG_PREV,
        4,
    ),
    "sealed anew without prev": ([*L[:3], reseal(L[3], prev_digest=None), *L[4:]], ChainFault.WRONG_PREV, 4),
    "sealed anew with another seq": ([*L[:3], reseal(L[3], seq=5), *L[4:]], ChainFault.SEQ_GAP, 4),
    "a link inserted": (
        [*L[:3], reseal(L[3], event_id=ids.mint("evt")), *L[3:]],
        ChainFault.SEQ_GAP,
        5,
    ),
    "a link of another run": ([*L[:5], reseal(L[5], run=ids.mint("run"))], ChainFault.OTHER_RUN, 6),
    "an event a second time": (
        [*L[:5], reseal(L[5], event_id=json.loads(L[4])["event_id"])],
        ChainFault.EVENT_TWICE,
        6,
    ),
    "another form of the same value": ([L[0], spaced(L[1]), *L[2:]], ChainFault.NOT_CANONICAL, 2),
    "another order of keys": ([L[0], unsorted(L[1]), *L[2:]], ChainFault.NOT_CANONICAL, 2),
    "an escaped character": ([L[0], escaped(L[1]), *L[2:]], ChainFault.NOT_CANONICAL, 2),
    "a trailing newline": ([L[0], L[1] + b"\n", *L[2:]], ChainFault.NOT_CANONICAL, 2),
    "a key twice": ([L[0], b'{"at":"x",' + L[1][1:], *L[2:]], ChainFault.UNREADABLE, 2),
    "a member more": ([*L[:5], reseal(L[5], note="x")], ChainFault.FORM, 6),
    "a member less": ([*L[:5], reseal(L[5], writer=...)], ChainFault.FORM, 6),
    "a number for a flag": ([*L[:5], reseal(L[5], seq=True)], ChainFault.FORM, 6),
    "cut in the middle": ([*L[:5], L[5][:-20]], ChainFault.UNREADABLE, 6),
    "no receipt": ([*L[:5], b"[]"], ChainFault.FORM, 6),
    "nothing": ([*L[:5], b""], ChainFault.UNREADABLE, 6),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mutation_is_found_where_it_is(name):
    links, reason, broken_seq = MUTATIONS[name]
    verdict = verify_chain(links, expect_first_prev=None)
    assert not verdict.ok
    assert (verdict.reason, verdict.broken_seq) == (reason, broken_seq)
    assert verdict.count == broken_seq - 1


def test_there_are_as_many_mutations_as_were_promised():
    assert len(MUTATIONS) >= 25


def test_a_tail_cut_off_is_found_with_a_head_kept_elsewhere():
    assert verify_chain(LINKS[:4], expect_first_prev=None).ok
    verdict = verify_chain(LINKS[:4], expect_first_prev=None, expect_head=CHAIN[-1].digest)
    assert (verdict.reason, verdict.count) == (ChainFault.HEAD_MISMATCH, 4)


def test_a_chain_rewritten_from_the_start_is_found_with_a_head_kept_elsewhere():
    rewritten = [link.bytes for link in a_chain()]
    assert verify_chain(rewritten, expect_first_prev=None).ok
    assert not verify_chain(rewritten, expect_first_prev=None, expect_head=CHAIN[-1].digest).ok


@settings(max_examples=200)
@given(st.integers(0, len(LINKS[2]) - 1), st.integers(1, 255))
def test_no_byte_of_a_link_can_be_another(at, by):
    mutant = bytearray(LINKS[2])
    mutant[at] ^= by
    verdict = verify_chain([*LINKS[:2], bytes(mutant), *LINKS[3:]], expect_first_prev=None)
    assert not verdict.ok
    assert verdict.broken_seq == 3


def test_a_digest_planted_in_the_body_is_not_taken_for_the_receipts_own():
    sent = sample("conflict")
    sealed = seal(sent, seq=1, recorded_at=AT, writer=TOKEN, prev_digest=None)
    assert verify_chain([sealed.bytes], expect_first_prev=None).ok
    planted = sample("forked") | {"body": {"digest": sealed.digest, "event_id": "x", "z": 1}}
    planted = seal(planted, seq=1, recorded_at=AT, writer=TOKEN, prev_digest=None)
    assert verify_chain([planted.bytes], expect_first_prev=None).ok
    swapped = planted.bytes.replace(sealed.digest.encode(), planted.digest.encode(), 1)
    assert verify_chain([swapped], expect_first_prev=None).reason == ChainFault.DIGEST_MISMATCH


def test_the_bytes_are_those_that_were_sealed():
    assert canonical_bytes(json.loads(LINKS[0])) == LINKS[0]
