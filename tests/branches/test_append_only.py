"""The database itself refuses to change the record."""

import pytest
from django.apps import apps
from django.core.checks import Critical
from django.db import DatabaseError, connection, transaction

from branches.append_only import (
    check_guards,
    guarded_tables,
    install_guards,
    is_refusal,
    missing_guards,
    reinstall_guards,
)
from branches.models import (
    AuditState,
    AuditWatch,
    EdgeCount,
    Job,
    Lease,
    NoticeDelivery,
    Person,
    Presence,
    Receipt,
    SealedEdit,
    TokenUse,
    Webhook,
    WorkspaceNote,
)
from tests.builders import World, failed_run, message

TABLES = [guarded.table for guarded in guarded_tables()]


def refused(sql: str, parameters: list[object] | None = None) -> bool:
    """Return whether our guard, and nothing else, refused a statement."""
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            if connection.vendor == "postgresql":
                cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
            cursor.execute(sql, parameters)
    except DatabaseError as error:
        return is_refusal(error)
    return False


def test_every_table_of_the_record_is_guarded(db: None) -> None:
    mutable = {
        *(AuditState, AuditWatch, EdgeCount, Job, Lease, NoticeDelivery, Person, Presence, SealedEdit),
        *(TokenUse, Webhook, WorkspaceNote),
    }
    record = {model._meta.db_table for model in apps.get_app_config("branches").get_models()}
    assert set(TABLES) == record - {model._meta.db_table for model in mutable}
    assert missing_guards(connection, guarded_tables()) == []


@pytest.mark.parametrize(
    "table",
    ["branches_receipt", "branches_run", "branches_workflow", "branches_mapblock", "branches_apitoken"],
)
def test_no_row_is_changed_or_deleted(world: World, table: str) -> None:
    run = failed_run(world)
    world.ingest(*[message(world, run.uid, f"m{number}") for number in range(40)])
    assert refused(f"UPDATE {table} SET id = id")
    assert refused(f"DELETE FROM {table}")


def test_no_receipt_is_replaced(world: World) -> None:
    run = failed_run(world)
    row = Receipt.objects.filter(run=run).first()
    assert row is not None
    columns = "run_id, seq, event_id, writer, kind, subject, digest, bytes"
    replaced = f"{columns}) SELECT {columns} FROM branches_receipt WHERE id = %s"
    if connection.vendor == "sqlite":
        assert refused(f"INSERT OR REPLACE INTO branches_receipt ({replaced}", [row.pk])
        assert refused(
            f"REPLACE INTO branches_receipt (id, {replaced.replace('SELECT', 'SELECT id,', 1)}", [row.pk]
        )
        assert refused(f"UPDATE OR REPLACE branches_receipt SET seq = 1 WHERE id = {row.pk}")
    else:
        upsert = (
            f"INSERT INTO branches_receipt ({replaced} ON CONFLICT (run_id, seq) DO UPDATE SET kind = 'x'"
        )
        assert refused(upsert, [row.pk])
        assert refused("TRUNCATE branches_receipt CASCADE")
    assert Receipt.objects.get(pk=row.pk).body == row.body


def test_orm_calls_are_refused_too(world: World) -> None:
    run = failed_run(world)
    row = Receipt.objects.filter(run=run).first()
    assert row is not None
    for change in (
        lambda: Receipt.objects.filter(pk=row.pk).update(kind="message"),
        row.delete,
        lambda: row.save(force_update=True),
    ):
        with pytest.raises(DatabaseError) as error, transaction.atomic():
            change()
        assert is_refusal(error.value)


def test_the_start_check_finds_a_missing_guard(world: World) -> None:
    assert check_guards(databases=["default"]) == []
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute("DROP TRIGGER branches_receipt_no_replace")
        else:
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
            cursor.execute("ALTER TABLE branches_receipt DISABLE TRIGGER branches_receipt_no_change")
    problems = check_guards(databases=["default"])
    assert [type(problem) for problem in problems] == [Critical]
    assert "branches_receipt" in problems[0].msg
    install_guards(connection, guarded_tables())
    assert check_guards(databases=["default"]) == []


def test_a_rebuilt_table_gets_its_guards_back(world: World) -> None:
    """AddField with a default rebuilds the table on SQLite and drops its triggers without a word."""
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            for word in ("no_update", "no_delete", "no_replace"):
                cursor.execute(f"DROP TRIGGER branches_decision_{word}")
    else:
        with connection.cursor() as cursor:
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
            cursor.execute("DROP TRIGGER branches_decision_no_change ON branches_decision")
    assert missing_guards(connection, guarded_tables()) == ["branches_decision"]
    reinstall_guards(using="default")
    assert missing_guards(connection, guarded_tables()) == []
