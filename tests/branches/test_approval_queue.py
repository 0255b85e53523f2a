"""The approval queue as it was at any moment, and which drift no workflow may let people accept."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine

from branches.commands.admit import grant_role
from branches.commands.decide import decide, revoke_authority
from branches.commands.edit_content import edit_message
from branches.commands.expire_requests import expire_requests
from branches.commands.measure_state import measure_state
from branches.commands.publish_workflow import publish_workflow
from branches.commands.refusal import Refused
from branches.commands.request_approval import request_approval, withdraw_request
from branches.models import ApprovalRequest, Role, Run
from branches.queries import approval_queue as queries
from branches.queries.approval_queue import approval_queue
from branches.queries.authority import request_ends
from branches.queries.clock import now
from tests.branches.test_branch_life import approve, fork, settle, start
from tests.builders import World, declaration, failed_run, make_world
from tests.plugins import FakeProbe, FakeWorld
from tests.words import acknowledge

START = datetime(2026, 11, 30, 9, 30, tzinfo=UTC)


@pytest.fixture
def clock() -> Iterator[Any]:
    """A clock that stands still until it is told to go on."""
    with time_machine.travel(START, tick=False) as made:
        yield made


def ready(world: World, outside: FakeWorld) -> Run:
    branch = fork(world, failed_run(world))
    settle(world, branch, outside)
    return branch


def asked(world: World, outside: FakeWorld) -> ApprovalRequest:
    return request_approval(person=world.ada, branch=ready(world, outside))


def standings(world: World, as_of: datetime | None = None, **more: Any) -> dict[str, str]:
    found = approval_queue(world.workspace, until=now(), as_of=as_of or now(), **more)
    return {each.request: str(each.state) for each in found.requests}


def states(request: ApprovalRequest, world: World, moments: list[datetime]) -> list[str]:
    return [standings(world, at)[request.uid] for at in moments]


def hour(number: float) -> datetime:
    return START + timedelta(hours=number)


def test_a_request_that_nobody_decides_waits_and_then_expires(
    clock: Any, world: World, outside: FakeWorld
) -> None:
    request = asked(world, outside)
    clock.move_to(hour(9))
    last = request_ends(request)
    assert states(request, world, [START, last, last + timedelta(microseconds=1)]) == [
        *("pending", "pending", "expired")
    ]
    assert expire_requests() == [request.uid]
    assert states(request, world, [START, last, now()]) == ["pending", "pending", "expired"]


def test_an_approval_is_worth_something_for_its_time_and_while_its_giver_may_give_it(
    clock: Any, world: World, outside: FakeWorld
) -> None:
    clock.move_to(hour(1))
    request = approve(world, ready(world, outside))
    clock.move_to(hour(1.5))
    grant_role(person=world.grace, workspace=world.workspace, role=Role.APPROVER, held=False)
    clock.move_to(hour(1.75))
    grant_role(person=world.grace, workspace=world.workspace, role=Role.APPROVER)
    clock.move_to(hour(3))
    assert request.uid not in {
        each.request for each in approval_queue(world.workspace, until=hour(0.9), as_of=now()).requests
    }
    moments = [hour(1), hour(1.4), hour(1.5), hour(1.75), hour(2), hour(2.01)]
    assert states(request, world, moments) == [
        *("approved", "approved", "expired", "approved", "approved", "expired")
    ]


def test_a_rejection_stays_whatever_becomes_of_the_branch(
    clock: Any, world: World, outside: FakeWorld
) -> None:
    request = asked(world, outside)
    clock.move_to(hour(1))
    decide(
        person=world.grace,
        request=request,
        word="rejected",
        reason="too_risky",
        digest=request.subject_digest,
    )
    clock.move_to(hour(2))
    change(world, request.branch)
    assert states(request, world, [START, hour(1), hour(2)]) == ["pending", "rejected", "rejected"]


def test_a_request_can_be_withdrawn_or_superseded(clock: Any, world: World, outside: FakeWorld) -> None:
    back, changed = asked(world, outside), asked(world, outside)
    clock.move_to(hour(1))
    withdraw_request(person=world.ada, request=back)
    change(world, changed.branch)
    assert states(back, world, [START, hour(1)]) == ["pending", "withdrawn"]
    assert states(changed, world, [START, hour(1)]) == ["pending", "superseded"]


def test_a_redemption_consumes_the_newest_request_only(clock: Any, world: World, outside: FakeWorld) -> None:
    branch = ready(world, outside)
    first = approve(world, branch)
    clock.move_to(hour(2))
    settle(world, branch, outside)
    second = approve(world, branch)
    clock.move_to(hour(2.1))
    start(world, branch)
    clock.move_to(hour(40))
    moments = [hour(0.5), hour(2), hour(2.05), hour(2.1), hour(40)]
    assert states(first, world, moments) == ["approved", *["expired"] * 4]
    assert states(second, world, moments[1:]) == ["approved", "approved", "consumed", "consumed"]


def test_a_revocation_takes_back_what_was_given_or_used(clock: Any, world: World, outside: FakeWorld) -> None:
    branch, waiting = ready(world, outside), asked(world, outside)
    used = approve(world, branch)
    start(world, branch)
    clock.move_to(hour(1))
    for each in (branch, waiting.branch):
        revoke_authority(person=world.grace, branch=each, reason="too_risky")
    assert states(used, world, [START, hour(1)]) == ["consumed", "revoked"]
    assert states(waiting, world, [START, hour(1)]) == ["pending", "revoked"]


def test_a_revocation_leaves_an_older_request_as_it_ended(
    clock: Any, world: World, outside: FakeWorld
) -> None:
    older = asked(world, outside)
    withdraw_request(person=world.ada, request=older)
    newer = request_approval(person=world.ada, branch=older.branch)
    withdraw_request(person=world.ada, request=newer)
    clock.move_to(hour(1))
    revoke_authority(person=world.grace, branch=older.branch, reason="not_now")
    assert states(older, world, [hour(1)]) == ["withdrawn"]
    assert states(newer, world, [START, hour(1)]) == ["withdrawn", "revoked"]


def test_it_leaves_out_the_family_beside_and_every_other_workspace(world: World, outside: FakeWorld) -> None:
    here, there = asked(world, outside), asked(world, outside)
    sibling = fork(world, here.branch.root or here.branch)
    abroad = asked(make_world("other"), outside)
    everything = {here.uid: "pending", there.uid: "pending"}
    assert standings(world) == everything
    root = here.branch.root
    assert root is not None
    for beside in (root.uid, here.branch.uid, sibling.uid):
        assert standings(world, beside=beside) == {there.uid: "pending"}
    assert standings(world, beside=abroad.branch.uid) == everything
    assert standings(world, beside="run_" + "a" * 24) == everything


def test_it_tells_a_long_queue_in_pages(
    world: World, outside: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = [asked(world, outside) for _ in range(3)]
    monkeypatch.setattr(queries, "PAGE", 2)
    first = approval_queue(world.workspace, until=now(), as_of=now())
    assert ([each.request for each in first.requests], first.more) == ([each.uid for each in made[:2]], True)
    rest = approval_queue(world.workspace, until=now(), as_of=now(), after=made[1])
    assert ([each.request for each in rest.requests], rest.more) == ([made[2].uid], False)


def test_it_asks_the_database_as_often_for_many_requests_as_for_one(
    world: World, outside: FakeWorld, django_assert_num_queries: Any
) -> None:
    for count in (1, 3):
        while ApprovalRequest.objects.count() < count:
            approve(world, ready(world, outside))
        with django_assert_num_queries(7):
            assert len(standings(world)) == count


def change(world: World, branch: Run) -> None:
    edit_message(
        person=world.ada,
        branch=branch,
        target=world.hmac("message", "brief"),
        text="another brief",
        edit_class="add_detail",
    )


@pytest.mark.parametrize(
    "probe", ["langgraph_interrupts", "openai_run_state", "approval_journal", "branchgate_approvals"]
)
def test_a_workflow_cannot_let_drift_of_an_approval_queue_be_accepted(world: World, probe: str) -> None:
    key = {"probe": probe, "target": "queue"}
    declared = declaration(version="1.0.1", state_keys={"queue": {**key, "acknowledgeable": True}})
    with pytest.raises(Refused) as refused:
        publish_workflow(workspace=world.workspace, publisher=world.workspace.uid, declaration=declared)
    assert (refused.value.field, refused.value.rule) == (
        "state_keys.*.acknowledgeable",
        "never_acknowledgeable",
    )
    for number, allowed in enumerate(({}, {"acknowledgeable": False})):
        declared = declaration(version=f"1.1.{number}", state_keys={"queue": {**key, **allowed}})
        publish_workflow(workspace=world.workspace, publisher=world.workspace.uid, declaration=declared)
    others = {"tools": {"probe": "mcp_tools", "target": "tools", "acknowledgeable": True}}
    declared = declaration(version="1.2.0", state_keys=others)
    publish_workflow(workspace=world.workspace, publisher=world.workspace.uid, declaration=declared)


def test_drift_that_a_probe_says_is_never_accepted_is_not_even_where_a_workflow_allowed_it(
    world: World, outside: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    branch = fork(world, failed_run(world))
    outside.states["browser"] = "other"
    assert measure_state(branch=branch, key="browser") == "drifted"
    monkeypatch.setattr(FakeProbe, "acknowledgeable", False, raising=False)
    with pytest.raises(Refused) as refused:
        acknowledge(person=world.ada, branch=branch, key="browser", reason="expected_change")
    assert (refused.value.field, refused.value.rule) == ("key", "never_acknowledgeable")
    monkeypatch.setattr(FakeProbe, "acknowledgeable", True)
    acknowledge(person=world.ada, branch=branch, key="browser", reason="expected_change")
