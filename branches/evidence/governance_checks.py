"""What a governance statement must hold together: facts and verdict, evidence, lineage, authority, chain."""

from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from typing import Any, Final

from branches.evidence.canonical import FACTS, MAX_INTEGER, canonical_bytes, digest, parse_strict
from branches.evidence.chain import verify_chain
from branches.evidence.keys import is_digest

GATES: Final = ("lineage", "state", "effects", "authority", "configuration", "outcome")
MAX_STATEMENT_BYTES: Final = 8 * 1024 * 1024

_PREDICATE_FIELDS: Final = frozenset(
    {
        "v",
        "branch",
        "generated_at",
        "verdict",
        "facts",
        "facts_digest",
        "evidence",
        "policy",
        "lineage",
        "permit",
        "approvals",
        "chain",
    }
)


class Exit(IntEnum):
    """The exit code of the check, as the command line gives it."""

    VALID = 0
    INVALID = 1
    INCOMPLETE = 2
    UNUSABLE = 3


class Findings:
    """Problems by how bad they are; the worst gives the exit code."""

    def __init__(self) -> None:
        self.of: dict[Exit, list[str]] = {Exit.UNUSABLE: [], Exit.INVALID: [], Exit.INCOMPLETE: []}

    def add(self, code: Exit, where: str, rule: str) -> None:
        self.of[code].append(f"{where}: {rule}")

    def need(self, holds: object, where: str, rule: str, code: Exit = Exit.INVALID) -> None:
        if not holds:
            self.add(code, where, rule)


def check_statement(statement: dict[str, Any], found: Findings, receipts: Iterable[bytes] | None) -> None:
    predicate = statement["predicate"]
    if not isinstance(predicate, dict):
        found.add(Exit.INVALID, "predicate", "type")
        return
    found.need(predicate.keys() <= _PREDICATE_FIELDS, "predicate", "closed")
    for name in sorted(_PREDICATE_FIELDS - predicate.keys()):
        found.add(Exit.INCOMPLETE, f"predicate.{name}", "required")
    found.need(predicate.get("v", 1) == 1, "predicate.v", "version")
    _check_subject(statement["subject"], predicate, found)
    _check_facts(predicate, found)
    _check_evidence(predicate, found)
    _check_lineage(predicate, found)
    _check_authority(predicate, found)
    _check_chain(predicate, found, receipts)


def _check_subject(subject: object, predicate: Mapping[str, Any], found: Findings) -> None:
    expected = [
        {
            "name": predicate.get("branch"),
            "digest": {"sha256": bare_digest(member(predicate, "chain", "head"))},
        }
    ]
    found.need(subject == expected, "subject", "other_than_predicate")


def _check_facts(predicate: Mapping[str, Any], found: Findings) -> None:
    facts, verdict = predicate.get("facts"), predicate.get("verdict")
    if facts is None or verdict is None:
        return  # already reported as missing
    if "facts_digest" in predicate:
        found.need(predicate["facts_digest"] == digest(FACTS, facts), "predicate.facts_digest", "mismatch")
    judge = _judge()
    if judge is None:
        found.add(Exit.UNUSABLE, "rules", "unavailable")
        return
    try:
        derived = judge(facts)
    except ValueError:
        found.add(Exit.INVALID, "predicate.facts", "not_judgeable")
        return
    found.need(_as_plain(derived) == verdict, "predicate.verdict", "not_what_the_facts_say")
    found.need(member(facts, "branch_id") == predicate.get("branch"), "predicate.branch", "other_than_facts")


def _judge() -> Callable[[object], Mapping[str, Any]] | None:
    try:
        from branches.rules.gates import judge_branch, parse_branch
    except ImportError:
        return None
    return lambda facts: judge_branch(parse_branch(facts)).as_json()


def _check_evidence(predicate: Mapping[str, Any], found: Findings) -> None:
    evidence = predicate.get("evidence")
    if evidence is None:
        return
    if not isinstance(evidence, dict) or not evidence.keys() <= set(GATES):
        found.add(Exit.INVALID, "predicate.evidence", "closed")
        return
    passed = _passed_gates(predicate)
    for gate in GATES:
        digests = evidence.get(gate, [])
        where = f"predicate.evidence.{gate}"
        if not isinstance(digests, list) or not all(_is_label(each) for each in digests):
            found.add(Exit.INVALID, where, "digest")
        elif gate in passed and not digests:
            found.add(Exit.INCOMPLETE, where, "passed_without_evidence")


def _passed_gates(predicate: Mapping[str, Any]) -> set[str]:
    gates = member(predicate, "verdict", "gates")
    entries = gates if isinstance(gates, list) else []
    return {str(entry.get("gate")) for entry in entries if isinstance(entry, dict) and entry.get("passed")}


def _check_lineage(predicate: Mapping[str, Any], found: Findings) -> None:
    lineage = predicate.get("lineage")
    if lineage is None:
        return
    for name in ("parent", "checkpoint", "seq", "digest"):
        found.need(
            member(lineage, name) is not None, f"predicate.lineage.{name}", "required", Exit.INCOMPLETE
        )
    facts = predicate.get("facts")
    found.need(
        member(lineage, "parent") in (None, member(facts, "parent_id")),
        "predicate.lineage.parent",
        "other_than_facts",
    )
    found.need(
        member(lineage, "checkpoint") in (None, member(facts, "fork_point", "checkpoint_id")),
        "predicate.lineage.checkpoint",
        "other_than_facts",
    )


def _check_authority(predicate: Mapping[str, Any], found: Findings) -> None:
    facts, permit = predicate.get("facts"), predicate.get("permit")
    found.need(predicate.get("policy"), "predicate.policy", "missing", Exit.INCOMPLETE)
    resumed = member(facts, "resume") not in (None, "none")
    found.need(permit or not resumed, "predicate.permit", "resumed_without_permit", Exit.INCOMPLETE)
    if permit is not None:
        for name in ("permit", "subject_digest"):
            found.need(member(permit, name), f"predicate.permit.{name}", "required", Exit.INCOMPLETE)
    if member(facts, "authority", "decision") == "approved":
        _check_approvals(predicate.get("approvals"), member(permit, "subject_digest"), found)


def _check_approvals(approvals: object, subject: object, found: Findings) -> None:
    entries = approvals if isinstance(approvals, list) else []
    approving = [entry for entry in entries if member(entry, "verdict") == "approved"]
    found.need(approving, "predicate.approvals", "approved_without_approval", Exit.INCOMPLETE)
    for index, entry in enumerate(entries):
        about = member(entry, "subject_digest")
        same = subject is None or about == subject
        found.need(about, f"predicate.approvals.{index}.subject_digest", "required", Exit.INCOMPLETE)
        found.need(same or about is None, f"predicate.approvals.{index}.subject_digest", "other_than_permit")


def _check_chain(predicate: Mapping[str, Any], found: Findings, receipts: Iterable[bytes] | None) -> None:
    chain = predicate.get("chain")
    if chain is None:
        return
    head, count = member(chain, "head"), member(chain, "count")
    found.need(head, "predicate.chain.head", "missing", Exit.INCOMPLETE)
    found.need(head is None or _is_label(head), "predicate.chain.head", "digest")
    counted = type(count) is int and 1 <= count <= MAX_INTEGER
    found.need(counted, "predicate.chain.count", "missing", Exit.INCOMPLETE)
    if receipts is None or not counted:
        return
    first_prev = member(predicate, "lineage", "digest")
    verdict = verify_chain(
        receipts, expect_first_prev=first_prev, run=predicate.get("branch"), expect_head=head
    )
    found.need(verdict.ok, "chain", str(verdict.reason))
    found.need(not verdict.ok or verdict.count == count, "chain", "other_count")


def member(value: object, *path: str) -> Any:
    """The member at a path, or null where the way does not lead there."""
    for name in path:
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value


def bare_digest(label: object) -> str | None:
    return label.removeprefix("sha256:") if isinstance(label, str) else None


def _is_label(value: object) -> bool:
    return isinstance(value, str) and is_digest(value)


def _as_plain(value: object) -> Any:
    """Enum words as the plain text that a parsed statement holds."""
    return parse_strict(canonical_bytes(value), max_bytes=MAX_STATEMENT_BYTES)
