"""What a branch is to bring about may be declared at its fork; whoever approves sees it."""

import json
from typing import Any

import pytest

from branches.commands.check_outcome import check_outcome
from branches.commands.fork_branch import fork_branch
from branches.commands.refusal import Refused
from branches.evidence import ids
from branches.models import Receipt, Run
from branches.ports import Check, OutcomeCheck, Target
from branches.queries.branch_facts import branch_view
from branches.queries.declarations import ExpectedOutcome, declaration_of
from branches.queries.subject import subject_of
from tests.branches.test_branch_life import approve, fork, settle, start, status
from tests.builders import (
    World,
    checkpoint,
    closed,
    declaration,
    failed_run,
    make_world,
    run_started,
    stopped,
)
from tests.plugins import FakeVerifier, FakeWorld
from tests.web.cast import signed_in

OWN = ExpectedOutcome("letter-sent", "fake", "mail")


def fork_for(world: World, parent: Run, outcome: ExpectedOutcome | None) -> Run:
    return fork_branch(
        person=world.ada,
        parent=parent,
        checkpoint=world.checkpoint("c1"),
        reason_code="false_success",
        edit_class="change_plan",
        outcome=outcome,
    )


def test_the_verifier_is_asked_for_what_the_fork_declared(
    world: World, outside: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, str]] = []

    def check(self: FakeVerifier, target: Target, expected: str, *_: Any) -> OutcomeCheck:
        asked.append((target.name, expected))
        return OutcomeCheck(Check.PASSED, fresh=True, version="8")

    monkeypatch.setattr(FakeVerifier, "check", check)
    branch = fork_for(world, failed_run(world), OWN)
    settle(world, branch, outside)
    approve(world, branch)
    start(world, branch)
    world.ingest(stopped(world, branch.uid))
    check_outcome(run=branch)
    assert asked == [("mail", "letter-sent")]
    assert status(branch) == "verified"
    last = Receipt.objects.filter(run=branch, kind="outcome_checked").latest("seq")
    assert json.loads(last.body)["body"]["expected"] == "letter-sent"


def test_it_is_in_the_record_as_a_digest_and_in_what_is_approved(world: World, outside: FakeWorld) -> None:
    run = failed_run(world)
    plain, own = fork(world, run), fork_for(world, run, OWN)
    first = [
        json.loads(Receipt.objects.get(run=each, seq=1).body)["body"]["outcome"] for each in (plain, own)
    ]
    assert first[0] is None
    assert first[1].startswith("hmac-sha256:")
    subjects = [subject_of(branch_view(each), world.ada)["outcome"] for each in (plain, own)]
    assert subjects == [
        {"expected": "report", "verifier": "fake", "target": "reports"},
        {"expected": "letter-sent", "verifier": "fake", "target": "mail"},
    ]


def test_a_branch_of_the_branch_expects_the_same_and_a_sibling_does_not(
    world: World, outside: FakeWorld
) -> None:
    run = failed_run(world)
    own = fork_for(world, run, OWN)
    settle(world, own, outside)
    approve(world, own)
    start(world, own)
    world.ingest(checkpoint(world, own.uid, "c9", "c1"))
    child = fork_branch(
        person=world.ada,
        parent=own,
        checkpoint=world.checkpoint("c9"),
        reason_code="other",
        edit_class="other",
    )
    expected = [declaration_of(each) for each in (child, fork(world, run))]
    assert [each.outcome.expected for each in expected if each is not None] == ["letter-sent", "report"]


@pytest.mark.parametrize(
    ("outcome", "field", "rule"),
    [
        (ExpectedOutcome("two words", "fake", "mail"), "expected", "pattern:name"),
        (ExpectedOutcome("letter-sent", "none-such", "mail"), "verifier", "not_installed"),
        (ExpectedOutcome("letter-sent", "fake", "nowhere"), "target", "not_registered"),
        (ExpectedOutcome("CONTENT-MARKER-7f3a", "fake", "mail"), "expected", "terms_undeclared"),
        (ExpectedOutcome("letter-sent", "fake", "tickets"), "expected", "terms_undeclared"),
    ],
)
def test_an_outcome_that_nobody_could_be_asked_for_is_refused(
    world: World, outside: FakeWorld, outcome: ExpectedOutcome, field: str, rule: str
) -> None:
    run = failed_run(world)
    with pytest.raises(Refused) as refused:
        fork_for(world, run, outcome)
    assert (refused.value.field, refused.value.rule) == (field, rule)
    assert not Run.objects.filter(parent=run).exists()


def test_the_form_keeps_what_was_typed_where_it_is_refused(world: World, outside: FakeWorld) -> None:
    run, ada = failed_run(world), signed_in(world.ada)
    form = {
        "checkpoint": world.checkpoint("c1"),
        "reason_code": "stuck",
        "edit_class": "change_plan",
        "hypothesis": "a longer brief",
        "expected": "mail another",
        "verifier": "fake",
    }
    answer = ada.post(f"/runs/{run.uid}/fork/", form)
    assert answer.status_code == 422
    assert "does not say how this outcome is recognised" in answer.text
    for kept in ('value="a longer brief"', 'value="stuck" selected'):
        assert kept in answer.text
    answer = ada.post(f"/runs/{run.uid}/fork/", form | {"expected": "mail letter-sent"})
    assert answer.status_code == 302
    page = ada.get(answer["Location"]).text
    assert "declared at the fork" in page


def test_a_confined_branch_with_an_outcome_of_its_own_needs_somebody_else(
    db: None, outside: FakeWorld
) -> None:
    read_only = {"look_up": {"destination": None, "effect_class": "read", "key_fields": []}}
    world = make_world(declared=declaration(tools=read_only))
    uid = ids.mint("run")
    assert not world.ingest(run_started(world, uid), checkpoint(world, uid, "c1"), closed(world, uid)).refused
    run = Run.objects.get(uid=uid)
    classes = [str(branch_view(fork_for(world, run, each)).change_class) for each in (None, OWN)]
    assert classes == ["C1", "C2"]
