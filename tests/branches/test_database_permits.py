"""No permit and no redemption past the grant: the database refuses the row by the rule's name."""

import json
from typing import Any

import pytest
import yaml

from branches.commands.admit import grant_role
from branches.commands.issue_permit import issue_permit
from branches.commands.pin_configuration import change_configuration
from branches.commands.propose_change import adopt_policy
from branches.commands.request_approval import request_approval, withdraw_request
from branches.evidence import ids
from branches.models import (
    ApprovalRequest,
    RequestEnd,
    Role,
    Run,
)
from branches.queries.branch_facts import branch_view
from branches.queries.clock import now
from branches.queries.declarations import ExpectedOutcome
from tests.branches.raw_rows import (
    CONFINED,
    LATER,
    NOT_REQUIRED,
    OVER,
    READS_OUTSIDE,
    again,
    granted,
    permit,
    policy,
    redemption,
    refused_by,
    small_branch,
    small_world,
    standing,
    vote,
)
from tests.branches.test_approval_queue import ready
from tests.branches.test_branch_life import approve
from tests.builders import World, declaration, make_world, one_approver
from tests.plugins import FakeWorld


@pytest.fixture
def asked(world: World, outside: FakeWorld) -> ApprovalRequest:
    """A request of class C4 by Ada, which nobody has decided."""
    return request_approval(person=world.ada, branch=ready(world, outside))


def test_no_permit_says_that_more_approved_than_did(world: World, outside: FakeWorld) -> None:
    request = approve(world, ready(world, outside))
    with refused_by("too_few_approvals"):
        permit(world, request.branch, 2, request.subject_digest)
    assert permit(world, request.branch, 1, request.subject_digest).pk


def test_no_permit_asks_for_fewer_people_than_were_asked_for(world: World, outside: FakeWorld) -> None:
    classes = yaml.safe_load(one_approver())["classes"]
    classes["C4"]["rules"] = [{"name": "two", "role": "approver", "people": 2}]
    grant_role(person=world.linus, workspace=world.workspace, role=Role.APPROVER)
    adopt_policy(workspace=world.workspace, text=policy("two", classes=classes))
    request = approve(world, ready(world, outside))
    granted(request)
    with refused_by("too_few_approvals"):
        permit(world, request.branch, 1, request.subject_digest)
    vote(request, world.linus)
    assert permit(world, request.branch, 2, request.subject_digest).pk


def test_no_permit_goes_out_before_its_grant(world: World, asked: ApprovalRequest) -> None:
    vote(asked, world.grace)
    with refused_by("no_grant"):
        permit(world, asked.branch, 1, asked.subject_digest)


def test_no_permit_lives_on_the_grant_of_an_older_request(world: World, outside: FakeWorld) -> None:
    request = approve(world, ready(world, outside))
    again(request)
    with refused_by("no_grant"):
        permit(world, request.branch, 1, request.subject_digest)


def test_an_older_request_that_came_to_nothing_is_in_nobodys_way(
    world: World, asked: ApprovalRequest
) -> None:
    withdraw_request(person=world.ada, request=asked)
    approve(world, asked.branch)
    assert issue_permit(person=world.ada, branch=asked.branch).approvals_needed == 1


@pytest.mark.parametrize("how", ["ended", "other_digest"])
def test_no_permit_lives_on_a_grant_that_is_over_or_of_something_else(
    db: None, outside: FakeWorld, how: str
) -> None:
    world = small_world(CONFINED, pre_authorised_until=OVER)
    request = approve(world, small_branch(world))
    if how == "ended":
        RequestEnd.objects.create(request=request, word="superseded", at=now())
    digest = "sha256:other" if how == "other_digest" else request.subject_digest
    with refused_by("no_grant"):
        permit(world, request.branch, 0, digest)


def test_a_request_of_a_confined_branch_is_not_passed_over(db: None, outside: FakeWorld) -> None:
    world = small_world(CONFINED, pre_authorised_until=OVER)
    request = request_approval(person=world.ada, branch=small_branch(world))
    assert request.change_class == "C1"
    with refused_by("no_grant"):
        permit(world, request.branch, 0, request.subject_digest)


def test_a_policy_that_no_longer_asks_lets_a_confined_branch_go(db: None, outside: FakeWorld) -> None:
    world = small_world(CONFINED, pre_authorised_until=OVER)
    request = request_approval(person=world.ada, branch=small_branch(world))
    adopt_policy(workspace=world.workspace, text=policy("again", pre_authorised_until=LATER))
    assert issue_permit(person=world.ada, branch=request.branch).approvals_needed == 0


def test_a_confined_branch_that_nobody_asked_for_needs_nobody(db: None, outside: FakeWorld) -> None:
    world = small_world(CONFINED)
    branch = small_branch(world)
    assert permit(world, branch, 0).pk
    assert '"required": true' not in permit(world, small_branch(world), 0).facts
    assert issue_permit(person=world.ada, branch=small_branch(world)).approvals_needed == 0


def test_a_branch_that_is_not_confined_needs_somebody(world: World, outside: FakeWorld) -> None:
    branch = ready(world, outside)
    with refused_by("not_confined"):
        permit(world, branch, 0)


@pytest.mark.parametrize("tools", [READS_OUTSIDE, declaration()["tools"]])
def test_a_tool_that_reaches_outside_confines_nothing(
    db: None, outside: FakeWorld, tools: dict[str, Any]
) -> None:
    world = small_world(tools)
    with refused_by("not_confined"):
        permit(world, small_branch(world), 0)


def test_a_tool_that_reaches_a_declared_fixture_alone_confines_its_branch(
    db: None, outside: FakeWorld
) -> None:
    places = {"sandbox": {"query": "fake", "target": "mail", "fixture": True}}
    tools = {"write": {"destination": "sandbox", "effect_class": "irreversible", "key_fields": []}}
    world = make_world(declared=declaration(tools=tools, destinations=places))
    assert issue_permit(person=world.ada, branch=small_branch(world)).approvals_needed == 0


def test_a_branch_without_a_declaration_needs_somebody(db: None, outside: FakeWorld) -> None:
    world = small_world(CONFINED)
    beside = small_branch(world)
    unknown = Run.objects.create(
        uid=ids.mint("br"),
        workspace=beside.workspace,
        recorder=beside.recorder,
        root=beside.root,
        parent=beside.parent,
        number=9,
        made_at=now(),
    )
    with refused_by("not_confined"):
        permit(world, unknown, 0)


@pytest.mark.parametrize("raised", ["facts", "kinds", "outcome", "configuration"])
def test_what_raises_the_class_of_a_branch_needs_somebody(db: None, outside: FakeWorld, raised: str) -> None:
    world = small_world(CONFINED)
    more: dict[str, Any] = {
        "kinds": {"kinds": ("budget",)},
        "outcome": {"outcome": ExpectedOutcome("letter-sent", "fake", "mail")},
    }.get(raised, {})
    branch = small_branch(world, **more)
    facts = NOT_REQUIRED
    if raised == "configuration":
        change_configuration(
            person=world.ada, branch=branch, agent="publisher", key="prompt", value="be longer"
        )
    elif raised == "facts":
        # As the product writes them where somebody's word is needed.
        adopt_policy(workspace=world.workspace, text=policy("over", pre_authorised_until=OVER))
        facts = json.dumps(branch_view(branch).facts.as_json(), sort_keys=True)
    with refused_by("not_confined"):
        permit(world, branch, 0, facts=facts)


def test_no_permit_is_for_somebody_who_is_no_engineer_here(world: World, outside: FakeWorld) -> None:
    request = approve(world, ready(world, outside))
    with refused_by("no_engineer"):
        permit(world, request.branch, 1, request.subject_digest, operator=world.grace)


def test_no_permit_is_redeemed_whose_operator_is_an_engineer_no_more(
    world: World, outside: FakeWorld
) -> None:
    request = approve(world, ready(world, outside))
    made = issue_permit(person=world.ada, branch=request.branch)
    grant_role(person=world.ada, workspace=world.workspace, role=Role.ENGINEER, held=False)
    with refused_by("operator_left"):
        redemption(made)


def test_no_permit_is_redeemed_after_its_time(world: World, outside: FakeWorld) -> None:
    request = approve(world, ready(world, outside))
    made = issue_permit(person=world.ada, branch=request.branch)
    with refused_by("permit_over"):
        redemption(made, made.expires_at)


def test_no_permit_is_redeemed_against_a_rejection(world: World, outside: FakeWorld) -> None:
    request = approve(world, ready(world, outside))
    made = issue_permit(person=world.ada, branch=request.branch)
    standing(world, world.linus)
    vote(request, world.linus, "rejected")
    with refused_by("vetoed"):
        redemption(made)
