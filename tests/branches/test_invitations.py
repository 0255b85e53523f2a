"""Invitations: once, in time, by an inviter who may still invite; authority only by others' word."""

from datetime import timedelta
from typing import Any

import pytest
import time_machine

from branches.commands.admit import grant_role
from branches.commands.invite_person import (
    PasswordRefused,
    accept_invitation,
    invitation_digest,
    invite_person,
    join_by_invitation,
    withdraw_invitation,
)
from branches.commands.refusal import Refused
from branches.models import Invitation, InvitationEnd, Person, PolicyChange, Role, WorkspaceReceipt
from branches.queries.clock import now
from branches.queries.standings import roles_of
from branches.queries.workspace_chain import verify_workspace
from tests.builders import World

GOOD = "a quiet harbour at dusk"


@pytest.fixture
def admin(world: World) -> Person:
    grant_role(person=world.rosa, workspace=world.workspace, role=Role.POLICY_ADMIN)
    return world.rosa


def invited(world: World, admin: Person, *roles: str, **more: Any) -> Invitation:
    asked = [{"role": role, "scope": ""} for role in roles or ("engineer",)]
    return invite_person(person=admin, workspace=world.workspace, roles=asked, **more)[0]


def test_only_the_digest_of_the_link_is_kept(world: World, admin: Person) -> None:
    row, secret = invite_person(
        person=admin, workspace=world.workspace, roles=[{"role": "viewer", "scope": ""}]
    )
    assert row.digest == invitation_digest(secret)
    stored = "".join(WorkspaceReceipt.objects.values_list("body", flat=True)) + row.roles
    assert secret not in stored
    assert timedelta(days=6) < row.expires_at - now() <= timedelta(days=7)


def test_somebody_new_comes_in_with_the_roles_it_names(world: World, admin: Person) -> None:
    done = join_by_invitation(
        invitation=invited(world, admin, "engineer", "auditor"), username="joan", password=GOOD
    )
    assert roles_of(done.person, world.workspace) == {"engineer", "auditor"}
    assert done.person.check_password(GOOD)
    kinds = list(WorkspaceReceipt.objects.order_by("seq").values_list("kind", flat=True))[-5:]
    assert kinds == [
        "person_invited",
        "person_joined",
        "role_granted",
        "role_granted",
        "invitation_ended",
    ]
    assert verify_workspace(world.workspace).ok


def test_it_lets_in_one_person(world: World, admin: Person) -> None:
    row = invited(world, admin)
    accept_invitation(person=world.linus, invitation=row)
    with pytest.raises(Refused, match="invitation_used"):
        join_by_invitation(invitation=row, username="joan", password=GOOD)
    assert not Person.objects.filter(username="joan").exists()
    assert InvitationEnd.objects.get(invitation=row).person == world.linus


def test_it_is_over_when_its_time_is(world: World, admin: Person) -> None:
    row = invited(world, admin, days=1)
    with time_machine.travel(row.expires_at), pytest.raises(Refused, match="invitation_expired"):
        accept_invitation(person=world.linus, invitation=row)


def test_it_can_be_taken_back_once(world: World, admin: Person) -> None:
    row = invited(world, admin)
    withdraw_invitation(person=admin, invitation=row)
    with pytest.raises(Refused, match="invitation_withdrawn"):
        accept_invitation(person=world.linus, invitation=row)
    with pytest.raises(Refused, match="invitation_ended"):
        withdraw_invitation(person=admin, invitation=row)


def test_it_is_worth_nothing_when_its_inviter_may_invite_no_longer(world: World, admin: Person) -> None:
    row = invited(world, admin)
    grant_role(person=world.grace, workspace=world.workspace, role=Role.POLICY_ADMIN)
    grant_role(person=admin, workspace=world.workspace, role=Role.POLICY_ADMIN, held=False)
    with pytest.raises(Refused, match="inviter_left"):
        accept_invitation(person=world.linus, invitation=row)


def test_roles_of_authority_are_proposed_in_the_inviters_name(world: World, admin: Person) -> None:
    grant_role(person=world.grace, workspace=world.workspace, role=Role.POLICY_ADMIN)
    done = accept_invitation(person=world.linus, invitation=invited(world, admin, "approver"))
    assert roles_of(world.linus, world.workspace) == {"viewer"}
    assert done.proposed == ("approver",)
    change = PolicyChange.objects.latest("id")
    assert change.author == admin
    assert change.needed == 1


def test_only_a_policy_admin_invites(world: World, admin: Person) -> None:
    with pytest.raises(Refused, match="role:policy_admin"):
        invited(world, world.ada)
    row = invited(world, admin)
    with pytest.raises(Refused, match="role:policy_admin"):
        withdraw_invitation(person=world.ada, invitation=row)


@pytest.mark.parametrize(
    ("name", "password", "rule"),
    [
        ("", GOOD, "name: pattern"),
        ("two words", GOOD, "name: pattern"),
        ("x" * 151, GOOD, "name: pattern"),
        ("joan", "12345678", "weak_password"),
        ("joan-of-the-harbour", "joan-of-the-harbour", "weak_password"),
    ],
)
def test_a_name_or_password_that_will_not_do_uses_nothing_up(
    world: World, admin: Person, name: str, password: str, rule: str
) -> None:
    row = invited(world, admin)
    with pytest.raises(Refused, match=rule):
        join_by_invitation(invitation=row, username=name, password=password)
    assert not InvitationEnd.objects.exists()


def test_a_taken_name_is_taken_in_any_letters(world: World, admin: Person) -> None:
    with pytest.raises(Refused, match="name_taken"):
        join_by_invitation(
            invitation=invited(world, admin), username=world.ada.username.upper(), password=GOOD
        )


def test_a_weak_password_says_in_sentences_what_is_wrong(world: World, admin: Person) -> None:
    with pytest.raises(PasswordRefused) as refused:
        join_by_invitation(invitation=invited(world, admin), username="joan", password="12345678")
    assert any("too common" in sentence for sentence in refused.value.sentences)


@pytest.mark.parametrize(
    ("roles", "days", "rule"),
    [
        ([], 7, "role: required"),
        (["emperor"], 7, "enum"),
        (["viewer"], 8, "days"),
        (["viewer"], None, "days"),
    ],
)
def test_an_invitation_that_says_nothing_is_not_made(
    world: World, admin: Person, roles: list[str], days: int | None, rule: str
) -> None:
    with pytest.raises(Refused, match=rule):
        invite_person(
            person=admin,
            workspace=world.workspace,
            roles=[{"role": role, "scope": ""} for role in roles],
            days=days,
        )
    assert not Invitation.objects.exists()
