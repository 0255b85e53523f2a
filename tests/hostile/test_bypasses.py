"""Ways round the guards of the record, each tried on the database at hand."""

# ruff: noqa: E501, ISC004 - a statement is easier to read in one piece

from contextlib import suppress
from typing import Final

import pytest
from django.core.checks import CheckMessage, Critical
from django.db import DatabaseError, connection, transaction

from branches.append_only import check_guards, guarded_tables, install_guards, is_refusal, missing_guards
from branches.models import Receipt, Run
from tests.builders import World, failed_run
from tests.hostile.test_forgeries import settle_constraints

_COLUMNS = "run_id, seq, event_id, writer, kind, subject, digest, bytes"
_SAME = f"SELECT {_COLUMNS} FROM branches_receipt WHERE id = {{pk}}"
_AS_MESSAGE = "SELECT run_id, seq, event_id, writer, 'message', subject, digest, bytes FROM branches_receipt WHERE id = {pk}"

ON_BOTH: Final = (
    "UPDATE branches_receipt SET kind = 'message' WHERE id = {pk}",
    "UPDATE branches_receipt SET kind = kind",
    "UPDATE branches_receipt SET id = id + 1000000 WHERE id = {pk}",
    "UPDATE branches_receipt SET run_id = (SELECT max(id) FROM branches_run) WHERE id = {pk}",
    "DELETE FROM branches_receipt WHERE id = {pk}",
    "DELETE FROM branches_receipt",
    "WITH gone AS (SELECT {pk} AS id) DELETE FROM branches_receipt WHERE id IN (SELECT id FROM gone)",
    "WITH new AS (SELECT 'message' AS kind) UPDATE branches_receipt SET kind = (SELECT kind FROM new)",
    "UPDATE branches_receipt SET kind = 'message' FROM branches_run WHERE branches_run.id = run_id",
    f"INSERT INTO branches_receipt ({_COLUMNS}) {_SAME} AND true ON CONFLICT (run_id, seq) DO UPDATE SET kind = 'message'",
    f"INSERT INTO branches_receipt (id, {_COLUMNS}) {_SAME.replace('SELECT', 'SELECT id,', 1)} AND true "
    "ON CONFLICT (id) DO UPDATE SET kind = 'message'",
    f"INSERT INTO branches_receipt ({_COLUMNS}) {_SAME} AND true "
    "ON CONFLICT (run_id, writer, event_id) DO UPDATE SET bytes = 'x'",
    "UPDATE branches_run SET parent_id = NULL",
    "UPDATE branches_decision SET word = 'approved'",
    "UPDATE branches_redemption SET attempt = 'x'",
    "UPDATE branches_forkpoint SET seq = 1",
    "UPDATE branches_rolegrant SET held = true",
    "DELETE FROM branches_revocation",
    "DELETE FROM branches_requestend",
    "DELETE FROM branches_permitend",
    "DELETE FROM branches_tokenend",
    "UPDATE branches_apitoken SET expires_at = '2099-01-01'",
    "UPDATE branches_resumepermit SET expires_at = '2099-01-01'",
    "UPDATE branches_workflow SET declaration = '{{}}'",
)
ONLY_SQLITE: Final = (
    f"INSERT OR REPLACE INTO branches_receipt ({_COLUMNS}) {_AS_MESSAGE}",
    f"REPLACE INTO branches_receipt ({_COLUMNS}) {_AS_MESSAGE}",
    f"REPLACE INTO branches_receipt (id, {_COLUMNS}) {_AS_MESSAGE.replace('SELECT', 'SELECT id,', 1)}",
    f"REPLACE INTO branches_receipt (rowid, {_COLUMNS}) {_AS_MESSAGE.replace('SELECT', 'SELECT rowid,', 1)}",
    f"REPLACE INTO branches_receipt (oid, {_COLUMNS}) {_AS_MESSAGE.replace('SELECT', 'SELECT oid,', 1)}",
    f"REPLACE INTO branches_receipt (id, {_COLUMNS}) {_AS_MESSAGE.replace('SELECT', 'SELECT CAST(id AS TEXT),', 1)}",
    f"INSERT OR REPLACE INTO branches_receipt (id, {_COLUMNS}) "
    + _AS_MESSAGE.replace("SELECT run_id, seq", "SELECT id, run_id, seq + 100", 1).replace(
        "event_id", "'e'", 1
    ),
    f"INSERT OR REPLACE INTO branches_receipt ({_COLUMNS}) "
    + _AS_MESSAGE.replace("seq, event_id", "CAST(seq AS TEXT), 'other'", 1),
    f"INSERT OR REPLACE INTO branches_receipt ({_COLUMNS}) "
    + _AS_MESSAGE.replace("seq, event_id", "seq + 0.0, 'other'", 1),
    "UPDATE OR REPLACE branches_receipt SET seq = seq + 1 WHERE id = {pk}",
    "UPDATE OR IGNORE branches_receipt SET seq = 99 WHERE id = {pk}",
    "UPDATE OR ROLLBACK branches_receipt SET seq = 99 WHERE id = {pk}",
    "UPDATE OR FAIL branches_receipt SET seq = 99 WHERE id = {pk}",
    "UPDATE main.branches_receipt SET seq = 99 WHERE id = {pk}",
    "UPDATE branches_receipt INDEXED BY receipt_by_kind SET seq = 99 WHERE kind = 'message'",
    f"INSERT INTO branches_receipt ({_COLUMNS}) {_SAME} AND true ON CONFLICT DO UPDATE SET kind = 'message'",
)
ONLY_POSTGRES: Final = (
    "TRUNCATE branches_receipt",
    "TRUNCATE branches_receipt CASCADE",
    "TRUNCATE branches_run CASCADE",
    "TRUNCATE ONLY branches_redemption RESTART IDENTITY CASCADE",
    "SET LOCAL session_replication_role = replica; UPDATE branches_receipt SET kind = 'message'",
    "SET LOCAL session_replication_role = replica; DELETE FROM branches_receipt",
    "SET CONSTRAINTS ALL DEFERRED; DELETE FROM branches_receipt",
    "ALTER TABLE branches_receipt DISABLE TRIGGER USER; ALTER TABLE branches_receipt ENABLE TRIGGER USER; "
    "ALTER TABLE branches_receipt ENABLE ALWAYS TRIGGER branches_receipt_no_change; DELETE FROM branches_receipt",
    "MERGE INTO branches_receipt t USING (SELECT {pk} AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET kind = 'message'",
    "MERGE INTO branches_receipt t USING (SELECT {pk} AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE",
    "UPDATE ONLY branches_receipt SET kind = 'message'",
    "CREATE VIEW shown AS SELECT * FROM branches_receipt; UPDATE shown SET kind = 'message'",
    "CREATE VIEW shown AS SELECT * FROM branches_receipt; DELETE FROM shown",
    "CREATE RULE turned AS ON INSERT TO branches_tokenend DO ALSO DELETE FROM branches_receipt; "
    "INSERT INTO branches_tokenend (token_id, at) SELECT id, now() FROM branches_apitoken LIMIT 1",
    "DO $$ BEGIN EXECUTE 'DELETE FROM branches_receipt'; END $$",
    "CREATE FUNCTION sly() RETURNS void LANGUAGE sql SECURITY DEFINER AS 'DELETE FROM branches_receipt'; SELECT sly()",
    "DECLARE at CURSOR FOR SELECT * FROM branches_receipt FOR UPDATE; FETCH at; DELETE FROM branches_receipt WHERE CURRENT OF at",
)
# What the owner of a table can do to it by definition. The application's role cannot (see test_two_roles), the
# check that runs before anything is served names the table, and the chains name what was changed.
BY_OWNER_SQLITE: Final = (
    "DROP TRIGGER branches_receipt_no_update",
    "DROP TRIGGER branches_receipt_no_update; CREATE TRIGGER branches_receipt_no_update BEFORE UPDATE ON branches_receipt BEGIN SELECT 1; END",
    "DROP TRIGGER branches_receipt_no_delete; CREATE TRIGGER branches_receipt_no_delete BEFORE DELETE ON branches_receipt "
    "WHEN 0 BEGIN SELECT RAISE(ABORT, 'branchgate: append-only'); END",
    "ALTER TABLE branches_receipt RENAME TO kept; CREATE TABLE branches_receipt AS SELECT * FROM kept WHERE kind = 'message'",
    "CREATE TABLE copied AS SELECT * FROM branches_mapblock; DROP TABLE branches_mapblock; ALTER TABLE copied RENAME TO branches_mapblock",
    "PRAGMA writable_schema = ON; DELETE FROM sqlite_master WHERE type = 'trigger' AND name = 'branches_receipt_no_update'; "
    "PRAGMA writable_schema = OFF",
)
BY_OWNER_POSTGRES: Final = (
    "DROP TRIGGER branches_receipt_no_change ON branches_receipt",
    "ALTER TABLE branches_receipt DISABLE TRIGGER branches_receipt_no_change",
    "ALTER TABLE branches_receipt DISABLE TRIGGER ALL",
    "ALTER TABLE branches_receipt ENABLE REPLICA TRIGGER branches_receipt_no_truncate",
    "ALTER TABLE branches_receipt ENABLE TRIGGER branches_receipt_no_change",
    "CREATE OR REPLACE FUNCTION branchgate_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RETURN NEW; END$$",
    "DROP TRIGGER branches_receipt_no_change ON branches_receipt; CREATE TRIGGER branches_receipt_no_change BEFORE UPDATE OR DELETE "
    "ON branches_receipt FOR EACH ROW WHEN (false) EXECUTE FUNCTION branchgate_refuse_change(); "
    "ALTER TABLE branches_receipt ENABLE ALWAYS TRIGGER branches_receipt_no_change",
    "DROP TRIGGER branches_receipt_no_change ON branches_receipt; CREATE TRIGGER branches_receipt_no_change BEFORE UPDATE "
    "ON branches_receipt FOR EACH ROW EXECUTE FUNCTION branchgate_refuse_change(); "
    "ALTER TABLE branches_receipt ENABLE ALWAYS TRIGGER branches_receipt_no_change",
    "ALTER TABLE branches_receipt RENAME TO kept; CREATE TABLE branches_receipt AS SELECT * FROM kept",
)


@pytest.fixture
def rows(world: World) -> list[str]:
    failed_run(world)
    settle_constraints()
    return snapshot()


def snapshot() -> list[str]:
    found = Receipt.objects.order_by("id").values_list("id", "run", "seq", "kind", "digest", "body")
    return [repr(row) for row in found] + [repr(row) for row in Run.objects.order_by("id").values_list()]


class Passed(Exception):
    """Nothing stopped a statement; raised to undo what it did."""


def test_no_statement_changes_the_record(rows: list[str]) -> None:
    tries = (*ON_BOTH, *(ONLY_SQLITE if connection.vendor == "sqlite" else ONLY_POSTGRES))
    assert len(tries) >= 25
    pk = Receipt.objects.filter(kind="effect_intended").values_list("pk", flat=True).first()
    for sql in tries:
        error = attempt(sql.format(pk=pk))
        is_empty_table = sql.split()[0] in {"UPDATE", "DELETE"} and "branches_receipt" not in sql
        assert error is not None or is_empty_table, sql
        if error is not None:
            assert is_refusal(error), (sql, error)
        assert snapshot() == rows, sql


def attempt(sql: str) -> DatabaseError | None:
    """Run a statement in a savepoint and keep what it did; returns the error that stopped it."""
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(sql)
    except DatabaseError as error:
        return error
    return None


def test_an_attached_or_temporary_double_is_not_the_record(rows: list[str]) -> None:
    """A name that hides the table shows other rows to its own session only, and changes none of the record's."""
    with connection.cursor() as cursor:
        cursor.execute("CREATE TEMPORARY TABLE branches_receipt_double AS SELECT * FROM branches_receipt")
        cursor.execute("DELETE FROM branches_receipt_double")
        cursor.execute("DROP TABLE branches_receipt_double")
    assert snapshot() == rows


@pytest.mark.parametrize("number", range(9))
def test_what_the_owner_of_a_table_can_do_is_seen_before_anything_is_served(
    rows: list[str], number: int
) -> None:
    """Expected by ownership: nothing in a database stops its owner. The check at each start names the table."""
    tries = BY_OWNER_SQLITE if connection.vendor == "sqlite" else BY_OWNER_POSTGRES
    sql = tries[number % len(tries)]
    assert check_guards(databases=["default"]) == []
    problems = seen_after(sql)
    assert {type(problem) for problem in problems} == {Critical}
    assert any("branches_" in problem.msg for problem in problems)
    assert snapshot() == rows
    install_guards(connection, guarded_tables())
    assert missing_guards(connection, guarded_tables()) == []


def seen_after(sql: str) -> list[CheckMessage]:
    """Run the owner's statements, return what the start check says of them, and undo them."""
    found: list[CheckMessage] = []
    with suppress(Passed), transaction.atomic(), connection.cursor() as cursor:
        for statement in statements_of(sql):
            cursor.execute(statement)
        found = check_guards(databases=["default"])
        raise Passed
    return found


def statements_of(sql: str) -> list[str]:
    """Cut at semicolons, but not inside the body of a trigger or function."""
    found: list[str] = []
    for part in sql.split("; "):
        if found and (found[-1].count("BEGIN") > found[-1].count("END") or found[-1].count("$$") % 2):
            found[-1] += f"; {part}"
        else:
            found.append(part)
    return found
