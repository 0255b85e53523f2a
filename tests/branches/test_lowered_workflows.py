"""A version that asks less for than what is published is a change of class CP: others agree to it first."""

import json
from datetime import timedelta
from typing import Any

import pytest
import yaml

from branches.commands.admit import grant_role
from branches.commands.apply_change import apply_changes
from branches.commands.change_role import give_role
from branches.commands.connect import declare_workflow
from branches.commands.decide_change import decide_change
from branches.commands.propose_change import adopt_policy
from branches.commands.publish_workflow import publish_workflow
from branches.commands.refusal import Refused
from branches.commands.request_approval import request_approval
from branches.models import PolicyChange, PolicyVote, RequestEnd, Role, Workflow, WorkspaceReceipt
from branches.queries import clock
from branches.queries.branch_facts import branch_view
from branches.queries.declarations import read_declaration
from branches.queries.lowering import lowered_here
from branches.queries.policy_page import policy_page
from branches.queries.standings import roles_of
from tests.branches.raw_rows import READS_OUTSIDE, small_branch, small_world
from tests.branches.test_approval_queue import ready
from tests.builders import World, declaration, one_approver
from tests.plugins import FakeWorld
from tests.web.cast import signed_in


def lower(version: str = "2.0.0") -> dict[str, Any]:
    whole = declaration(version=version)
    tools = {**whole["tools"], "send_mail": {**whole["tools"]["send_mail"], "effect_class": "reversible"}}
    return {**whole, "tools": tools}


def declare(world: World, declared: dict[str, Any]) -> PolicyChange:
    done = declare_workflow(person=world.ada, workspace=world.workspace, text=yaml.safe_dump(declared))
    assert done.workflow is None
    assert done.change is not None
    return done.change


def agree(world: World, change: PolicyChange) -> PolicyVote:
    return decide_change(person=world.grace, change=change, word="approved", digest=change.digest)


def versions(world: World) -> list[str]:
    return list(Workflow.objects.filter(workspace=world.workspace).values_list("version", flat=True))


def test_no_machine_lowers_what_is_published(world: World) -> None:
    for publisher in (world.recorder.uid, world.recorder.token.uid, world.ada.uid):
        with pytest.raises(Refused) as refused:
            publish_workflow(workspace=world.workspace, publisher=publisher, declaration=lower())
        assert (refused.value.rule, refused.value.field) == ("class:CP", "tools.send_mail.effect_class")
    assert versions(world) == ["1.0.0"]


def test_a_version_that_asks_as_much_is_published_at_once_and_is_on_the_workspaces_chain(
    world: World,
) -> None:
    done = declare_workflow(
        person=world.ada, workspace=world.workspace, text=yaml.safe_dump(declaration(version="1.1.0"))
    )
    assert done.workflow is not None
    assert done.change is None
    last = WorkspaceReceipt.objects.filter(workspace=world.workspace).order_by("-seq")[0]
    assert (last.kind, last.subject, last.writer) == ("workflow_declared", done.workflow.uid, world.ada.uid)


def test_a_destination_is_one_whichever_workflow_writes_to_it(world: World) -> None:
    whole = declaration(workflow="other")
    mail = {**whole["destinations"]["mail"], "fixture": True}
    declared = {**whole, "destinations": {**whole["destinations"], "mail": mail}}
    with pytest.raises(Refused) as refused:
        publish_workflow(workspace=world.workspace, publisher=world.recorder.token.uid, declaration=declared)
    assert (refused.value.rule, refused.value.field) == ("class:CP", "destinations.mail.fixture")


def test_others_agree_before_it_is_published(world: World) -> None:
    change = declare(world, lower())
    assert (change.sort, change.version, change.needed) == ("workflow", "2.0.0", 1)
    assert versions(world) == ["1.0.0"]
    row = policy_page(world.workspace, world.grace).open_changes[0]
    assert row.may_decide
    assert [(each.field, each.after) for each in row.difference if "effect_class" in each.field] == [
        ("tools.send_mail.effect_class", "reversible")
    ]
    with pytest.raises(Refused, match="own_work"):
        decide_change(person=world.ada, change=change, word="approved", digest=change.digest)
    agree(world, change)
    assert versions(world) == ["1.0.0", "2.0.0"]
    assert Workflow.objects.get(version="2.0.0").publisher == world.ada.uid


def test_it_waits_for_the_policys_delay_once_anybody_asked_for_an_approval(
    world: World, outside: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    request_approval(person=world.ada, branch=ready(world, outside))
    change = declare(world, lower())
    agree(world, change)
    assert (versions(world), apply_changes()) == (["1.0.0"], [])
    later = clock.now() + timedelta(seconds=change.delay_s + 1)
    monkeypatch.setattr(clock.timezone, "now", lambda: later)
    assert apply_changes() == [change.uid]
    assert versions(world) == ["1.0.0", "2.0.0"]
    assert apply_changes() == []


def test_what_was_rejected_is_not_published(world: World) -> None:
    change = declare(world, lower())
    decide_change(person=world.grace, change=change, word="rejected", digest=change.digest)
    assert (versions(world), apply_changes()) == (["1.0.0"], [])


def test_nobody_agrees_to_what_an_engineer_proposed_who_is_none_any_more(world: World) -> None:
    change = declare(world, lower())
    grant_role(person=world.ada, workspace=world.workspace, role=Role.ENGINEER, held=False)
    with pytest.raises(Refused, match="author_left"):
        agree(world, change)


def ended(change: PolicyChange) -> list[str]:
    rows = WorkspaceReceipt.objects.filter(kind="change_ended", subject=change.uid).order_by("seq")
    return [json.loads(row.body)["body"]["end"] for row in rows]


def test_other_bytes_that_were_published_meanwhile_under_its_version_stay_and_it_is_said(
    world: World,
) -> None:
    change = declare(world, lower())
    publish_workflow(
        workspace=world.workspace,
        publisher=world.recorder.token.uid,
        declaration=declaration(version="2.0.0"),
    )
    before = Workflow.objects.get(version="2.0.0").digest
    agree(world, change)
    assert Workflow.objects.get(version="2.0.0").digest == before
    assert ended(change) == ["adopted", "superseded"]
    assert policy_page(world.workspace, world.ada).ended[0].came_to_nothing
    assert "came to nothing" in signed_in(world.ada).get("/policies/").content.decode()


def test_what_it_lowers_when_its_time_comes_has_to_be_what_was_agreed_to(
    world: World, outside: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    request_approval(person=world.ada, branch=ready(world, outside))
    change = declare(world, lower())
    agree(world, change)
    whole = declaration(version="3.0.0")
    refund = {"destination": "mail", "effect_class": "irreversible", "key_fields": []}
    publish_workflow(
        workspace=world.workspace,
        publisher=world.recorder.token.uid,
        declaration={**whole, "tools": {**whole["tools"], "refund": refund}},
    )
    later = clock.now() + timedelta(seconds=change.delay_s + 1)
    monkeypatch.setattr(clock.timezone, "now", lambda: later)
    assert apply_changes() == []
    assert versions(world) == ["1.0.0", "3.0.0"]
    assert ended(change) == ["adopted", "superseded"]


def test_a_run_of_an_older_version_is_judged_by_what_is_known_of_its_tools_by_now(
    db: None, outside: FakeWorld, django_capture_on_commit_callbacks: Any
) -> None:
    world = small_world(READS_OUTSIDE)
    branch = small_branch(world)
    request = request_approval(person=world.ada, branch=branch)
    assert request.change_class == "C2"
    wipe = {"destination": "mail", "effect_class": "irreversible", "key_fields": []}
    worse = {"look_up": {**READS_OUTSIDE["look_up"], "effect_class": "reversible"}, "wipe": wipe}
    with django_capture_on_commit_callbacks(execute=True):
        publish_workflow(
            workspace=world.workspace,
            publisher=world.recorder.token.uid,
            declaration=declaration(version="2.0.0", tools=worse),
        )
    view = branch_view(branch)
    assert view.change_class == "C3"
    assert [each.subject for each in view.class_verdict.because] == ["look_up"]
    assert RequestEnd.objects.get(request=request).word == "superseded"


def test_a_place_that_is_declared_no_more_is_still_known(world: World) -> None:
    whole = declaration(version="1.1.0", tools={})
    spare = {"query": "fake", "target": "spare"}
    publish_workflow(
        workspace=world.workspace,
        publisher=world.workspace.uid,
        declaration={**whole, "destinations": {**whole["destinations"], "spare": spare}},
    )
    publish_workflow(
        workspace=world.workspace,
        publisher=world.recorder.token.uid,
        declaration=declaration(version="1.2.0", tools={}),
    )
    accept = {"answers": ["absent"], "until": "2099-01-01T00:00:00Z"}
    again = {**whole["destinations"], "again": {**spare, "accept": accept}}
    with pytest.raises(Refused) as refused:
        publish_workflow(
            workspace=world.workspace,
            publisher=world.recorder.token.uid,
            declaration={**declaration(version="1.3.0", tools={}), "destinations": again},
        )
    assert (refused.value.rule, refused.value.field) == ("class:CP", "destinations.again.accept")


def test_another_workflow_does_not_confine_the_tools_of_this_one(world: World) -> None:
    sand = {"query": "fake", "target": "sand", "fixture": True}
    tools = {name: {**each, "destination": "sand"} for name, each in declaration()["tools"].items()}
    with pytest.raises(Refused) as refused:
        publish_workflow(
            workspace=world.workspace,
            publisher=world.recorder.token.uid,
            declaration=declaration(workflow="desk2", tools=tools, destinations={"sand": sand}),
        )
    assert (refused.value.rule, refused.value.field) == ("class:CP", "tools.create_ticket.destination")


def test_what_a_publication_asks_the_database_does_not_grow_with_the_versions(
    world: World, django_assert_num_queries: Any
) -> None:
    declared = read_declaration(declaration(version="9.0.0"), uid="", digest="")
    for number in range(12):
        publish_workflow(
            workspace=world.workspace,
            publisher=world.recorder.token.uid,
            declaration=declaration(version=f"1.{number + 1}.0"),
        )
    with django_assert_num_queries(1):
        assert lowered_here(world.workspace, declared) == ()


def test_voters_are_told_in_what_it_asks_less_and_than_which_workflow(world: World) -> None:
    whole = declaration(workflow="other")
    mail = {**whole["destinations"]["mail"], "fixture": True}
    change = declare(world, {**whole, "destinations": {**whole["destinations"], "mail": mail}})
    page = signed_in(world.grace).get("/policies/").content.decode()
    assert "<code>destinations.mail.fixture</code> than desk does" in page
    agree(world, change)
    assert Workflow.objects.filter(name="other").exists()


def test_the_operators_own_command_needs_nobody(world: World) -> None:
    row = publish_workflow(workspace=world.workspace, publisher=world.workspace.uid, declaration=lower())
    assert row.version == "2.0.0"


def test_a_reviewer_whose_word_the_policy_asks_for_is_made_by_others(world: World) -> None:
    grant_role(person=world.rosa, workspace=world.workspace, role=Role.POLICY_ADMIN)
    assert give_role(person=world.rosa, workspace=world.workspace, subject=world.ada, role="reviewer") is None
    text = yaml.safe_load(one_approver())
    text["policy"] = "reviewed"
    text["classes"]["C2"]["rules"] = [{"name": "reviewed", "role": "reviewer", "people": 1}]
    text["tests"] = []
    adopt_policy(workspace=world.workspace, text=yaml.safe_dump(text, sort_keys=False))
    change = give_role(person=world.rosa, workspace=world.workspace, subject=world.grace, role="reviewer")
    assert change is not None
    assert "reviewer" not in roles_of(world.grace, world.workspace)
