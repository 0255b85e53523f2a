"""The governance receipt: what was decided about a branch and why, to be checked by anyone, offline.

It is an in-toto Statement v1 in a DSSE envelope. The check believes no verdict: it judges the embedded facts
again. What it cannot show is that the facts are true; for that the evidence digests point at receipts.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from branches.evidence.canonical import (
    FACTS,
    ProfileError,
    canonical_bytes,
    digest,
    is_canonical,
    parse_strict,
)
from branches.evidence.governance_checks import (
    GATES,
    MAX_STATEMENT_BYTES,
    Exit,
    Findings,
    bare_digest,
    check_statement,
    member,
)
from branches.evidence.signing import (
    GOVERNANCE_TYPE,
    SignatureInvalid,
    Signer,
    parse_envelope,
    sign_dsse,
    verify_dsse,
)

STATEMENT_TYPE: Final = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE: Final = "urn:branchgate:predicate:governance:v1"

_STATEMENT_FIELDS: Final = frozenset({"_type", "subject", "predicateType", "predicate"})


@dataclass(frozen=True, slots=True)
class GovernanceReport:
    """What the check found; ``problems`` are ``where: rule`` and hold no value. Empty when valid."""

    exit_code: Exit
    problems: tuple[str, ...]
    branch: str | None = None
    status: str | None = None


def build_statement(
    *,
    branch: str,
    generated_at: str,
    verdict: Mapping[str, Any],
    facts: Mapping[str, Any],
    evidence: Mapping[str, Sequence[str]],
    policy: str | None,
    lineage: Mapping[str, Any],
    permit: Mapping[str, Any] | None,
    approvals: Sequence[Mapping[str, Any]],
    chain: Mapping[str, Any],
) -> dict[str, Any]:
    """The statement to sign with sign_governance. Raises ProfileError.

    verdict: ``BranchVerdict.as_json()``, all six gates with their reasons. facts: what the classifier was
    given. evidence: gate -> labelled digests of what it rests on. policy: the policy's digest.
    lineage: {parent, checkpoint, seq, digest} of the fork, and what else the caller adds.
    permit: {permit, attempt, recorder, subject_digest, …}. approvals: {decision, person, verdict,
    subject_digest, …} each. chain: {count, head} of the branch's own chain.
    """
    predicate = {
        "v": 1,
        "branch": branch,
        "generated_at": generated_at,
        "verdict": dict(verdict),
        "facts": dict(facts),
        "facts_digest": digest(FACTS, dict(facts)),
        "evidence": {gate: list(evidence.get(gate, ())) for gate in GATES},
        "policy": policy,
        "lineage": dict(lineage),
        "permit": None if permit is None else dict(permit),
        "approvals": [dict(approval) for approval in approvals],
        "chain": dict(chain),
    }
    statement = {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": branch, "digest": {"sha256": bare_digest(chain.get("head"))}}],
        "predicateType": PREDICATE_TYPE,
        "predicate": predicate,
    }
    canonical_bytes(statement)
    return statement


def sign_governance(statement: Mapping[str, Any], signer: Signer) -> dict[str, Any]:
    """The signed envelope; its file form is signing.envelope_bytes."""
    return sign_dsse(GOVERNANCE_TYPE, canonical_bytes(dict(statement)), signer)


def check_governance(
    envelope_or_bytes: object, keys: Mapping[str, bytes], *, receipts: Iterable[bytes] | None = None
) -> GovernanceReport:
    """Check a governance receipt against pinned keys (key id -> 32 bytes). Never raises for what it reads.

    0: signed by a pinned key, whole, and its facts judged again give its verdict. 1: something in it is
    wrong. 2: nothing is wrong and something is missing (also when it is a bare statement: *unsigned*).
    3: this is no governance receipt, or there is nothing to check it against.
    receipts: the branch's own chain, to compare with the head in the statement.
    """
    found = Findings()
    statement = _open(envelope_or_bytes, keys, found)
    if statement is not None:
        check_statement(statement, found, receipts)
    predicate = statement["predicate"] if statement is not None else {}
    return _report(found, predicate if isinstance(predicate, dict) else {})


def _open(source: object, keys: Mapping[str, bytes], found: Findings) -> dict[str, Any] | None:
    """The statement inside, when there is one to look at."""
    try:
        envelope = parse_envelope(source) if isinstance(source, bytes) else source
        if isinstance(envelope, dict) and envelope.keys() == _STATEMENT_FIELDS:
            found.add(Exit.INCOMPLETE, "signature", "unsigned")
            canonical_bytes(envelope)
            return _ours(envelope, found)
        if not keys:
            found.add(Exit.UNUSABLE, "keys", "none_pinned")
            return None
        payload = verify_dsse(envelope, keys)
        if isinstance(envelope, dict) and envelope["payloadType"] != GOVERNANCE_TYPE:
            found.add(Exit.UNUSABLE, "payloadType", "other")
            return None
        statement = parse_strict(payload, max_bytes=MAX_STATEMENT_BYTES)
        found.need(is_canonical(statement, payload), "payload", "not_canonical")
    except SignatureInvalid as problem:
        unreadable = problem.rule in ("json", "form")
        found.add(Exit.UNUSABLE if unreadable else Exit.INVALID, "signature", problem.rule)
        return None
    except ProfileError as problem:
        found.add(Exit.INVALID, "payload", problem.rule)
        return None
    return _ours(statement, found)


def _ours(statement: object, found: Findings) -> dict[str, Any] | None:
    if not isinstance(statement, dict) or statement.keys() != _STATEMENT_FIELDS:
        found.add(Exit.UNUSABLE, "statement", "form")
        return None
    if statement["_type"] != STATEMENT_TYPE or statement["predicateType"] != PREDICATE_TYPE:
        found.add(Exit.UNUSABLE, "predicateType", "other")
        return None
    return statement


def _report(found: Findings, predicate: Mapping[str, Any]) -> GovernanceReport:
    worst = next((code for code, problems in found.of.items() if problems), Exit.VALID)
    problems = tuple(problem for group in found.of.values() for problem in group)
    if worst in (Exit.UNUSABLE, Exit.INVALID):
        return GovernanceReport(worst, problems)
    status = member(predicate, "verdict", "status")
    return GovernanceReport(worst, problems, predicate.get("branch"), status)
