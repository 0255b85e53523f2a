"""Tokens: issued by a policy admin and shown once, used, ended, and each of these on the chain."""

import re
from datetime import timedelta

import pytest
import time_machine
from django.test import Client

from branches.commands.admit import end_token, grant_role, issue_token, token_digest
from branches.commands.give_token import note_token_use
from branches.models import ApiToken, Role, TokenUse, WorkspaceReceipt
from branches.queries.clock import now
from tests.builders import World, make_world
from tests.web.cast import signed_in


@pytest.fixture
def admin(world: World) -> Client:
    grant_role(person=world.rosa, workspace=world.workspace, role=Role.POLICY_ADMIN)
    return signed_in(world.rosa)


@pytest.fixture
def auditor(world: World) -> Client:
    grant_role(person=world.linus, workspace=world.workspace, role=Role.AUDITOR)
    return signed_in(world.linus)


def issued(admin: Client, **form: object) -> str:
    page = admin.post("/tokens/", {"name": "nightly", "scope": ["read"], "days": "30", **form})
    assert page.status_code == 200
    assert "no-store" in page["Cache-Control"]
    found = re.search(r'value="(bgt_[^"]+)"', page.content.decode())
    assert found is not None
    return found[1]


def test_a_token_is_issued_shown_once_and_works(world: World, admin: Client) -> None:
    secret = issued(admin)
    assert secret not in admin.get("/tokens/").content.decode()
    row = ApiToken.objects.get(digest=token_digest(secret))
    assert timedelta(days=29) < row.expires_at - now() <= timedelta(days=30)
    headers = {"Authorization": f"Bearer {secret}"}
    assert Client().get("/api/v1/runs", headers=headers).status_code == 200
    assert Client().post("/api/v1/workflows", headers=headers).status_code == 401
    newest = WorkspaceReceipt.objects.latest("id")
    assert (newest.kind, newest.subject, newest.writer) == ("token_issued", row.uid, world.rosa.uid)


def test_an_ended_token_is_refused_and_the_chain_says_so(world: World, admin: Client) -> None:
    secret = issued(admin)
    row = ApiToken.objects.get(digest=token_digest(secret))
    assert "The token is ended." in admin.post(f"/tokens/{row.uid}/end/", follow=True).content.decode()
    answer = Client().get("/api/v1/runs", headers={"Authorization": f"Bearer {secret}"})
    assert answer.status_code == 401
    admin.post(f"/tokens/{row.uid}/end/")
    ends = WorkspaceReceipt.objects.filter(kind="token_revoked")
    assert [(each.subject, each.writer) for each in ends] == [(row.uid, world.rosa.uid)]


def test_the_operators_own_tokens_are_on_the_chain_too(world: World) -> None:
    row, _ = issue_token(workspace=world.workspace, name="cli", scopes=["read"])
    end_token(token=row)
    rows = WorkspaceReceipt.objects.filter(subject=row.uid).order_by("seq")
    assert [each.kind for each in rows] == ["token_issued", "token_revoked"]
    assert {each.writer for each in rows} == {world.workspace.uid}


def test_the_page_says_when_a_token_was_last_used(world: World, admin: Client) -> None:
    assert "never" in admin.get("/tokens/").content.decode()
    Client().get("/api/v1/runs", headers={"Authorization": f"Bearer {world.token}"})
    assert "just now" in admin.get("/tokens/").content.decode()


def test_the_last_use_is_written_at_most_once_a_minute(world: World) -> None:
    row = ApiToken.objects.get(digest=token_digest(world.token))
    with time_machine.travel(now(), tick=False) as clock:
        note_token_use(token=row)
        first = TokenUse.objects.get(token=row).used_at
        clock.shift(59)
        note_token_use(token=row)
        assert TokenUse.objects.get(token=row).used_at == first
        clock.shift(2)
        note_token_use(token=row)
        assert TokenUse.objects.get(token=row).used_at == first + timedelta(seconds=61)


def test_a_refused_token_is_not_said_to_be_used(world: World) -> None:
    Client().get("/api/v1/runs", headers={"Authorization": "Bearer bgt_wrong"})
    assert not TokenUse.objects.exists()


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ({"name": ""}, "name is required"),
        ({"name": " "}, "name is required"),
        ({"name": "x" * 65}, "name is too long"),
        ({"scope": []}, "scopes is not one of the choices"),
        ({"scope": ["approve"]}, "scopes is not one of the choices"),
        ({"days": "3000"}, "days is not one of the choices"),
        ({"days": ""}, "days is not one of the choices"),
    ],
)
def test_a_token_that_says_nothing_is_not_issued(
    world: World, admin: Client, form: dict[str, object], words: str
) -> None:
    page = admin.post("/tokens/", {"name": "nightly", "scope": ["read"], "days": "30", **form})
    assert page.status_code == 422
    assert words in page.content.decode()
    assert ApiToken.objects.count() == 1


def test_an_auditor_sees_tokens_and_changes_none(world: World, auditor: Client) -> None:
    row = ApiToken.objects.get()
    page = auditor.get("/tokens/").content.decode()
    assert f'data-token="{row.uid}"' in page
    assert "<form" not in page[page.index('data-token="') : page.index("</table>")]
    assert auditor.post("/tokens/", {"name": "x", "scope": ["read"], "days": "30"}).status_code == 403
    assert auditor.post(f"/tokens/{row.uid}/end/").status_code == 403
    assert ApiToken.objects.count() == 1


def test_others_see_no_tokens(world: World, ada: Client) -> None:
    page = ada.get("/tokens/")
    assert page.status_code == 403
    assert "This page is for policy admins and auditors." in page.content.decode()


def test_a_token_of_another_workspace_is_not_there(world: World, admin: Client) -> None:
    other = make_world("elsewhere")
    row = ApiToken.objects.get(workspace=other.workspace)
    assert admin.post(f"/tokens/{row.uid}/end/").status_code == 404
