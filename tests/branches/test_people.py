"""Who belongs to a workspace: roles given and taken, groups, leaving, and what the chain says of it."""

from datetime import timedelta

import pytest

from branches.commands.admit import grant_role
from branches.commands.append_receipt import Actor
from branches.commands.change_group import add_group, change_membership
from branches.commands.change_role import give_role, withdraw_role
from branches.commands.decide_change import decide_change
from branches.commands.groups import make_group, set_membership
from branches.commands.refusal import Refused
from branches.commands.remove_person import remove_person
from branches.models import Person, Role, RoleGrant, WorkspaceReceipt
from branches.queries.clock import now
from branches.queries.people_page import people_page
from branches.queries.standings import roles_of, roster_of, standings_of
from branches.queries.workspace_chain import verify_workspace
from branches.rules.quorum import Standing
from tests.builders import World


@pytest.fixture
def admin(world: World) -> Person:
    grant_role(person=world.rosa, workspace=world.workspace, role=Role.POLICY_ADMIN)
    return world.rosa


def kinds(world: World, since: int = 0) -> list[str]:
    rows = WorkspaceReceipt.objects.filter(workspace=world.workspace, seq__gt=since).order_by("seq")
    return list(rows.values_list("kind", flat=True))


def length(world: World) -> int:
    return WorkspaceReceipt.objects.filter(workspace=world.workspace).count()


def test_a_role_without_authority_is_given_and_taken_at_once(world: World, admin: Person) -> None:
    before = length(world)
    give_role(person=admin, workspace=world.workspace, subject=world.ada, role="auditor")
    assert Role.AUDITOR in roles_of(world.ada, world.workspace)
    withdraw_role(person=admin, workspace=world.workspace, subject=world.ada, role="auditor")
    assert Role.AUDITOR not in roles_of(world.ada, world.workspace)
    assert kinds(world, before) == ["role_granted", "role_withdrawn"]
    newest = WorkspaceReceipt.objects.filter(workspace=world.workspace).latest("seq")
    assert newest.writer == admin.uid
    assert newest.subject == world.ada.uid


def test_a_role_of_authority_waits_for_the_others(world: World, admin: Person) -> None:
    grant_role(person=world.grace, workspace=world.workspace, role=Role.POLICY_ADMIN)
    change = give_role(
        person=admin, workspace=world.workspace, subject=world.ada, role="approver", scope="C3"
    )
    assert change is not None
    assert Role.APPROVER not in roles_of(world.ada, world.workspace)
    decide_change(person=world.grace, change=change, word="approved", digest=change.digest)
    assert Standing("approver", "C3") in standings_of(world.ada, world.workspace)
    given = RoleGrant.objects.filter(person=world.ada, role="approver").latest("id")
    assert given.until is not None
    assert given.until - now() < timedelta(days=180)


def test_a_role_lasts_no_longer_than_the_policy_allows(world: World, admin: Person) -> None:
    with pytest.raises(Refused, match="longer_than_policy"):
        give_role(
            person=admin,
            workspace=world.workspace,
            subject=world.ada,
            role="approver",
            until=now() + timedelta(days=181),
        )
    with pytest.raises(Refused, match="in_the_future"):
        give_role(person=admin, workspace=world.workspace, subject=world.ada, role="viewer", until=now())


def test_a_role_that_has_ended_by_itself_can_be_given_again(world: World, admin: Person) -> None:
    grant_role(
        person=world.ada,
        workspace=world.workspace,
        role=Role.VIEWER,
        until=now() - timedelta(seconds=1),
    )
    assert Role.VIEWER not in roles_of(world.ada, world.workspace)
    give_role(
        person=admin,
        workspace=world.workspace,
        subject=world.ada,
        role="viewer",
        until=now() + timedelta(days=3),
    )
    assert Role.VIEWER in roles_of(world.ada, world.workspace)


@pytest.mark.parametrize(
    ("role", "scope", "rule"),
    [
        ("emperor", "", "role: enum"),
        ("approver", "C1", "scope: enum"),
        ("engineer", "C2", "scope: enum"),
        ("destination_owner", "", "destination: required"),
        ("destination_owner", "nowhere", "scope: enum"),
    ],
)
def test_a_role_nobody_can_hold_is_refused(
    world: World, admin: Person, role: str, scope: str, rule: str
) -> None:
    with pytest.raises(Refused, match=rule):
        give_role(person=admin, workspace=world.workspace, subject=world.ada, role=role, scope=scope)


def test_an_owner_is_named_for_a_destination_that_a_workflow_declares(world: World, admin: Person) -> None:
    change = give_role(
        person=admin,
        workspace=world.workspace,
        subject=world.grace,
        role="destination_owner",
        scope="tickets",
    )
    assert change is not None
    # Nobody but whom it is for could agree here: then they have to.
    decide_change(person=world.grace, change=change, word="approved", digest=change.digest)
    assert Standing("destination_owner", "tickets") in standings_of(world.grace, world.workspace)


def test_only_a_policy_admin_changes_who_may_do_what(world: World, admin: Person) -> None:
    for refused in (
        lambda: give_role(person=world.ada, workspace=world.workspace, subject=world.ada, role="reviewer"),
        lambda: withdraw_role(
            person=world.grace, workspace=world.workspace, subject=world.ada, role="engineer"
        ),
        lambda: remove_person(person=world.ada, workspace=world.workspace, subject=world.grace),
        lambda: add_group(person=world.ada, workspace=world.workspace, name="safety"),
    ):
        with pytest.raises(Refused, match="role:policy_admin"):
            refused()


def test_nobody_gives_a_role_to_somebody_who_does_not_belong_here(world: World, admin: Person) -> None:
    with pytest.raises(Refused, match="unknown_here"):
        give_role(person=admin, workspace=world.workspace, subject=world.linus, role="viewer")


def test_somebody_always_stays_policy_admin(world: World, admin: Person) -> None:
    with pytest.raises(Refused, match="last_admin"):
        withdraw_role(person=admin, workspace=world.workspace, subject=admin, role="policy_admin")
    with pytest.raises(Refused, match="last_admin"):
        remove_person(person=admin, workspace=world.workspace, subject=admin)
    grant_role(person=world.grace, workspace=world.workspace, role=Role.POLICY_ADMIN)
    withdraw_role(person=admin, workspace=world.workspace, subject=admin, role="policy_admin")
    assert roles_of(admin, world.workspace) == {"reviewer"}


def test_an_admin_whose_role_ends_or_who_is_switched_off_does_not_count_as_another(
    world: World, admin: Person
) -> None:
    over = now() - timedelta(seconds=1)
    grant_role(person=world.grace, workspace=world.workspace, role=Role.POLICY_ADMIN, until=over)
    grant_role(person=world.ada, workspace=world.workspace, role=Role.POLICY_ADMIN)
    Person.objects.filter(pk=world.ada.pk).update(is_active=False)
    with pytest.raises(Refused, match="last_admin"):
        withdraw_role(person=admin, workspace=world.workspace, subject=admin, role="policy_admin")


def test_whoever_leaves_loses_every_role_and_group_in_one_go(world: World, admin: Person) -> None:
    grant_role(person=world.grace, workspace=world.workspace, role=Role.ENGINEER)
    group = make_group(workspace=world.workspace, name="safety")
    set_membership(group=group, person=world.grace, held=True)
    before = length(world)
    remove_person(person=admin, workspace=world.workspace, subject=world.grace)
    assert world.grace.uid not in roster_of(world.workspace)
    assert kinds(world, before) == ["group_left", "role_withdrawn", "role_withdrawn", "person_left"]
    with pytest.raises(Refused, match="unknown_here"):
        remove_person(person=admin, workspace=world.workspace, subject=world.grace)


def test_a_group_is_joined_and_left_and_named_once(world: World, admin: Person) -> None:
    group = add_group(person=admin, workspace=world.workspace, name="safety")
    with pytest.raises(Refused, match="name_taken"):
        add_group(person=admin, workspace=world.workspace, name="safety")
    with pytest.raises(Refused, match="group: pattern"):
        add_group(person=admin, workspace=world.workspace, name="Two words")
    change = change_membership(person=admin, group=group, subject=world.ada, held=True)
    assert change is not None
    assert roster_of(world.workspace)[world.ada.uid].groups == frozenset()
    decide_change(person=world.grace, change=change, word="approved", digest=change.digest)
    assert roster_of(world.workspace)[world.ada.uid].groups == {group.uid}
    assert change_membership(person=admin, group=group, subject=world.ada, held=True) is None
    change_membership(person=admin, group=group, subject=world.ada, held=False)
    assert roster_of(world.workspace)[world.ada.uid].groups == frozenset()
    with pytest.raises(Refused, match="unknown_here"):
        change_membership(person=admin, group=group, subject=world.linus, held=True)


def test_the_page_names_everybody_with_what_they_hold_now(world: World, admin: Person) -> None:
    grant_role(person=world.grace, workspace=world.workspace, role=Role.APPROVER, scope="C2")
    page = people_page(world.workspace, admin)
    assert [each.person for each in page.members] == [world.ada, world.grace, world.rosa]
    assert [held.words for held in page.members[1].roles] == ["Approver", "Approver of C2"]
    assert [each.is_you for each in page.members] == [False, False, True]
    assert page.destinations == ("mail", "tickets")


def test_the_chain_of_all_that_holds(world: World, admin: Person) -> None:
    give_role(person=admin, workspace=world.workspace, subject=world.ada, role="auditor")
    group = make_group(workspace=world.workspace, name="safety", actor=Actor.person(admin))
    change_membership(person=admin, group=group, subject=world.ada, held=True)
    remove_person(person=admin, workspace=world.workspace, subject=world.ada)
    verdict = verify_workspace(world.workspace)
    assert verdict.ok, verdict
    assert verdict.count == length(world)
