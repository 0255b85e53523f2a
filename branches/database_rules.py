"""Rules of authority that the database itself holds, whatever command or shell writes: triggers on insert.

Each says what must never be true of a new row, in SQL that SQLite and PostgreSQL read alike.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.core.checks import CheckMessage, Critical
from django.db import DEFAULT_DB_ALIAS, connections
from django.db.backends.base.base import BaseDatabaseWrapper

MESSAGE: Final = "branchgate: authority"


@dataclass(frozen=True, slots=True)
class DatabaseRule:
    """A row of `table` for which `forbidden` holds is refused."""

    table: str
    name: str
    forbidden: str

    @property
    def trigger(self) -> str:
        return f"{self.table}_{self.name}"

    @property
    def condition(self) -> str:
        """The condition in one line: what a database keeps of it is compared with what we wrote."""
        return " ".join(self.forbidden.split())


_OWN_WORK: Final = """
    NOT NEW.by_requester AND EXISTS (
        SELECT 1 FROM branches_approvalrequest r
        LEFT JOIN branches_branchwork w ON w.branch_id = r.branch_id AND w.person_id = NEW.approver_id
        LEFT JOIN branches_forkpoint f ON f.branch_id = r.branch_id AND f.forker_id = NEW.approver_id
        LEFT JOIN branches_edit e ON e.branch_id = r.branch_id AND e.editor_id = NEW.approver_id
        WHERE r.id = NEW.request_id
          AND (r.requester_id = NEW.approver_id OR w.id IS NOT NULL OR f.id IS NOT NULL OR e.id IS NOT NULL)
    )
"""
_SELF_APPROVAL: Final = """
    NEW.by_requester AND NOT EXISTS (
        SELECT 1 FROM branches_approvalrequest r
        WHERE r.id = NEW.request_id AND r.change_class IN ('C1', 'C2')
    )
"""
_OTHER_DIGEST: Final = """
    NOT EXISTS (
        SELECT 1 FROM branches_approvalrequest r
        WHERE r.id = NEW.request_id AND r.subject_digest = NEW.subject_digest
    )
"""
_REQUEST_OVER: Final = """
    EXISTS (SELECT 1 FROM branches_requestend e WHERE e.request_id = NEW.request_id)
    OR EXISTS (
        SELECT 1 FROM branches_approvalrequest r
        JOIN branches_redemption d ON d.branch_id = r.branch_id
        WHERE r.id = NEW.request_id
    )
"""
_TOO_FEW_APPROVALS: Final = """
    NEW.approvals_needed > (
        SELECT COUNT(DISTINCT v.approver_id) FROM branches_decision v
        JOIN branches_approvalrequest r ON r.id = v.request_id
        LEFT JOIN branches_requestend e ON e.request_id = r.id
        WHERE r.branch_id = NEW.branch_id AND r.subject_digest = NEW.subject_digest
          AND v.word = 'approved' AND e.id IS NULL
    )
    OR NEW.approvals_needed > 0 AND NOT EXISTS (
        SELECT 1 FROM branches_grant g JOIN branches_approvalrequest r ON r.id = g.request_id
        WHERE r.branch_id = NEW.branch_id AND r.subject_digest = NEW.subject_digest
    )
"""
_PERMIT_OVER: Final = """
    EXISTS (SELECT 1 FROM branches_permitend e WHERE e.permit_id = NEW.permit_id)
    OR EXISTS (SELECT 1 FROM branches_revocation v WHERE v.branch_id = NEW.branch_id)
    OR NOT EXISTS (
        SELECT 1 FROM branches_resumepermit p
        WHERE p.id = NEW.permit_id AND p.branch_id = NEW.branch_id AND p.expires_at > NEW.at
    )
"""
_VETOED: Final = """
    EXISTS (
        SELECT 1 FROM branches_resumepermit p
        JOIN branches_approvalrequest r
          ON r.branch_id = p.branch_id AND r.subject_digest = p.subject_digest
        JOIN branches_decision v ON v.request_id = r.id
        WHERE p.id = NEW.permit_id AND v.word = 'rejected'
    )
"""
_OWN_CHANGE: Final = """
    EXISTS (
        SELECT 1 FROM branches_policychange c
        WHERE c.id = NEW.change_id AND (c.author_id = NEW.person_id OR c.digest <> NEW.digest)
    )
"""
_CHANGE_UNDECIDED: Final = """
    NEW.word = 'adopted' AND EXISTS (
        SELECT 1 FROM branches_policychange c
        WHERE c.id = NEW.change_id AND c.needed > (
            SELECT COUNT(*) FROM branches_policyvote v WHERE v.change_id = c.id AND v.word = 'approved'
        )
    )
"""

RULES: Final = (
    DatabaseRule("branches_decision", "own_work", _OWN_WORK),
    DatabaseRule("branches_decision", "self_approval", _SELF_APPROVAL),
    DatabaseRule("branches_decision", "other_digest", _OTHER_DIGEST),
    DatabaseRule("branches_decision", "request_over", _REQUEST_OVER),
    DatabaseRule("branches_resumepermit", "too_few_approvals", _TOO_FEW_APPROVALS),
    DatabaseRule("branches_redemption", "permit_over", _PERMIT_OVER),
    DatabaseRule("branches_redemption", "vetoed", _VETOED),
    DatabaseRule("branches_policyvote", "own_change", _OWN_CHANGE),
    DatabaseRule("branches_policychangeend", "undecided", _CHANGE_UNDECIDED),
)


def is_rule_refusal(error: Exception) -> bool:
    """Return whether a database error is one of these rules."""
    return MESSAGE in str(error)


def install_rules(connection: BaseDatabaseWrapper, rules: Sequence[DatabaseRule] = RULES) -> None:
    """Put the rules on their tables, replacing what is there."""
    existing = set(connection.introspection.table_names())
    statements = _postgres if connection.vendor == "postgresql" else _sqlite
    with connection.cursor() as cursor:
        for rule in rules:
            for sql in statements(rule) if rule.table in existing else ():
                cursor.execute(sql)


def missing_rules(connection: BaseDatabaseWrapper, rules: Sequence[DatabaseRule] = RULES) -> list[str]:
    """Return the rules that are not there, or not with the text they should have."""
    existing = set(connection.introspection.table_names())
    on_postgres = connection.vendor == "postgresql"
    with connection.cursor() as cursor:
        cursor.execute(_INSTALLED[connection.vendor])
        installed: dict[str, str] = dict(cursor.fetchall())
    wanted = {rule.trigger: _postgres_body(rule) if on_postgres else _sqlite(rule)[1] for rule in rules}
    return [
        rule.trigger
        for rule in rules
        if rule.table in existing and installed.get(rule.trigger, "").strip() != wanted[rule.trigger].strip()
    ]


def reinstall_rules(*, using: str = DEFAULT_DB_ALIAS, **_signal: Any) -> None:
    """Reinstall after a migration: a rebuilt table has silently lost its triggers."""
    install_rules(connections[using])


def check_rules(*, databases: Sequence[str] | None = None, **_kwargs: Any) -> list[CheckMessage]:
    """Refuse to start where the database would let authority be got round."""
    return [
        Critical(f"The rule {name} of the database is missing.", id="branches.E002")
        for alias in databases or ()
        for name in missing_rules(connections[alias])
    ]


def _sqlite(rule: DatabaseRule) -> list[str]:
    refuse = f"SELECT RAISE(ABORT, '{MESSAGE}: {rule.name}')"
    made = f"CREATE TRIGGER {rule.trigger} BEFORE INSERT ON {rule.table} WHEN {rule.condition}"
    return [f"DROP TRIGGER IF EXISTS {rule.trigger}", f"{made} BEGIN {refuse}; END"]


def _postgres_body(rule: DatabaseRule) -> str:
    refuse = f"RAISE EXCEPTION '{MESSAGE}: {rule.name}' USING ERRCODE = 'integrity_constraint_violation'"
    return f"BEGIN IF {rule.condition} THEN {refuse}; END IF; RETURN NEW; END"


def _postgres(rule: DatabaseRule) -> list[str]:
    name, body = rule.trigger, _postgres_body(rule)
    before = f"BEFORE INSERT ON {rule.table} FOR EACH ROW EXECUTE FUNCTION {name}()"
    return [
        f"CREATE OR REPLACE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $${body}$$",
        f"DROP TRIGGER IF EXISTS {name} ON {rule.table}",
        f"CREATE TRIGGER {name} {before}",
        f"ALTER TABLE {rule.table} ENABLE ALWAYS TRIGGER {name}",
    ]


_INSTALLED: Final = {
    "sqlite": "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'",
    "postgresql": (
        "SELECT t.tgname, p.prosrc FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid "
        "WHERE NOT t.tgisinternal AND t.tgenabled = 'A' AND t.tgqual IS NULL"
    ),
}
