"""The bypass audit: what arrived and stands in no receipt blocks gate 3 of every branch of the family."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pytest

from branches import registry
from branches.commands.ask_destination import ask_destination
from branches.commands.audit_arrivals import MARGIN, audit_arrivals
from branches.commands.issue_permit import bound_values
from branches.commands.refusal import Refused
from branches.evidence.kinds.product import MOST_UNACCOUNTED
from branches.models import Run
from branches.ports import Answer, Arrival, DestinationAnswer, Question, Target
from branches.queries.branch_facts import branch_view
from branches.queries.receipts import verify_run
from tests.branches.test_branch_life import approve, fork, settle, start, status
from tests.builders import World, effect, failed_run
from tests.plugins import FakeWorld
from tests.web.cast import signed_in
from tests.words import attest, judge


@dataclass
class Listing:
    """A destination that answers and lists what it is told to."""

    outside: FakeWorld
    arrived: list[Arrival] | None = field(default_factory=list)
    since: datetime | None = None

    def ask(self, target: Target, question: Question) -> DestinationAnswer:
        return DestinationAnswer(self.outside.answers.get(target.name, Answer.UNKNOWN))

    def lists(self, target: Target) -> bool:
        return self.arrived is not None

    def arrivals(self, target: Target, since: datetime) -> list[Arrival] | None:
        self.since = since
        return self.arrived


@pytest.fixture
def lister(outside: FakeWorld, monkeypatch: pytest.MonkeyPatch) -> Listing:
    found, loaded = Listing(outside), registry._load

    def load(port: str, name: str) -> Any:
        return found if (port, name) == ("destinations", "fake") else loaded(port, name)

    monkeypatch.setattr(registry, "_load", load)
    return found


@pytest.fixture
def branch(world: World, lister: Listing) -> Run:
    found = fork(world, failed_run(world))
    settle(world, found, lister.outside)
    approve(world, found)
    return found


def arrival(world: World, name: str, key: str | None = None) -> Arrival:
    return Arrival(world.hmac("ref", name), key)


def test_it_asks_for_what_arrived_since_the_checkpoint(world: World, branch: Run, lister: Listing) -> None:
    assert audit_arrivals(branch=branch, destination="tickets") == 0
    view = branch_view(branch)
    assert view.checkpoint is not None
    assert lister.since == view.checkpoint.at - MARGIN
    assert status(branch) == "ready_to_resume"


def test_what_a_receipt_accounts_for_is_no_bypass_whichever_run_of_the_workspace_sent_it(
    world: World, branch: Run, lister: Listing
) -> None:
    failed_run(world)
    lister.arrived = [
        arrival(world, "1", world.operation("ticket")),
        arrival(world, "2", world.operation("mail")),
    ]
    assert audit_arrivals(branch=branch, destination="tickets") == 0


def test_what_no_receipt_accounts_for_blocks_every_branch_of_the_family_and_supersedes(
    world: World, branch: Run, lister: Listing
) -> None:
    sibling = fork(world, branch.fork_point.parent)
    lister.arrived = [arrival(world, "strange"), arrival(world, "unknown key", world.hmac("operation", "x"))]
    assert audit_arrivals(branch=branch, destination="tickets") == 2
    for each in (branch, sibling):
        reasons = {reason for reason in branch_view(each).verdict.gates[2].reasons if "pending" in reason}
        assert {f"pending:{found.ref}" for found in lister.arrived} <= reasons
    assert status(branch) == "effects_unreconciled"
    assert branch_view(branch).authority.word == "superseded"
    assert verify_run(branch.fork_point.parent).ok


def test_only_a_persons_word_settles_it_and_the_branch_is_told_nothing_of_it(
    world: World, branch: Run, lister: Listing
) -> None:
    strange = arrival(world, "strange")
    lister.arrived = [strange]
    audit_arrivals(branch=branch, destination="tickets")
    with pytest.raises(Refused) as refused:
        ask_destination(branch=branch, operation_key=strange.ref)
    assert refused.value.rule == "destination_undeclared"
    judgement = {
        "person": world.ada,
        "branch": branch,
        "operation_key": strange.ref,
        "reason": "told_by_owner",
    }
    with pytest.raises(Refused) as refused:
        judge(**judgement, judgement="repeat")
    assert refused.value.rule == "not_of_unaccounted"
    judge(**judgement, judgement="mine")
    assert status(branch) == "needs_approval"
    assert strange.ref not in bound_values(branch_view(branch))["operations"]
    audit_arrivals(branch=branch, destination="tickets")
    assert status(branch) == "needs_approval"


def test_a_receipt_that_comes_late_accounts_for_it_after_all(
    world: World, branch: Run, lister: Listing
) -> None:
    key = world.operation("late")
    lister.arrived = [arrival(world, "late", key)]
    audit_arrivals(branch=branch, destination="tickets")
    world.ingest(*effect(world, branch.fork_point.parent.uid, "late", "create_ticket", "c1"))
    keys = {line.operation_key for line in branch_view(branch).effects}
    assert lister.arrived[0].ref not in keys
    assert key in keys


def test_more_than_can_be_named_leaves_the_ledger_unknown_until_somebody_attests_it(
    world: World, branch: Run, lister: Listing
) -> None:
    lister.arrived = [arrival(world, f"s{number}") for number in range(MOST_UNACCOUNTED + 3)]
    audit_arrivals(branch=branch, destination="tickets")
    assert "ledger_unknown" in branch_view(branch).verdict.gates[2].reasons
    attest(person=world.ada, branch=branch, run=branch.fork_point.parent, reason="destinations_agree")
    assert branch_view(branch).facts.effects_ledger == "attested"


@pytest.mark.parametrize("destination", ["tickets", "mail", "nowhere"])
def test_a_destination_that_cannot_list_records_nothing(
    world: World, branch: Run, lister: Listing, destination: str
) -> None:
    lister.arrived = None
    with pytest.raises(Refused) as refused:
        audit_arrivals(branch=branch, destination=destination)
    assert refused.value.rule == ("declared" if destination == "nowhere" else "cannot_list")
    assert status(branch) == "ready_to_resume"


def test_a_notice_says_once_what_no_receipt_accounts_for(world: World, branch: Run, lister: Listing) -> None:
    lister.arrived = [arrival(world, "stray")]
    for _ in range(2):
        audit_arrivals(branch=branch, destination="tickets")
    page = signed_in(world.rosa).get("/approvals/").text
    assert page.count("at tickets; gate 3 of the run’s branches is shut") == 1
    lister.arrived.append(arrival(world, "another"))
    audit_arrivals(branch=branch, destination="tickets")
    page = signed_in(world.rosa).get("/approvals/").text
    assert page.count("at tickets; gate 3 of the run’s branches is shut") == 2


def test_nothing_is_said_where_everything_is_accounted_for(
    world: World, branch: Run, lister: Listing
) -> None:
    audit_arrivals(branch=branch, destination="tickets")
    assert "and in no receipt" not in signed_in(world.rosa).get("/approvals/").text


def test_what_a_branch_sends_itself_is_its_own_once_its_receipt_is_here(
    world: World, branch: Run, lister: Listing
) -> None:
    """A destination may be audited between a call's arrival there and its receipt's arrival here."""
    start(world, branch)
    own = world.operation("follow-up")
    lister.arrived = [arrival(world, "follow-up", own)]
    audit_arrivals(branch=branch, destination="tickets")
    assert status(branch) == "effects_unreconciled"
    world.ingest(*effect(world, branch.uid, "follow-up", "create_ticket", "c1"))
    assert status(branch) == "awaiting_outcome"
