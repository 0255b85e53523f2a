"""Which requests are open, what the inbox says of them, and how many people they take."""

import pytest
import yaml

from branches.commands.admit import grant_role
from branches.commands.ask_destination import ask_destination
from branches.commands.decide import decide, revoke_authority
from branches.commands.expire_requests import expire_requests
from branches.commands.fork_branch import fork_branch
from branches.commands.issue_permit import issue_permit
from branches.commands.measure_state import measure_state
from branches.commands.propose_change import adopt_policy
from branches.commands.publish_workflow import publish_workflow
from branches.commands.request_approval import request_approval
from branches.evidence import ids
from branches.models import ApprovalRequest, Person, Role, Run
from branches.ports import Answer
from branches.queries import clock
from branches.queries.authority import UNDELIVERED
from branches.queries.branch_facts import branch_view
from branches.queries.inbox import inbox, waiting_for
from branches.queries.run_list import run_list
from tests.branches.test_branch_life import fork, settle
from tests.builders import (
    World,
    checkpoint,
    closed,
    declaration,
    failed_run,
    one_approver,
    run_started,
    stopped,
)
from tests.plugins import FakeWorld
from tests.words import reconcile


def policy_with(**rules: int) -> str:
    """Return a policy whose class C4 takes so many people of each of these roles."""
    document = yaml.safe_load(one_approver())
    document["classes"]["C4"]["rules"] = [
        {"name": role, "role": role, "people": people} for role, people in rules.items()
    ]
    return yaml.safe_dump({**document, "policy": "other"}, sort_keys=False)


def approve(person: Person, request: ApprovalRequest) -> None:
    decide(
        person=person,
        request=request,
        word="approved",
        reason="reviewed_delta",
        digest=request.subject_digest,
    )


def open_in_list(world: World, run: Run) -> int:
    (row,) = [
        row
        for row in run_list(world.workspace, chosen="all", before=None, find="").rows
        if row.run.pk == run.pk
    ]
    return row.open_requests


@pytest.mark.parametrize(("decision", "repeated"), [("skip", 0), ("repeat", 1)])
def test_the_inbox_says_what_cannot_be_undone_and_what_of_it_is_done_again(
    world: World, outside: FakeWorld, decision: str, repeated: int
) -> None:
    branch = fork(world, failed_run(world))
    outside.answers = {"tickets": Answer.PRESENT, "mail": Answer.PRESENT}
    for key in ("agent_memory", "browser"):
        measure_state(branch=branch, key=key)
    for name in ("ticket", "mail"):
        ask_destination(branch=branch, operation_key=world.operation(name))
    reconcile(person=world.ada, branch=branch, operation_key=world.operation("ticket"))
    reconcile(person=world.ada, branch=branch, operation_key=world.operation("mail"), decision=decision)
    request_approval(person=world.ada, branch=branch)
    (row,) = inbox(world.grace, world.workspace)
    assert (row.effects, row.irreversible, row.repeated) == (2, 1, repeated)


def test_a_request_approved_in_part_is_open_until_the_last_word(world: World, outside: FakeWorld) -> None:
    adopt_policy(workspace=world.workspace, text=policy_with(approver=2))
    grant_role(person=world.rosa, workspace=world.workspace, role=Role.APPROVER)
    run = failed_run(world)
    branch = fork(world, run)
    settle(world, branch, outside)
    request = request_approval(person=world.ada, branch=branch)
    seen = []
    for person in (world.grace, world.rosa):
        seen.append((open_in_list(world, run), waiting_for(person, world.workspace)))
        approve(person, request)
    assert seen == [(1, 1), (1, 1)]
    assert open_in_list(world, run) == 0
    assert inbox(world.linus, world.workspace) == []


def test_what_was_rejected_or_taken_back_is_not_open_and_never_expires(
    world: World, outside: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = failed_run(world)
    requests = []
    for _ in range(2):
        branch = fork(world, run)
        settle(world, branch, outside)
        requests.append(request_approval(person=world.ada, branch=branch))
    rejected, revoked = requests
    assert open_in_list(world, run) == 2
    decide(
        person=world.grace,
        request=rejected,
        word="rejected",
        reason="too_risky",
        digest=rejected.subject_digest,
    )
    revoke_authority(person=world.grace, branch=revoked.branch, reason="too_risky")
    assert open_in_list(world, run) == 0
    later = clock.now() + 2 * UNDELIVERED
    monkeypatch.setattr(clock.timezone, "now", lambda: later)
    assert expire_requests() == []


def test_owners_of_destinations_that_a_branch_does_not_reach_are_not_counted(
    world: World, outside: FakeWorld
) -> None:
    adopt_policy(workspace=world.workspace, text=policy_with(approver=1, destination_owner=2))
    tools = {"look_up": {"destination": None, "effect_class": "read", "key_fields": []}}
    world.workflow = publish_workflow(
        workspace=world.workspace,
        publisher=world.workspace.uid,
        declaration=declaration(version="2.0.0", tools=tools),
    )
    uid = ids.mint("run")
    report = world.ingest(
        run_started(world, uid),
        checkpoint(world, uid, "c1"),
        stopped(world, uid),
        closed(world, uid),
    )
    assert not report.refused
    branch = fork_branch(
        person=world.ada,
        parent=Run.objects.get(uid=uid),
        checkpoint=world.checkpoint("c1"),
        reason_code="false_success",
        edit_class="add_detail",
        hypothesis="the brief lacks a section",
        kinds=["destructive"],
    )
    for key in ("agent_memory", "browser"):
        measure_state(branch=branch, key=key)
    view = branch_view(branch)
    assert (str(view.change_class), view.asked.destinations, view.asked.people) == ("C4", (), 1)
    approve(world.grace, request_approval(person=world.ada, branch=branch))
    assert issue_permit(person=world.ada, branch=branch).approvals_needed == 1
