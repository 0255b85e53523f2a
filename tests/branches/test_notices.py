"""Every kind of notice is raised once, for whom it concerns, and says no content."""

from datetime import timedelta
from typing import Any

import pytest
import yaml

from branches.commands.admit import grant_role
from branches.commands.audit_arrivals import audit_arrivals
from branches.commands.check_outcome import check_outcome
from branches.commands.decide import decide, revoke_authority
from branches.commands.expire_requests import expire_requests
from branches.commands.propose_change import adopt_policy
from branches.commands.recover_handoff import recover_handoff
from branches.commands.request_approval import request_approval, withdraw_request
from branches.commands.route_approval import route_approval
from branches.commands.sweep_notices import OUTCOME_DUE, SOON, sweep_notices
from branches.models import ApprovalRequest, Notice, NoticeKind, Person, Role, Run
from branches.ports import Arrival, Check
from branches.queries.clock import now
from branches.queries.notice_words import notice_path, notice_words
from branches.tasks import sweep
from tests.branches.noticed import addressed, edit, kinds, told
from tests.branches.test_approval_queue import ready
from tests.branches.test_arrivals import Listing, lister  # noqa: F401 - a fixture
from tests.branches.test_branch_life import approve, start
from tests.builders import World, closed, one_approver, stopped
from tests.plugins import FakeWorld
from tests.web.test_recoveries import begin, delegated, event, shown
from tests.web.test_routing import waiting

K = NoticeKind


@pytest.fixture(autouse=True)
def _mailed(world: World, settings: Any) -> None:
    addressed(world, settings)


def two_approvers(world: World) -> None:
    document = yaml.safe_load(one_approver())
    document["classes"]["C4"]["rules"] = [{"name": "approval", "role": "approver", "people": 2}]
    adopt_policy(workspace=world.workspace, text=yaml.safe_dump({**document, "policy": "two"}))
    grant_role(person=world.rosa, workspace=world.workspace, role=Role.APPROVER)


def vote(person: Person, request: ApprovalRequest, word: str = "approved") -> None:
    reason = "reviewed_delta" if word == "approved" else "too_risky"
    decide(person=person, request=request, word=word, reason=reason, digest=request.subject_digest)


def test_whoever_may_decide_hears_of_a_request(world: World, outside: FakeWorld) -> None:
    request_approval(person=world.ada, branch=ready(world, outside))
    assert told(K.REQUESTED) == [["grace"]]


def test_whoever_asked_for_it_or_worked_on_it_is_not_asked_to_decide(
    world: World, outside: FakeWorld
) -> None:
    grant_role(person=world.ada, workspace=world.workspace, role=Role.APPROVER)
    grant_role(person=world.rosa, workspace=world.workspace, role=Role.APPROVER)
    grant_role(person=world.rosa, workspace=world.workspace, role=Role.ENGINEER)
    request_approval(person=world.rosa, branch=ready(world, outside))
    assert told(K.REQUESTED) == [["grace"]]


def test_whoever_turned_mail_off_or_left_hears_nothing(world: World, outside: FakeWorld) -> None:
    for person in (world.rosa, world.linus):
        grant_role(person=person, workspace=world.workspace, role=Role.APPROVER)
    Person.objects.filter(pk=world.grace.pk).update(by_mail=False)
    grant_role(person=world.rosa, workspace=world.workspace, role=Role.APPROVER, held=False)
    request = request_approval(person=world.ada, branch=ready(world, outside))
    assert told(K.REQUESTED) == [["linus"]]
    grant_role(person=world.ada, workspace=world.workspace, role=Role.ENGINEER, held=False)
    vote(world.grace, request, "rejected")
    assert told(K.REJECTED) == [[]]


def test_a_first_vote_of_two_is_told_to_the_others_and_the_last_to_whoever_waits(
    world: World, outside: FakeWorld
) -> None:
    two_approvers(world)
    request = request_approval(person=world.ada, branch=ready(world, outside))
    vote(world.grace, request)
    assert (told(K.REQUESTED), told(K.PARTIAL), told(K.GRANTED)) == ([["grace", "rosa"]], [["rosa"]], [])
    vote(world.rosa, request)
    assert (told(K.PARTIAL), told(K.GRANTED)) == ([["rosa"]], [["ada"]])


def test_a_rejection_is_told_to_whoever_waits(world: World, outside: FakeWorld) -> None:
    request = request_approval(person=world.ada, branch=ready(world, outside))
    vote(world.grace, request, "rejected")
    assert told(K.REJECTED) == [["ada"]]
    assert told(K.GRANTED) == []


def test_a_request_that_ends_soon_is_told_once_to_who_may_decide_and_its_end_to_who_waits(
    world: World, outside: FakeWorld, move: Any
) -> None:
    request = request_approval(person=world.ada, branch=ready(world, outside))
    sweep_notices()
    assert told(K.EXPIRING) == []
    move(timedelta(seconds=request.lives_s) + timedelta(days=7) - SOON + timedelta(seconds=5))
    sweep_notices()
    sweep_notices()
    assert told(K.EXPIRING) == [["grace"]]
    move(SOON)
    assert expire_requests() == [request.uid]
    sweep_notices()
    assert told(K.EXPIRED) == [["ada"]]


def test_a_grant_that_ends_soon_and_its_end_are_told_to_who_waits(
    world: World, outside: FakeWorld, move: Any
) -> None:
    approve(world, ready(world, outside))
    move(timedelta(minutes=45, seconds=5))
    sweep_notices()
    sweep_notices()
    assert (told(K.EXPIRING), told(K.EXPIRED)) == ([["ada"]], [])
    move(SOON)
    sweep_notices()
    sweep_notices()
    assert (told(K.EXPIRING), told(K.EXPIRED)) == ([["ada"]], [["ada"]])
    move(timedelta(days=2))
    sweep_notices()
    assert kinds() == [K.REQUESTED, K.GRANTED, K.EXPIRING, K.EXPIRED]


def test_a_withdrawal_is_told_to_nobody(world: World, outside: FakeWorld, move: Any) -> None:
    request = request_approval(person=world.ada, branch=ready(world, outside))
    withdraw_request(person=world.ada, request=request)
    move(timedelta(days=9))
    sweep_notices()
    assert kinds() == [K.REQUESTED]


def test_a_change_and_a_revocation_are_told_to_who_waits(world: World, outside: FakeWorld) -> None:
    changed, taken = ready(world, outside), ready(world, outside)
    approve(world, changed)
    approve(world, taken)
    edit(world, changed)
    assert told(K.SUPERSEDED) == [["ada"]]
    revoke_authority(person=world.grace, branch=taken, reason="too_risky")
    assert told(K.REVOKED) == [["ada"]]


def test_a_revocation_of_a_running_branch_is_told_once(world: World, outside: FakeWorld) -> None:
    branch = ready(world, outside)
    approve(world, branch)
    start(world, branch)
    revoke_authority(person=world.grace, branch=branch, reason="too_risky")
    assert (told(K.CONSUMED), told(K.REVOKED)) == ([["ada"]], [["ada"]])


def test_a_branch_whose_outcome_is_due_is_asked_about_once(
    world: World, outside: FakeWorld, move: Any
) -> None:
    branch = ready(world, outside)
    approve(world, branch)
    start(world, branch)
    sweep_notices()
    assert told(K.OUTCOME_DUE) == []
    move(OUTCOME_DUE + timedelta(seconds=5))
    sweep_notices()
    sweep_notices()
    assert told(K.OUTCOME_DUE) == [["ada"]]


def test_a_claim_that_its_destination_denies_is_told_once_and_a_verified_one_never(
    world: World, outside: FakeWorld
) -> None:
    branch = ready(world, outside)
    approve(world, branch)
    start(world, branch)
    world.ingest(stopped(world, branch.uid), closed(world, branch.uid))
    check_outcome(run=branch)
    sweep_notices()
    sweep_notices()
    assert told(K.FALSE_SUCCESS) == [["ada"]]


def test_a_verified_outcome_is_told_to_nobody(world: World, outside: FakeWorld, move: Any) -> None:
    branch = ready(world, outside)
    approve(world, branch)
    start(world, branch)
    world.ingest(stopped(world, branch.uid), closed(world, branch.uid))
    outside.newest, outside.check = "8", Check.PASSED
    check_outcome(run=branch)
    move(OUTCOME_DUE * 2)
    sweep_notices()
    assert told(K.FALSE_SUCCESS) + told(K.OUTCOME_DUE) == []


def test_what_no_receipt_accounts_for_is_told_to_the_destinations_owner_and_whoever_forked(
    world: World,
    lister: Listing,  # noqa: F811
) -> None:
    role = Role.DESTINATION_OWNER
    grant_role(person=world.linus, workspace=world.workspace, role=role, scope="tickets")
    grant_role(person=world.rosa, workspace=world.workspace, role=role, scope="mail")
    branch = ready(world, lister.outside)
    lister.arrived = [Arrival(world.hmac("ref", "strange"), None)]
    for _ in range(2):
        audit_arrivals(branch=branch, destination="tickets")
    assert told(K.UNACCOUNTED) == [["ada", "linus"]]
    lister.arrived.append(Arrival(world.hmac("ref", "another"), None))
    audit_arrivals(branch=branch, destination="tickets")
    assert len(told(K.UNACCOUNTED)) == 2


def routed(world: World, run: Run, sent: dict[str, Any], owner: str) -> None:
    route_approval(
        person=world.ada,
        run=run,
        stopped=sent["event_id"],
        owner=owner,
        deadline=now() + timedelta(hours=1),
    )


def test_whom_an_approval_is_routed_to_is_told_each_time_and_a_declared_name_is_nobody(
    world: World,
) -> None:
    run = Run.objects.get(uid=begin(world, owners=["legal-desk"]))
    sent = waiting(world, run.uid, None)
    assert not world.ingest(sent).refused
    routed(world, run, sent, "legal-desk")
    assert told(K.ROUTED) == []
    routed(world, run, sent, world.rosa.username)
    routed(world, run, sent, world.grace.username)
    assert told(K.ROUTED) == [["rosa"], ["grace"]]
    assert notice_path(Notice.objects.filter(kind=K.ROUTED)[0]) == f"/runs/{run.uid}/audits/#stops"


def test_whom_a_wait_is_routed_to_is_told_by_a_link_and_no_content(world: World) -> None:
    run = Run.objects.get(uid=begin(world))
    operation = world.hmac("ref", "brief")
    world.ingest(
        delegated(world, run.uid, "brief", ago=90),
        event(world, run.uid, "brief", "accepted", ago=80),
        event(world, run.uid, "brief", "waiting", ago=70, dependency=world.hmac("ref", "ruling")),
    )
    recover_handoff(
        person=world.ada,
        run=run,
        operation=operation,
        action="route_wait",
        shown=shown(run, operation),
        owner=world.linus.username,
    )
    assert told(K.ROUTED) == [["linus"]]
    notice = Notice.objects.get(kind=K.ROUTED)
    assert (notice_words(notice), notice_path(notice)) == (
        "Routed to somebody",
        f"/runs/{run.uid}/audits/#handoffs",
    )


def test_every_kind_is_told_by_some_test_of_these() -> None:
    source = __import__("pathlib").Path(__file__).read_text()
    assert [kind for kind in K if f"K.{kind.name}" not in source] == []


def test_no_row_of_a_notice_holds_content(world: World, outside: FakeWorld) -> None:
    branch = ready(world, outside)
    edit(world, branch)
    approve(world, branch)
    edit(world, branch, "CONTENT-MARKER-7f3a again")
    sweep()
    rows = [str(row) for row in Notice.objects.values_list()]
    assert len(rows) >= 3
    assert [row for row in rows if "CONTENT-MARKER" in row] == []
