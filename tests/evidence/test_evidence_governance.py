"""The governance receipt: believed only when its facts, judged again, say what it says."""

import copy
import json

import pytest
from receipt_samples import HMAC, sample

from branches.evidence import governance, ids
from branches.evidence.canonical import FACTS, ProfileError, canonical_bytes, digest
from branches.evidence.chain import seal
from branches.evidence.governance import build_statement, check_governance, sign_governance
from branches.evidence.governance_checks import Exit
from branches.evidence.signing import GOVERNANCE_TYPE, PERMIT_TYPE, Signer, envelope_bytes, sign_dsse
from branches.rules.gates import judge_branch, parse_branch

SIGNER = Signer(bytes(range(32)))
KEYS = {SIGNER.key_id: SIGNER.public_bytes}
BRANCH, PARENT, PERSON = ids.mint("br"), ids.mint("run"), ids.mint("per")
EVIDENCE = "sha256:" + "e" * 64
SUBJECT = "sha256:" + "5" * 64
FORK = "sha256:" + "f" * 64
FACTS_OF_BRANCH = {
    "branch_id": BRANCH,
    "parent_id": PARENT,
    "fork_point": {"checkpoint_id": HMAC, "in_parent": True, "parent_unchanged": True},
    "required_state_keys": ["memory"],
    "acknowledgeable_keys": [],
    "state": {"memory": {"fingerprint": HMAC, "restore": "matched", "stale": False}},
    "effects_ledger": "complete",
    "effects": [{"operation_key": HMAC, "status": "reconciled", "decision": None, "stale": False}],
    "authority": {"operator_authorised": True, "required": True, "decision": "approved"},
    "configuration": {"pinned": True},
    "resume": "started",
    "outcome": {"loop": "claimed", "check": "passed", "fresh": True},
}


def a_chain():
    links, prev = [], FORK
    for seq in range(1, 4):
        sent = sample("progress") | {"run": BRANCH, "event_id": ids.mint("evt")}
        links.append(
            seal(sent, seq=seq, recorded_at="2026-11-30T09:00:00Z", writer=ids.mint("tok"), prev_digest=prev)
        )
        prev = links[-1].digest
    return links


CHAIN = a_chain()


def statement(facts=FACTS_OF_BRANCH, **changes):
    parts = {
        "branch": BRANCH,
        "generated_at": "2026-11-30T09:30:00Z",
        "verdict": judge_branch(parse_branch(facts)).as_json(),
        "facts": facts,
        "evidence": {gate: [EVIDENCE] for gate in governance.GATES},
        "policy": "sha256:" + "9" * 64,
        "lineage": {"parent": PARENT, "checkpoint": HMAC, "seq": 7, "digest": FORK},
        "permit": {"permit": ids.mint("prm"), "attempt": ids.mint("att"), "subject_digest": SUBJECT},
        "approvals": [
            {"decision": ids.mint("dec"), "person": PERSON, "verdict": "approved", "subject_digest": SUBJECT}
        ],
        "chain": {"count": 3, "head": CHAIN[-1].digest},
    }
    return build_statement(**(parts | changes))


def check(made, **options):
    return check_governance(sign_governance(made, SIGNER), KEYS, **options)


def altered(*path, to):
    made = copy.deepcopy(statement())
    inner = made["predicate"]
    for step in path[:-1]:
        inner = inner[step]
    if to is ...:
        del inner[path[-1]]
    else:
        inner[path[-1]] = to
    return made


def test_a_whole_receipt_is_valid():
    report = check(statement(), receipts=[link.bytes for link in CHAIN])
    assert (report.exit_code, report.problems) == (0, ())
    assert (report.branch, report.status) == (BRANCH, "verified")


def test_its_file_form_is_valid_too():
    raw = envelope_bytes(sign_governance(statement(), SIGNER))
    assert check_governance(raw, KEYS).exit_code == Exit.VALID
    assert check_governance(raw + b"\n", KEYS).exit_code == Exit.INVALID


def test_a_bad_verdict_is_as_valid_as_a_good_one():
    facts = FACTS_OF_BRANCH | {"effects_ledger": "unknown"}
    report = check(statement(facts))
    assert (report.exit_code, report.status) == (0, "effects_unreconciled")


@pytest.mark.parametrize(
    ("path", "to", "problem"),
    [
        (("verdict", "status"), "ready_to_resume", "predicate.verdict: not_what_the_facts_say"),
        (("verdict", "fidelity"), "partial", "predicate.verdict: not_what_the_facts_say"),
        (("verdict", "gates", 2, "passed"), False, "predicate.verdict: not_what_the_facts_say"),
        (("verdict", "gates", 2, "reasons"), ["ledger_unknown"], "predicate.verdict: not_what_the_facts_say"),
        (("verdict", "next_action"), "resume", "predicate.verdict: not_what_the_facts_say"),
        (("facts", "effects_ledger"), "unknown", "predicate.verdict: not_what_the_facts_say"),
        (("facts", "effects_ledger"), "unknown", "predicate.facts_digest: mismatch"),
        (("facts", "state"), {}, "predicate.facts_digest: mismatch"),
        (("facts", "resume"), "perhaps", "predicate.facts: not_judgeable"),
        (("facts",), [], "predicate.facts: not_judgeable"),
        (("facts_digest",), SUBJECT, "predicate.facts_digest: mismatch"),
        (("branch",), ids.mint("br"), "predicate.branch: other_than_facts"),
        (("branch",), ids.mint("br"), "subject: other_than_predicate"),
        (("chain", "head"), SUBJECT, "subject: other_than_predicate"),
        (("chain", "head"), "x", "predicate.chain.head: digest"),
        (("lineage", "parent"), ids.mint("run"), "predicate.lineage.parent: other_than_facts"),
        (("lineage", "checkpoint"), HMAC[:-1] + "0", "predicate.lineage.checkpoint: other_than_facts"),
        (("evidence", "state"), ["no digest"], "predicate.evidence.state: digest"),
        (("evidence", "state"), "x", "predicate.evidence.state: digest"),
        (("evidence", "seventh"), [], "predicate.evidence: closed"),
        (("evidence",), [], "predicate.evidence: closed"),
        (("approvals", 0, "subject_digest"), FORK, "predicate.approvals.0.subject_digest: other_than_permit"),
        (("v",), 2, "predicate.v: version"),
        (("note",), 1, "predicate: closed"),
    ],
)
def test_what_contradicts_itself_is_invalid_although_it_is_signed(path, to, problem):
    report = check(altered(*path, to=to))
    assert report.exit_code == Exit.INVALID
    assert problem in report.problems
    assert report.status is None


@pytest.mark.parametrize(
    ("path", "to", "problem"),
    [
        (("policy",), None, "predicate.policy: missing"),
        (("policy",), ..., "predicate.policy: required"),
        (("permit",), None, "predicate.permit: resumed_without_permit"),
        (("permit", "permit"), ..., "predicate.permit.permit: required"),
        (("approvals",), [], "predicate.approvals: approved_without_approval"),
        (("approvals", 0, "verdict"), "rejected", "predicate.approvals: approved_without_approval"),
        (("approvals", 0, "subject_digest"), None, "predicate.approvals.0.subject_digest: required"),
        (("evidence", "effects"), [], "predicate.evidence.effects: passed_without_evidence"),
        (("evidence",), ..., "predicate.evidence: required"),
        (("lineage", "digest"), None, "predicate.lineage.digest: required"),
        (("lineage",), ..., "predicate.lineage: required"),
        (("chain", "count"), None, "predicate.chain.count: missing"),
        (("generated_at",), ..., "predicate.generated_at: required"),
        (("verdict",), ..., "predicate.verdict: required"),
        (("facts_digest",), ..., "predicate.facts_digest: required"),
    ],
)
def test_what_lacks_something_is_incomplete(path, to, problem):
    report = check(altered(*path, to=to))
    assert report.exit_code == Exit.INCOMPLETE
    assert problem in report.problems


def test_a_chain_without_head_is_incomplete():
    report = check(statement(chain={"count": 3, "head": None}))
    assert (report.exit_code, report.problems) == (Exit.INCOMPLETE, ("predicate.chain.head: missing",))


def test_a_statement_without_its_chain_is_refused():
    made = altered("chain", to=...)
    assert check(made).exit_code == Exit.INVALID
    made["subject"] = [{"name": BRANCH, "digest": {"sha256": None}}]
    report = check(made)
    assert (report.exit_code, report.problems) == (Exit.INCOMPLETE, ("predicate.chain: required",))


def test_what_is_not_signed_says_so_and_is_never_valid():
    report = check_governance(statement(), KEYS)
    assert (report.exit_code, report.problems) == (Exit.INCOMPLETE, ("signature: unsigned",))
    raw = canonical_bytes(statement())
    assert check_governance(raw, {}).problems == ("signature: unsigned",)
    assert check_governance(altered("verdict", "status", to="x"), KEYS).exit_code == Exit.INVALID


@pytest.mark.parametrize("source", [b"", b"no json", b"[]", b"{}", None, 7, [], {}, "text"])
def test_what_is_no_receipt_is_unusable(source):
    assert check_governance(source, KEYS).exit_code == Exit.UNUSABLE


def test_without_a_pinned_key_nothing_can_be_said():
    report = check_governance(sign_governance(statement(), SIGNER), {})
    assert (report.exit_code, report.problems) == (Exit.UNUSABLE, ("keys: none_pinned",))


def test_a_key_that_is_not_pinned_proves_nothing():
    other = Signer(bytes(32))
    report = check_governance(sign_governance(statement(), other), KEYS)
    assert (report.exit_code, report.problems) == (Exit.INVALID, ("signature: unknown_key",))


def test_other_signed_things_are_no_governance_receipt():
    for envelope in (
        sign_dsse(PERMIT_TYPE, canonical_bytes(statement()), SIGNER),
        sign_dsse(GOVERNANCE_TYPE, b"{}", SIGNER),
        sign_dsse(GOVERNANCE_TYPE, canonical_bytes(statement() | {"predicateType": "urn:other"}), SIGNER),
    ):
        assert check_governance(envelope, KEYS).exit_code == Exit.UNUSABLE
    for payload in (b"{", json.dumps(statement()).encode()):
        assert check_governance(sign_dsse(GOVERNANCE_TYPE, payload, SIGNER), KEYS).exit_code == Exit.INVALID
    no_predicate = sign_dsse(GOVERNANCE_TYPE, canonical_bytes(statement() | {"predicate": []}), SIGNER)
    assert check_governance(no_predicate, KEYS).problems == ("predicate: type",)


def test_it_is_unusable_where_the_rules_are_missing(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "branches.rules.gates", None)
    assert "rules: unavailable" in check(statement()).problems


def test_the_chain_is_compared_where_it_is_given():
    links = [link.bytes for link in CHAIN]
    assert "chain: head_mismatch" in check(statement(), receipts=links[:2]).problems
    assert "chain: seq_gap" in check(statement(), receipts=[links[0], links[2]]).problems
    assert (
        "chain: other_count"
        in check(statement(chain={"count": 4, "head": CHAIN[-1].digest}), receipts=links).problems
    )
    other_fork = {"parent": PARENT, "checkpoint": HMAC, "seq": 7, "digest": SUBJECT}
    assert "chain: wrong_prev" in check(statement(lineage=other_fork), receipts=links).problems


def test_one_byte_mutants_of_the_file_are_refused():
    raw = envelope_bytes(sign_governance(statement(), SIGNER))
    assert len(raw) > 2500
    for at in range(len(raw)):
        for flip in (1, 4):
            mutant = raw[:at] + bytes([raw[at] ^ flip]) + raw[at + 1 :]
            assert check_governance(mutant, KEYS).exit_code in (Exit.INVALID, Exit.UNUSABLE), at


def test_problems_hold_no_values():
    made = altered("facts", "resume", to="CONTENT-MARKER-7f3a")
    made["predicate"]["CONTENT-MARKER-7f3a"] = "CONTENT-MARKER-7f3a"
    assert "MARKER" not in str(check(made))


def test_the_statement_is_of_the_profile():
    with pytest.raises(ProfileError):
        statement(policy=1.5)
    made = statement()
    assert made["predicate"]["facts_digest"] == digest(FACTS, FACTS_OF_BRANCH)
    assert made["subject"] == [
        {"name": BRANCH, "digest": {"sha256": CHAIN[-1].digest.removeprefix("sha256:")}}
    ]
