"""Who has to agree to a change of class CP: nobody clears their own way, and nobody is asked for nothing."""

from datetime import timedelta
from typing import Any

import pytest
import yaml
from django.db import connection
from django.test.utils import CaptureQueriesContext

from branches.commands.admit import grant_role
from branches.commands.apply_change import apply_changes
from branches.commands.change_role import give_role, withdraw_role
from branches.commands.decide_change import decide_change
from branches.commands.propose_change import adopt_policy, propose_policy
from branches.commands.refusal import Refused
from branches.commands.remove_person import remove_person
from branches.models import Person, PolicyChange, Role
from branches.queries import clock
from branches.queries.deciders import REMEMBERED
from branches.queries.policies import policy_of
from branches.queries.policy_page import policy_page
from branches.queries.standings import roles_of
from branches.rules.change_class import ChangeClass
from tests.builders import World, one_approver


def changed(version: str = "next", **members: Any) -> str:
    return yaml.safe_dump({**yaml.safe_load(one_approver()), "policy": version, **members}, sort_keys=False)


def with_rules(rules: list[dict[str, Any]], **more: Any) -> str:
    classes = yaml.safe_load(one_approver())["classes"]
    classes["CP"] |= {"rules": rules, **more}
    return changed(classes=classes)


def admins(world: World, *people: Person) -> None:
    for person in people:
        grant_role(person=person, workspace=world.workspace, role=Role.POLICY_ADMIN)


def was_adopted(change: PolicyChange) -> bool:
    row = PolicyChange.objects.get(pk=change.pk)
    return hasattr(row, "end") and row.end.word == "adopted"


def at(monkeypatch: pytest.MonkeyPatch, later: timedelta) -> None:
    start = clock.now()
    monkeypatch.setattr(clock.timezone, "now", lambda: start + later)


def test_whoever_takes_the_others_roles_still_needs_them_for_a_week(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    admins(world, world.rosa, world.linus)
    remove_person(person=world.rosa, workspace=world.workspace, subject=world.grace)
    withdraw_role(person=world.rosa, workspace=world.workspace, subject=world.linus, role=Role.POLICY_ADMIN)
    with pytest.raises(Refused, match="deciders_left_lately"):
        give_role(person=world.rosa, workspace=world.workspace, subject=world.rosa, role=Role.APPROVER)
    assert PolicyChange.objects.filter(author=world.rosa).count() == 0
    at(monkeypatch, REMEMBERED + timedelta(seconds=1))
    change = give_role(person=world.rosa, workspace=world.workspace, subject=world.rosa, role=Role.APPROVER)
    assert change is not None
    assert was_adopted(change)


def test_whoever_left_without_ever_being_asked_here_is_not_counted(world: World) -> None:
    admins(world, world.rosa, world.linus)
    grant_role(person=world.grace, workspace=world.workspace, role=Role.APPROVER, held=False)
    two = [{"name": "two", "role": "approver", "people": 2}]
    adopt_policy(workspace=world.workspace, text=with_rules(two))
    change = give_role(person=world.rosa, workspace=world.workspace, subject=world.ada, role=Role.APPROVER)
    assert change is not None
    assert change.needed == 1
    decide_change(person=world.linus, change=change, word="approved", digest=change.digest)
    assert was_adopted(change)


def test_a_vote_of_somebody_who_lost_the_role_counts_no_more(world: World) -> None:
    adopt_policy(
        workspace=world.workspace, text=with_rules([{"name": "two", "role": "approver", "people": 2}])
    )
    admins(world, world.rosa, world.linus, world.ada)
    change = propose_policy(person=world.rosa, workspace=world.workspace, text=changed("later"))
    decide_change(person=world.linus, change=change, word="approved", digest=change.digest)
    grant_role(person=world.linus, workspace=world.workspace, role=Role.POLICY_ADMIN, held=False)
    decide_change(person=world.ada, change=change, word="approved", digest=change.digest)
    assert not was_adopted(change)


def test_what_somebody_proposed_is_over_when_they_are_no_policy_admin(world: World) -> None:
    admins(world, world.rosa, world.linus)
    change = propose_policy(person=world.rosa, workspace=world.workspace, text=changed())
    grant_role(person=world.rosa, workspace=world.workspace, role=Role.POLICY_ADMIN, held=False)
    with pytest.raises(Refused, match="author_left"):
        decide_change(person=world.linus, change=change, word="approved", digest=change.digest)


def test_a_policy_that_is_closed_is_changed_by_the_operator_alone(world: World) -> None:
    adopt_policy(workspace=world.workspace, text=with_rules([], closed=True))
    admins(world, world.rosa)
    with pytest.raises(Refused, match="class_closed:CP"):
        propose_policy(person=world.rosa, workspace=world.workspace, text=changed("later"))
    assert was_adopted(adopt_policy(workspace=world.workspace, text=changed("later")))


def test_a_policy_without_a_rule_for_itself_is_refused(world: World) -> None:
    admins(world, world.rosa)
    with pytest.raises(Refused) as refused:
        propose_policy(person=world.rosa, workspace=world.workspace, text=with_rules([]))
    assert (refused.value.field, refused.value.rule) == ("classes.CP.rules", "minItems")


def test_where_only_one_is_policy_admin_the_approvers_of_branches_have_to_agree(world: World) -> None:
    admins(world, world.rosa)
    change = propose_policy(person=world.rosa, workspace=world.workspace, text=changed())
    assert (change.needed, was_adopted(change)) == (1, False)
    decide_change(person=world.grace, change=change, word="approved", digest=change.digest)
    assert was_adopted(change)


def test_a_role_of_the_only_other_one_needs_their_own_word_at_least(world: World) -> None:
    admins(world, world.rosa)
    change = give_role(
        person=world.rosa, workspace=world.workspace, subject=world.grace, role=Role.POLICY_ADMIN
    )
    assert change is not None
    assert Role.POLICY_ADMIN not in roles_of(world.grace, world.workspace)
    decide_change(person=world.grace, change=change, word="approved", digest=change.digest)
    assert Role.POLICY_ADMIN in roles_of(world.grace, world.workspace)


def test_a_role_that_was_agreed_is_not_given_to_whoever_was_removed_meanwhile(world: World) -> None:
    admins(world, world.rosa)
    grant_role(person=world.linus, workspace=world.workspace, role=Role.VIEWER)
    change = give_role(person=world.rosa, workspace=world.workspace, subject=world.linus, role=Role.APPROVER)
    assert change is not None
    remove_person(person=world.rosa, workspace=world.workspace, subject=world.linus)
    decide_change(person=world.grace, change=change, word="approved", digest=change.digest)
    apply_changes()
    assert roles_of(world.linus, world.workspace) == frozenset()


def test_a_confined_branch_needs_what_its_own_and_the_next_class_ask_for_when_its_date_is_over(
    world: World,
) -> None:
    classes = yaml.safe_load(one_approver())["classes"]
    classes["C2"] |= {"rules": [], "closed": True}
    over = "2020-01-01T00:00:00Z"
    adopt_policy(workspace=world.workspace, text=changed(classes=classes, pre_authorised_until=over))
    assert policy_of(world.workspace).of(ChangeClass.C1, clock.now()).is_closed


def test_somebody_who_is_switched_off_holds_no_role(world: World) -> None:
    Person.objects.filter(pk=world.ada.pk).update(is_active=False)
    assert roles_of(Person.objects.get(pk=world.ada.pk), world.workspace) == frozenset()


def test_what_the_page_of_policies_asks_does_not_grow_with_what_is_open(world: World) -> None:
    admins(world, world.rosa, world.linus)
    # A declaration is read once a process.
    policy_page(world.workspace, world.linus)
    queries = []
    for number in (1, 12):
        for each in range(number):
            joan = Person.objects.create_user(f"joan-{number}-{each}", password="correct horse battery")
            grant_role(person=joan, workspace=world.workspace, role=Role.ENGINEER)
            give_role(person=world.rosa, workspace=world.workspace, subject=joan, role=Role.APPROVER)
        with CaptureQueriesContext(connection) as asked:
            page = policy_page(world.workspace, world.linus)
        queries.append(len(asked))
    assert len(page.open_changes) == 13
    assert all(row.may_decide for row in page.open_changes)
    assert page.open_changes[0].title.startswith("joan-12-11 as approver")
    assert queries[0] == queries[1]
