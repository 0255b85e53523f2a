"""The workspace's chain for those who audit it: in windows, by kind, recomputed, and its exact bytes."""

import io
import json
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client

from branches.append_only import guarded_tables, install_guards
from branches.commands.admit import grant_role, issue_token
from branches.commands.note_sign_in import note_sign_in
from branches.evidence.chain import verify_chain
from branches.models import Role, WorkspaceReceipt
from tests.builders import World, make_world
from tests.web.cast import signed_in


@pytest.fixture
def auditor(world: World) -> Client:
    grant_role(person=world.linus, workspace=world.workspace, role=Role.AUDITOR)
    return signed_in(world.linus)


def test_it_shows_the_newest_receipts_in_words(world: World, auditor: Client) -> None:
    note_sign_in(person=world.ada, method="passkey", second_factor=True)
    page = auditor.get("/audit/").content.decode()
    first = page[page.index("data-seq=") :].split("</tr>")[0]
    assert "Signed in" in first
    assert world.ada.username in first
    assert '<dd class="long">passkey</dd>' in first
    assert world.ada.uid not in first


def test_it_shows_sixty_at_a_time_and_the_older_ones_after_them(world: World, auditor: Client) -> None:
    for _ in range(70):
        note_sign_in(person=world.ada, method="password", second_factor=False)
    count = WorkspaceReceipt.objects.filter(workspace=world.workspace).count()
    page = auditor.get("/audit/").content.decode()
    assert page.count("data-seq=") == 60
    assert f'data-seq="{count}"' in page
    older = auditor.get(f"/audit/?before={count - 59}").content.decode()
    assert older.count("data-seq=") == count - 60
    assert "Older receipts" not in older


def test_it_shows_one_kind(world: World, auditor: Client) -> None:
    note_sign_in(person=world.ada, method="password", second_factor=False)
    page = auditor.get("/audit/?kind=signed_in").content.decode()
    assert page.count("data-seq=") == 1
    assert auditor.get("/audit/?kind=nonsense").content.decode().count("data-seq=") > 1


def test_it_recomputes_the_chain(world: World, auditor: Client) -> None:
    assert "Every link holds" in auditor.get("/audit/?check=1").content.decode()
    tamper(world, "UPDATE branches_workspacereceipt SET bytes = replace(bytes, 'reviewer', 'engineer')")
    assert "Broken at receipt" in auditor.get("/audit/?check=1").content.decode()


def tamper(world: World, sql: str) -> None:
    """Change the record as whoever owns the database could: without its guards."""
    table = "branches_workspacereceipt"
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            for word in ("no_update", "no_delete", "no_replace"):
                cursor.execute(f"DROP TRIGGER {table}_{word}")
        else:
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
            cursor.execute(f"ALTER TABLE {table} DISABLE TRIGGER ALL")
        cursor.execute(sql)
        if connection.vendor != "sqlite":
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
            cursor.execute(f"ALTER TABLE {table} ENABLE ALWAYS TRIGGER {table}_no_change")
    install_guards(connection, guarded_tables())


@pytest.mark.parametrize("column", ["subject", "kind", "writer"])
def test_a_column_that_says_something_else_than_the_bytes_breaks_it(world: World, column: str) -> None:
    tamper(world, f"UPDATE branches_workspacereceipt SET {column} = 'other' WHERE seq = 2")
    with pytest.raises(CommandError, match="1 of 1 chains are broken"):
        call_command("verify_receipts", world.workspace.uid, stdout=io.StringIO())


def test_the_export_is_the_chain_itself(world: World, auditor: Client) -> None:
    make_world("elsewhere")
    answer = auditor.get("/audit/export.ndjson")
    assert answer["Content-Type"] == "application/x-ndjson"
    lines = answer.getvalue().splitlines()
    assert verify_chain(lines, expect_first_prev=None, run=world.workspace.uid).ok
    assert len(lines) == WorkspaceReceipt.objects.filter(workspace=world.workspace).count()


def test_machines_read_it_with_the_verb_read(world: World) -> None:
    headers = {"Authorization": f"Bearer {world.token}"}
    lines = Client().get("/api/v1/audit", headers=headers).getvalue().splitlines()
    assert verify_chain(lines, expect_first_prev=None, run=world.workspace.uid).ok
    later = Client().get("/api/v1/audit?from_seq=3", headers=headers).getvalue().splitlines()
    assert [json.loads(line)["seq"] for line in later] == list(range(3, len(lines) + 1))
    _, writes = issue_token(workspace=world.workspace, name="writes", scopes=["ingest"])
    assert Client().get("/api/v1/audit", headers={"Authorization": f"Bearer {writes}"}).status_code == 401


def test_the_commands_know_workspaces_too(world: World, capfdbinary: Any) -> None:
    out = io.StringIO()
    call_command("verify_receipts", world.workspace.uid, stdout=out)
    assert "chain intact" in out.getvalue()
    call_command("export_receipts", world.workspace.uid)
    lines = capfdbinary.readouterr().out.splitlines()
    assert verify_chain(lines, expect_first_prev=None, run=world.workspace.uid).ok
    call_command("export_receipts", all=True)
    assert capfdbinary.readouterr().out.splitlines() == lines


@pytest.mark.parametrize("path", ["/audit/", "/audit/export.ndjson"])
def test_it_is_for_auditors_and_policy_admins(world: World, ada: Client, path: str) -> None:
    assert ada.get(path).status_code == 403
    grant_role(person=world.ada, workspace=world.workspace, role=Role.POLICY_ADMIN)
    assert ada.get(path).status_code == 200
    assert Client().get(path).status_code == 302
