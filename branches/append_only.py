"""Append-only by the database itself: triggers on SQLite and PostgreSQL, reinstalled by each migration."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.apps import apps
from django.core.checks import CheckMessage, Critical
from django.db import DEFAULT_DB_ALIAS, connections, models
from django.db.backends.base.base import BaseDatabaseWrapper

MESSAGE = "branchgate: append-only"


class AppendOnly(models.Model):
    """A row that is only ever added; the database refuses to change or delete it."""

    class Meta:
        abstract = True


@dataclass(frozen=True, slots=True)
class Guarded:
    """A guarded table and the column sets by which one of its rows could be replaced."""

    table: str
    unique: tuple[tuple[str, ...], ...]


def guarded_tables() -> list[Guarded]:
    """Return every append-only table: the one registry behind migration, check and test."""
    return [_guarded(model) for model in apps.get_models() if issubclass(model, AppendOnly)]


def _guarded(model: type[models.Model]) -> Guarded:
    meta = model._meta
    columns = {field.name: str(field.column) for field in meta.concrete_fields}
    sets: list[tuple[str, ...]] = [(columns[field.name],) for field in meta.concrete_fields if field.unique]
    sets += [
        tuple(columns[name] for name in constraint.fields)
        for constraint in meta.constraints
        if isinstance(constraint, models.UniqueConstraint)
    ]
    return Guarded(meta.db_table, tuple(sets))


def install_guards(connection: BaseDatabaseWrapper, tables: Iterable[Guarded]) -> None:
    """Put the guards on the tables, replacing what is there."""
    on_postgres = connection.vendor == "postgresql"
    statements = _postgres_statements if on_postgres else _sqlite_statements
    with connection.cursor() as cursor:
        if on_postgres:
            # Checks still pending in this transaction would stand in the way of a new trigger.
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
            cursor.execute(_POSTGRES_FUNCTION)
        for guarded in tables:
            for sql in statements(guarded):
                cursor.execute(sql)


def missing_guards(connection: BaseDatabaseWrapper, tables: Iterable[Guarded]) -> list[str]:
    """Return the tables of the list that exist without all their guards."""
    existing = set(connection.introspection.table_names())
    with connection.cursor() as cursor:
        cursor.execute(_INSTALLED[connection.vendor])
        installed = {(table, name): what for table, name, what in cursor.fetchall()}
    wanted = _postgres_wanted if connection.vendor == "postgresql" else _sqlite_wanted
    return [
        guarded.table
        for guarded in tables
        if guarded.table in existing
        and any(installed.get((guarded.table, name)) != what for name, what in wanted(guarded).items())
    ]


def _sqlite_wanted(guarded: Guarded) -> dict[str, str]:
    """Return trigger name -> its whole text: one of the same name that lets a change through is no guard."""
    made = [sql for sql in _sqlite_statements(guarded) if sql.startswith("CREATE")]
    return {sql.split()[2]: sql for sql in made}


def _postgres_wanted(guarded: Guarded) -> dict[str, str]:
    """Return trigger name -> what it fires on and the text of its function, as the catalogue holds them."""
    return {
        f"{guarded.table}_{word}": f"{fires}:{_POSTGRES_BODY.strip()}"
        for word, fires in (("no_change", _ROW_UPDATE_DELETE), ("no_truncate", _TRUNCATE))
    }


def is_refusal(error: Exception) -> bool:
    """Return whether a database error is our guard's and not another one."""
    return MESSAGE in str(error)


def reinstall_guards(*, using: str = DEFAULT_DB_ALIAS, **_signal: Any) -> None:
    """Reinstall after a migration: on SQLite a rebuilt table has silently lost its triggers."""
    connection = connections[using]
    existing = set(connection.introspection.table_names())
    install_guards(connection, [table for table in guarded_tables() if table.table in existing])


def check_guards(*, databases: Sequence[str] | None = None, **_kwargs: Any) -> list[CheckMessage]:
    """Refuse to start where a table of the record is not guarded."""
    return [
        Critical(f"The table {table} can be changed: its append-only guard is missing.", id="branches.E001")
        for alias in databases or ()
        for table in missing_guards(connections[alias], guarded_tables())
    ]


def _sqlite_statements(guarded: Guarded) -> list[str]:
    table = guarded.table
    # INSERT OR REPLACE deletes without firing DELETE triggers, so a row that would replace one is refused.
    clash = " OR ".join(
        f"EXISTS (SELECT 1 FROM {table} WHERE " + " AND ".join(f"{c} = NEW.{c}" for c in columns) + ")"
        for columns in guarded.unique
    )
    bodies = {
        "no_update": f"BEFORE UPDATE ON {table}",
        "no_delete": f"BEFORE DELETE ON {table}",
        "no_replace": f"BEFORE INSERT ON {table} WHEN {clash}",
    }
    return [
        sql
        for word, when in bodies.items()
        for sql in (
            f"DROP TRIGGER IF EXISTS {table}_{word}",
            f"CREATE TRIGGER {table}_{word} {when} BEGIN SELECT RAISE(ABORT, '{MESSAGE}'); END",
        )
    ]


def _postgres_statements(guarded: Guarded) -> list[str]:
    table = guarded.table
    bodies = {
        "no_change": f"BEFORE UPDATE OR DELETE ON {table} FOR EACH ROW",
        "no_truncate": f"BEFORE TRUNCATE ON {table} FOR EACH STATEMENT",
    }
    return [
        sql
        for word, when in bodies.items()
        for sql in (
            f"DROP TRIGGER IF EXISTS {table}_{word} ON {table}",
            f"CREATE TRIGGER {table}_{word} {when} EXECUTE FUNCTION branchgate_refuse_change()",
            f"ALTER TABLE {table} ENABLE ALWAYS TRIGGER {table}_{word}",
        )
    ]


_POSTGRES_BODY = f"""
BEGIN
    RAISE EXCEPTION '{MESSAGE}' USING ERRCODE = 'integrity_constraint_violation';
END
"""
_POSTGRES_FUNCTION = (
    "CREATE OR REPLACE FUNCTION branchgate_refuse_change() RETURNS trigger LANGUAGE plpgsql AS "
    f"$${_POSTGRES_BODY}$$"
)
# pg_trigger.tgtype: row 1, before 2, delete 8, update 16, truncate 32.
_ROW_UPDATE_DELETE = 1 + 2 + 8 + 16
_TRUNCATE = 2 + 32
_INSTALLED = {
    "sqlite": "SELECT tbl_name, name, sql FROM sqlite_master WHERE type = 'trigger'",
    "postgresql": (
        "SELECT c.relname, t.tgname, t.tgtype || ':' || btrim(p.prosrc, E' \\n') FROM pg_trigger t "
        "JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_proc p ON p.oid = t.tgfoid "
        "WHERE NOT t.tgisinternal AND t.tgenabled = 'A' AND t.tgqual IS NULL"
    ),
}
