"""On PostgreSQL the owner migrates and the application may only add: the whole product works like that."""

import os
from collections.abc import Iterator
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import psycopg
import pytest

from tests.hostile.arena import Arena, database


@pytest.fixture(scope="module")
def roles(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Arena, str]]:
    """A database with an owner and an application that is another role."""
    folder = tmp_path_factory.mktemp("roles")
    role = f"branchgate_app_{uuid4().hex[:8]}"
    with database() as owner, psycopg.connect(owner, autocommit=True) as server:
        server.execute(f"CREATE ROLE \"{role}\" LOGIN PASSWORD 'app'")
        try:
            parts = urlsplit(owner)
            where = f"{role}:app@{parts.hostname}:{parts.port or 5432}"
            env = {
                **os.environ,
                "BRANCHGATE_VAR": str(folder),
                "BRANCHGATE_TASKS_EAGER": "0",
                "CELERY_BROKER_URL": "memory://",
                "DJANGO_SETTINGS_MODULE": "tests.settings",
                "DATABASE_URL": urlunsplit(parts._replace(netloc=where)),
                "DATABASE_OWNER_URL": owner,
            }
            made = Arena(env)
            made.run("prepared")
            made.run("prepared")  # a second start grants the same again
            yield made, env["DATABASE_URL"]
        finally:
            server.execute(f'DROP OWNED BY "{role}"')
            server.execute(f'DROP ROLE "{role}"')


def test_a_branch_lives_its_whole_life_with_the_applications_role(roles: tuple[Arena, str]) -> None:
    ring, _ = roles
    found = ring.run("whole_life")
    assert found["role"].startswith("branchgate_app_")
    assert found["seen"] == [
        "restore_uncertain",
        "needs_approval",
        "ready_to_resume",
        "needs_approval",
        "ready_to_resume",
        "resuming",
        "awaiting_outcome",
        "false_success",
        "verified",
    ]
    assert found["broken"] == []


def test_races_end_well_with_the_applications_role_too(roles: tuple[Arena, str]) -> None:
    ring, _ = roles
    found = ring.run("redemptions", "1", "10", "20")
    assert found[0]["words"] == {"redeemed": 1, "refused:already_redeemed": 19}


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE {table} SET id = id",
        "DELETE FROM {table}",
        "TRUNCATE {table} CASCADE",
        "ALTER TABLE {table} DISABLE TRIGGER ALL",
        "DROP TRIGGER {table}_no_change ON {table}",
        "DROP TABLE {table} CASCADE",
        "CREATE RULE r AS ON INSERT TO {table} DO INSTEAD NOTHING",
        "CREATE TRIGGER t BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION branchgate_refuse_change()",
        "SELECT * FROM {table} FOR UPDATE",
        "ALTER TABLE {table} OWNER TO CURRENT_USER",
        "CREATE TABLE heir () INHERITS ({table})",
        "CREATE OR REPLACE FUNCTION branchgate_refuse_change() RETURNS trigger LANGUAGE sql AS 'SELECT 1'",
        "SET session_replication_role = replica",
        "UPDATE pg_trigger SET tgenabled = 'D'",
        "CREATE SCHEMA mine",
        "CREATE TABLE public.branches_double (id int)",
        "CREATE TEMPORARY TABLE branches_approvalrequest (id int)",
        "CREATE TEMPORARY VIEW branches_rolegrant AS SELECT 1 AS id",
        "SELECT 1 AS id INTO TEMPORARY branches_requestend",
        "COPY {table} TO PROGRAM 'true'",
    ],
)
def test_the_applications_role_may_not(roles: tuple[Arena, str], sql: str) -> None:
    _, url = roles
    with psycopg.connect(url) as connection:
        for table in tables(connection):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(sql.format(table=table))
            connection.rollback()
            if "{table}" not in sql:
                return


def tables(connection: "psycopg.Connection[tuple[str, ...]]") -> list[str]:
    """Return the tables of the record: those that carry the guard."""
    rows = connection.execute(
        "SELECT c.relname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid "
        "WHERE t.tgname LIKE '%_no_change'"
    ).fetchall()
    connection.rollback()
    assert len(rows) >= 15
    return [name for (name,) in rows]


def test_the_applications_role_changes_nothing_of_the_migrations(roles: tuple[Arena, str]) -> None:
    _, url = roles
    with psycopg.connect(url) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute("DELETE FROM django_migrations")
