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
# Only of these classes, and where the policy that was asked under allows it at all: the default does not.
_SELF_APPROVAL: Final = """
    NEW.by_requester AND NOT EXISTS (
        SELECT 1 FROM branches_approvalrequest r
        JOIN branches_run b ON b.id = r.branch_id
        JOIN branches_policychange c ON c.workspace_id = b.workspace_id AND c.digest = r.policy
        JOIN branches_policychangeend a ON a.change_id = c.id
        WHERE r.id = NEW.request_id AND r.change_class IN ('C1', 'C2')
          AND a.word = 'adopted' AND c.document LIKE '%"self_approval":{%'
    )
"""
# Who worked on the branch may be the last one here although somebody else, who left, had asked.
_NOT_OWN_WORK: Final = """
    NEW.by_requester AND NOT EXISTS (
        SELECT 1 FROM branches_approvalrequest r
        LEFT JOIN branches_branchwork w ON w.branch_id = r.branch_id AND w.person_id = NEW.approver_id
        WHERE r.id = NEW.request_id AND (r.requester_id = NEW.approver_id OR w.id IS NOT NULL)
    )
"""
# Of each role and scope the newest row counts, and a standing ends by itself.
_HELD: Final = """
    g.held AND (g.until IS NULL OR g.until > NEW.at) AND p.is_active AND NOT EXISTS (
        SELECT 1 FROM branches_rolegrant n
        WHERE n.workspace_id = g.workspace_id AND n.person_id = g.person_id
          AND n.role = g.role AND n.scope = g.scope AND n.id > g.id
    )
"""
_NOT_ALONE: Final = f"""
    NEW.by_requester AND EXISTS (
        SELECT 1 FROM branches_approvalrequest r
        JOIN branches_run b ON b.id = r.branch_id
        JOIN branches_rolegrant g ON g.workspace_id = b.workspace_id AND g.person_id <> NEW.approver_id
        JOIN branches_person p ON p.id = g.person_id
        WHERE r.id = NEW.request_id AND {_HELD}
    )
"""  # noqa: S608 - every part is written here
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
_UNAPPROVED: Final = """
    NOT EXISTS (
        SELECT 1 FROM branches_decision v JOIN branches_approvalrequest r ON r.id = v.request_id
        WHERE r.id = NEW.request_id AND v.word = 'approved' AND v.subject_digest = r.subject_digest
          AND (v.by_requester OR v.approver_id <> r.requester_id)
    )
"""
_GRANT_VETOED: Final = """
    EXISTS (
        SELECT 1 FROM branches_decision v WHERE v.request_id = NEW.request_id AND v.word = 'rejected'
    )
    OR EXISTS (
        SELECT 1 FROM branches_approvalrequest r JOIN branches_revocation x ON x.branch_id = r.branch_id
        WHERE r.id = NEW.request_id
    )
"""
_NEWEST: Final = """
    r.branch_id = NEW.branch_id AND NOT EXISTS (
        SELECT 1 FROM branches_approvalrequest n WHERE n.branch_id = r.branch_id AND n.id > r.id
    )
"""
# What was asked for at the request is in the record: at most eight people, as the policy's schema has it.
_ASKED_FOR_MORE: Final = " OR ".join(
    f"(NEW.approvals_needed < {people} AND q.bytes LIKE '%\"approvals\":{people}%')" for people in range(2, 9)
)
_TOO_FEW_APPROVALS: Final = f"""
    NEW.approvals_needed > (
        SELECT COUNT(DISTINCT v.approver_id) FROM branches_decision v
        JOIN branches_approvalrequest r ON r.id = v.request_id
        LEFT JOIN branches_requestend e ON e.request_id = r.id
        WHERE r.branch_id = NEW.branch_id AND r.subject_digest = NEW.subject_digest
          AND v.word = 'approved' AND e.id IS NULL
    )
    OR NEW.approvals_needed > 0 AND EXISTS (
        SELECT 1 FROM branches_approvalrequest r
        JOIN branches_receipt q
          ON q.run_id = r.branch_id AND q.subject = r.uid AND q.kind = 'approval_requested'
        WHERE {_NEWEST} AND ({_ASKED_FOR_MORE})
    )
"""  # noqa: S608 - every part is written here
_POLICY_NOW: Final = """
    SELECT c.digest FROM branches_policychange c
    JOIN branches_policychangeend a ON a.change_id = c.id
    JOIN branches_run b ON b.workspace_id = c.workspace_id
    WHERE b.id = NEW.branch_id AND c.sort = 'policy' AND a.word = 'adopted'
      AND (a.effective_at <= NEW.at OR c.delay_s = 0)
    ORDER BY a.effective_at DESC, c.id DESC LIMIT 1
"""
# Asked for once, a branch goes on by its grant alone: unless it is confined, and a policy that took effect
# later asks for nobody's word any more.
_NO_GRANT: Final = f"""
    EXISTS (
        SELECT 1 FROM branches_approvalrequest r
        LEFT JOIN branches_grant t ON t.request_id = r.id
        LEFT JOIN branches_requestend e ON e.request_id = r.id
        WHERE {_NEWEST}
          AND (t.id IS NULL OR e.id IS NOT NULL OR r.subject_digest <> NEW.subject_digest)
          AND NOT (
              NEW.approvals_needed = 0 AND r.change_class = 'C1'
              AND COALESCE(r.policy <> ({_POLICY_NOW}), false)
          )
    )
"""  # noqa: S608 - every part is written here
# Nobody's word is enough for a confined branch alone. By what the database sees for itself it is none where
# something that raises the class was done or declared, or where a tool reaches what is no declared fixture.
_NOT_CONFINED: Final = """
    NEW.approvals_needed = 0 AND (
        NEW.facts LIKE '%"required": true%'
        OR EXISTS (
            SELECT 1 FROM branches_receipt q
            WHERE q.run_id = NEW.branch_id AND q.kind = 'configuration_changed'
        )
        OR EXISTS (
            SELECT 1 FROM branches_forkpoint f
            WHERE f.branch_id = NEW.branch_id AND CAST(f.kinds AS TEXT) <> '[]'
        )
        OR EXISTS (
            SELECT 1 FROM branches_run b LEFT JOIN branches_workflow w ON w.id = b.workflow_id
            WHERE b.id = NEW.branch_id AND (
                b.outcome IS NOT NULL OR w.id IS NULL
                OR w.declaration NOT LIKE '%"fixture":true%' AND w.declaration LIKE '%","effect_class":"%'
            )
        )
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
_CHANGE_OVER: Final = """
    EXISTS (SELECT 1 FROM branches_policychangeend e WHERE e.change_id = NEW.change_id)
"""
_CHANGE_UNDECIDED: Final = """
    NEW.word = 'adopted' AND EXISTS (
        SELECT 1 FROM branches_policychange c
        WHERE c.id = NEW.change_id AND (
            c.needed > (
                SELECT COUNT(*) FROM branches_policyvote v WHERE v.change_id = c.id AND v.word = 'approved'
            )
            OR EXISTS (SELECT 1 FROM branches_policyvote v WHERE v.change_id = c.id AND v.word = 'rejected')
        )
    )
"""
# Somebody else who approves has to be asked; the operator's own command (no author) needs nobody.
_NOBODY_ASKED: Final = f"""
    NEW.author_id IS NOT NULL AND NEW.needed = 0 AND EXISTS (
        SELECT 1 FROM branches_rolegrant g
        JOIN branches_person p ON p.id = g.person_id
        WHERE g.workspace_id = NEW.workspace_id AND g.role = 'approver' AND g.person_id <> NEW.author_id
          AND {_HELD}
    )
"""  # noqa: S608 - every part is written here
# Which of these roles a class asks for, and of what, is the policy's: the commands judge that.
_NO_STANDING: Final = f"""
    NOT EXISTS (
        SELECT 1 FROM branches_approvalrequest r
        JOIN branches_run b ON b.id = r.branch_id
        JOIN branches_rolegrant g ON g.workspace_id = b.workspace_id AND g.person_id = NEW.approver_id
        JOIN branches_person p ON p.id = g.person_id
        WHERE r.id = NEW.request_id
          AND g.role IN ('approver', 'destination_owner', 'reviewer', 'policy_admin') AND {_HELD}
    )
"""  # noqa: S608 - every part is written here
_NO_MEMBER: Final = f"""
    NOT EXISTS (
        SELECT 1 FROM branches_policychange c
        JOIN branches_rolegrant g ON g.workspace_id = c.workspace_id AND g.person_id = NEW.person_id
        JOIN branches_person p ON p.id = g.person_id
        WHERE c.id = NEW.change_id AND {_HELD}
    )
"""  # noqa: S608 - every part is written here
_NO_ENGINEER: Final = f"""
    NOT EXISTS (
        SELECT 1 FROM branches_run b
        JOIN branches_rolegrant g ON g.workspace_id = b.workspace_id AND g.person_id = NEW.operator_id
        JOIN branches_person p ON p.id = g.person_id
        WHERE b.id = NEW.branch_id AND g.role = 'engineer' AND {_HELD}
    )
"""  # noqa: S608 - every part is written here
_OPERATOR_LEFT: Final = f"""
    NOT EXISTS (
        SELECT 1 FROM branches_resumepermit m
        JOIN branches_run b ON b.id = m.branch_id
        JOIN branches_rolegrant g ON g.workspace_id = b.workspace_id AND g.person_id = m.operator_id
        JOIN branches_person p ON p.id = g.person_id
        WHERE m.id = NEW.permit_id AND g.role = 'engineer' AND {_HELD}
    )
"""  # noqa: S608 - every part is written here

RULES: Final = (
    DatabaseRule("branches_decision", "no_standing", _NO_STANDING),
    DatabaseRule("branches_decision", "own_work", _OWN_WORK),
    DatabaseRule("branches_decision", "self_approval", _SELF_APPROVAL),
    DatabaseRule("branches_decision", "not_own_work", _NOT_OWN_WORK),
    DatabaseRule("branches_decision", "not_alone", _NOT_ALONE),
    DatabaseRule("branches_decision", "other_digest", _OTHER_DIGEST),
    DatabaseRule("branches_decision", "request_over", _REQUEST_OVER),
    DatabaseRule("branches_grant", "unapproved", _UNAPPROVED),
    DatabaseRule("branches_grant", "vetoed", _GRANT_VETOED),
    DatabaseRule("branches_grant", "request_over", _REQUEST_OVER),
    DatabaseRule("branches_resumepermit", "too_few_approvals", _TOO_FEW_APPROVALS),
    DatabaseRule("branches_resumepermit", "no_grant", _NO_GRANT),
    DatabaseRule("branches_resumepermit", "not_confined", _NOT_CONFINED),
    DatabaseRule("branches_resumepermit", "no_engineer", _NO_ENGINEER),
    DatabaseRule("branches_redemption", "permit_over", _PERMIT_OVER),
    DatabaseRule("branches_redemption", "operator_left", _OPERATOR_LEFT),
    DatabaseRule("branches_redemption", "vetoed", _VETOED),
    DatabaseRule("branches_policychange", "nobody_asked", _NOBODY_ASKED),
    DatabaseRule("branches_policyvote", "own_change", _OWN_CHANGE),
    DatabaseRule("branches_policyvote", "no_member", _NO_MEMBER),
    DatabaseRule("branches_policyvote", "change_over", _CHANGE_OVER),
    DatabaseRule("branches_policychangeend", "undecided", _CHANGE_UNDECIDED),
)


def install_rules(connection: BaseDatabaseWrapper, rules: Sequence[DatabaseRule] = RULES) -> None:
    """Put the rules on their tables, replacing what is there."""
    existing = set(connection.introspection.table_names())
    with connection.cursor() as cursor:
        schema = ""
        if connection.vendor == "postgresql":
            cursor.execute("SELECT quote_ident(current_schema())")
            (schema,) = cursor.fetchone()
        for rule in rules:
            if rule.table in existing:
                for sql in _postgres(rule, schema) if schema else _sqlite(rule):
                    cursor.execute(sql)


def missing_rules(connection: BaseDatabaseWrapper, rules: Sequence[DatabaseRule] = RULES) -> list[str]:
    """Return the rules that are not there, or not with the text they should have."""
    existing = set(connection.introspection.table_names())
    on_postgres = connection.vendor == "postgresql"
    with connection.cursor() as cursor:
        cursor.execute(_INSTALLED[connection.vendor])
        installed: dict[tuple[str, str], str] = {
            (table, name): text for table, name, text in cursor.fetchall()
        }
    wanted = {rule: _postgres_body(rule) if on_postgres else _sqlite(rule)[1] for rule in rules}
    return [
        rule.trigger
        for rule in rules
        if rule.table in existing
        and installed.get((rule.table, rule.trigger), "").strip() != wanted[rule].strip()
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


def _postgres(rule: DatabaseRule, schema: str) -> list[str]:
    """Return the statements; `schema` is where the tables live, quoted as PostgreSQL would."""
    name, body, table = f"{schema}.{rule.trigger}", _postgres_body(rule), f"{schema}.{rule.table}"
    # Where no path is set the temporary schema comes first: whoever may make a temporary table of the name
    # of one of ours would have the rule read that.
    path = f"SET search_path = pg_catalog, {schema}, pg_temp"
    return [
        f"CREATE OR REPLACE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql {path} AS $${body}$$",
        f"DROP TRIGGER IF EXISTS {rule.trigger} ON {table}",
        f"CREATE TRIGGER {rule.trigger} BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION {name}()",
        f"ALTER TABLE {table} ENABLE ALWAYS TRIGGER {rule.trigger}",
    ]


# pg_trigger.tgtype: row 1, before 2, insert 4.
_INSTALLED: Final = {
    "sqlite": "SELECT tbl_name, name, sql FROM sqlite_master WHERE type = 'trigger'",
    "postgresql": (
        "SELECT c.relname, t.tgname, p.prosrc FROM pg_catalog.pg_trigger t "
        "JOIN pg_catalog.pg_class c ON c.oid = t.tgrelid JOIN pg_catalog.pg_proc p ON p.oid = t.tgfoid "
        "JOIN pg_catalog.pg_namespace s ON s.oid = c.relnamespace AND s.oid = p.pronamespace "
        "WHERE NOT t.tgisinternal AND t.tgenabled = 'A' AND t.tgqual IS NULL AND t.tgtype = 7 "
        "AND s.nspname = current_schema() AND p.proconfig = "
        "ARRAY['search_path=pg_catalog, ' || quote_ident(current_schema()) || ', pg_temp']"
    ),
}
