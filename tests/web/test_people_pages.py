"""The pages on which people come, go, and get and lose roles."""

import re

import pytest
from django.test import Client

from branches.commands.admit import grant_role, make_workspace
from branches.commands.decide_change import decide_change
from branches.commands.groups import make_group
from branches.commands.invite_person import invite_person
from branches.models import Group, Invitation, Person, PolicyChange, Role
from branches.queries.standings import roles_of, roster_of, standings_of
from branches.rules.quorum import Standing
from tests.builders import World, make_world
from tests.web.cast import signed_in


@pytest.fixture
def admin(world: World) -> Client:
    grant_role(person=world.rosa, workspace=world.workspace, role=Role.POLICY_ADMIN)
    return signed_in(world.rosa)


def said(client: Client, path: str = "/people/") -> str:
    return client.get(path).content.decode()


def test_everybody_here_sees_everybody_here(world: World, ada: Client) -> None:
    page = said(ada)
    for person in (world.ada, world.grace, world.rosa):
        assert f'data-person="{person.uid}"' in page
    assert world.linus.username not in page
    assert "Withdraw" not in page
    assert "Invitations" not in page


def test_an_admin_gives_and_withdraws_a_role(world: World, admin: Client) -> None:
    form = {"person": world.ada.uid, "role": "auditor"}
    assert "The role is given." in admin.post("/people/roles/give/", form, follow=True).content.decode()
    assert Role.AUDITOR in roles_of(world.ada, world.workspace)
    assert "withdrawn" in admin.post("/people/roles/withdraw/", form, follow=True).content.decode()
    assert Role.AUDITOR not in roles_of(world.ada, world.workspace)


def test_a_role_of_authority_is_proposed_to_the_others(world: World, admin: Client) -> None:
    grant_role(person=world.grace, workspace=world.workspace, role=Role.POLICY_ADMIN)
    form = {"person": world.ada.uid, "role": "approver", "scope": "C2"}
    page = admin.post("/people/roles/give/", form, follow=True).content.decode()
    assert "Proposed: 1 of the others have to agree." in page
    change = PolicyChange.objects.latest("id")
    other = signed_in(world.grace)
    assert "approver of C2" in said(other, "/policies/")
    other.post(f"/policies/{change.uid}/", {"decision": "approved", "digest": change.digest})
    assert Standing("approver", "C2") in standings_of(world.ada, world.workspace)


def test_a_refusal_is_said_in_words(world: World, admin: Client) -> None:
    form = {"person": world.rosa.uid, "role": "policy_admin"}
    page = admin.post("/people/roles/withdraw/", form, follow=True).content.decode()
    assert "somebody has to stay policy admin" in page
    bad = {"person": world.ada.uid, "role": "viewer", "until": "tomorrow"}
    assert "has to be a date" in admin.post("/people/roles/give/", bad, follow=True).content.decode()


def test_whoever_is_no_admin_changes_nothing(world: World, ada: Client) -> None:
    group = make_group(workspace=world.workspace, name="safety")
    forms = {
        "/people/roles/give/": {"person": world.ada.uid, "role": "reviewer"},
        "/people/roles/withdraw/": {"person": world.grace.uid, "role": "approver"},
        "/people/groups/": {"name": "others"},
        f"/people/groups/{group.uid}/": {"person": world.ada.uid, "act": "join"},
        "/people/invitations/": {"role": "viewer"},
        f"/people/{world.grace.uid}/remove/": {},
    }
    before = roster_of(world.workspace)
    for path, form in forms.items():
        page = ada.post(path, form, follow=True).content.decode()
        assert "this needs the role policy admin" in page, path
    assert roster_of(world.workspace) == before
    assert Group.objects.count() == 1
    assert not Invitation.objects.exists()


def test_a_group_is_made_and_filled(world: World, admin: Client) -> None:
    admin.post("/people/groups/", {"name": "safety"})
    group = Group.objects.get()
    page = admin.post(f"/people/groups/{group.uid}/", {"person": world.ada.uid, "act": "join"}, follow=True)
    assert "Proposed: 1 of the others have to agree." in page.content.decode()
    change = PolicyChange.objects.get(sort="group")
    assert "ada-desk into the group safety" in admin.get("/policies/").content.decode()
    decide_change(person=world.grace, change=change, word="approved", digest=change.digest)
    assert roster_of(world.workspace)[world.ada.uid].groups == {group.uid}
    assert 'data-group="safety"' in said(admin)
    admin.post(f"/people/groups/{group.uid}/", {"person": world.ada.uid, "act": "leave"})
    assert roster_of(world.workspace)[world.ada.uid].groups == frozenset()


def test_somebody_who_was_removed_sees_nothing_any_more(world: World, admin: Client, ada: Client) -> None:
    assert ada.get("/").status_code == 200
    admin.post(f"/people/{world.ada.uid}/remove/")
    assert ada.get("/").status_code == 403


def test_nothing_of_another_workspace_can_be_named(world: World, admin: Client) -> None:
    other = make_world("elsewhere")
    group = make_group(workspace=other.workspace, name="theirs")
    row, _ = invite_other(other)
    for path, form in {
        "/people/roles/give/": {"person": other.ada.uid, "role": "viewer"},
        "/people/roles/withdraw/": {"person": other.ada.uid, "role": "engineer"},
        f"/people/{other.ada.uid}/remove/": {},
        f"/people/groups/{group.uid}/": {"person": world.ada.uid, "act": "join"},
        f"/people/invitations/{row.uid}/withdraw/": {},
        "/workspace/": {"workspace": other.workspace.uid},
    }.items():
        assert admin.post(path, form).status_code == 404, path


def invite_other(other: World) -> tuple[Invitation, str]:
    grant_role(person=other.rosa, workspace=other.workspace, role=Role.POLICY_ADMIN)
    return invite_person(
        person=other.rosa, workspace=other.workspace, roles=[{"role": "viewer", "scope": ""}]
    )


def made_link(admin: Client, *roles: str) -> str:
    page = admin.post("/people/invitations/", {"role": roles or ("engineer",), "days": "7"})
    assert page.status_code == 200
    assert "no-store" in page["Cache-Control"]
    found = re.search(r'value="http://testserver(/invitations/[^"]+)"', page.content.decode())
    assert found is not None
    return found[1]


JOAN = {"name": "joan", "password": "a quiet harbour", "again": "a quiet harbour"}


def test_an_invitation_is_shown_and_changes_nothing_until_it_is_accepted(world: World, admin: Client) -> None:
    link = made_link(admin)
    stranger = Client()
    for _ in range(2):
        page = stranger.get(link).content.decode()
        assert "You are invited to desk" in page
        assert "as Engineer" in page
    assert not hasattr(Invitation.objects.get(), "end")
    assert stranger.post(link, JOAN)["Location"] == "/"
    assert stranger.get("/").status_code == 200
    assert roles_of(Person.objects.get(username="joan"), world.workspace) == {"engineer"}
    again = Client().get(link)
    assert again.status_code == 410
    assert "accepted already" in again.content.decode()
    assert "accepted" in said(admin)


def test_a_form_that_will_not_do_keeps_the_name_and_says_why(world: World, admin: Client) -> None:
    link = made_link(admin)
    for form, words in (
        ({**JOAN, "again": "another"}, "the two passwords differ"),
        ({**JOAN, "password": "12345678", "again": "12345678"}, "too common"),
        ({**JOAN, "name": world.ada.username}, "that name is taken"),
    ):
        page = Client().post(link, form)
        assert page.status_code == 422
        assert words in page.content.decode()
        assert form["name"] in page.content.decode()
        assert form["password"] not in page.content.decode()


def test_somebody_who_is_signed_in_accepts_as_themself_and_lands_there(world: World, admin: Client) -> None:
    elsewhere = make_workspace(name="elsewhere")
    grant_role(person=world.linus, workspace=elsewhere, role=Role.ENGINEER)
    linus = signed_in(world.linus)
    link = made_link(admin)
    assert f"Accept as {world.linus.username}" in linus.get(link).content.decode()
    linus.post(link)
    assert linus.get("/people/").content.decode().count("data-person") == 4


def test_a_withdrawn_invitation_says_so(world: World, admin: Client) -> None:
    link = made_link(admin)
    admin.post(f"/people/invitations/{Invitation.objects.get().uid}/withdraw/")
    assert "was taken back" in Client().get(link).content.decode()
    assert Client().post(link, JOAN).status_code == 410
    assert not Person.objects.filter(username="joan").exists()


def test_an_unknown_link_is_not_found(db: None) -> None:
    assert Client().get("/invitations/bgi_nothing/").status_code == 404


def test_somebody_of_two_workspaces_switches_between_them(world: World, ada: Client) -> None:
    other = make_world("elsewhere")
    grant_role(person=world.ada, workspace=other.workspace, role=Role.VIEWER)
    assert 'data-person="' + world.grace.uid in said(ada)
    assert ada.post("/workspace/", {"workspace": other.workspace.uid})["Location"] == "/"
    page = said(ada)
    assert world.grace.uid not in page
    assert other.grace.uid in page
    # Whoever only reads there can still go back.
    ada.post("/workspace/", {"workspace": world.workspace.uid})
    assert world.grace.uid in said(ada)


def test_a_chosen_workspace_that_was_lost_is_no_longer_shown(world: World, ada: Client) -> None:
    other = make_world("elsewhere")
    grant_role(person=world.ada, workspace=other.workspace, role=Role.VIEWER)
    ada.post("/workspace/", {"workspace": other.workspace.uid})
    grant_role(person=world.ada, workspace=other.workspace, role=Role.VIEWER, held=False)
    assert world.grace.uid in said(ada)


def test_the_page_says_who_has_a_second_factor_and_when_they_signed_in(world: World, ada: Client) -> None:
    page = said(ada)
    row = page[page.index(world.ada.uid) : page.index(world.grace.uid)]
    assert "set up" in row
    assert "just now" in row or "s ago" in row
    assert "never" in page[page.index(f'data-person="{world.grace.uid}"') :]
