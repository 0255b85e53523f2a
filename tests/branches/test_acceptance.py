"""A dated policy of the workflow accepts what a destination's answer supports, and nothing else."""

import json
from datetime import timedelta
from typing import Any

import pytest

from branches.commands.ask_destination import ask_destination
from branches.models import Receipt, Run
from branches.ports import Answer
from branches.queries.branch_facts import branch_view
from branches.queries.clock import now, stamp
from branches.queries.workflow_form import problem_of
from tests.branches.test_branch_life import fork
from tests.builders import World, declaration, failed_run, make_world
from tests.plugins import FakeWorld
from tests.web.cast import signed_in


def declared(*, answers: list[str], lasts: timedelta) -> dict[str, Any]:
    accept = {"answers": answers, "until": stamp(now() + lasts)}
    rules = declaration()["destinations"]
    return declaration(destinations={name: {**rule, "accept": accept} for name, rule in rules.items()})


def standing(branch: Run, key: str) -> str:
    return next(str(line.status) for line in branch_view(branch).effects if line.operation_key == key)


def asked(world: World, outside: FakeWorld, answer: Answer) -> Run:
    branch = fork(world, failed_run(world))
    outside.answers = {"tickets": answer, "mail": answer}
    for name in ("ticket", "mail"):
        ask_destination(branch=branch, operation_key=world.operation(name))
    return branch


def test_it_accepts_an_answer_in_its_own_name(db: None, outside: FakeWorld) -> None:
    world = make_world(declared=declared(answers=["present"], lasts=timedelta(days=1)))
    branch = asked(world, outside, Answer.PRESENT)
    assert standing(branch, world.operation("ticket")) == "reconciled"
    written = json.loads(Receipt.objects.get(run=branch, kind="effect_reconciled").body)
    assert written["actor"]["type"] != "person"
    assert (written["body"]["policy"], written["body"]["basis"]) == (world.workflow.digest, "destination")
    assert "by no person" in signed_in(world.ada).get(f"/branches/{branch.uid}/effects/").text


def test_it_never_accepts_what_cannot_be_undone(db: None, outside: FakeWorld) -> None:
    world = make_world(declared=declared(answers=["present", "absent"], lasts=timedelta(days=1)))
    branch = asked(world, outside, Answer.PRESENT)
    assert f"irreversible:{world.operation('mail')}" in branch_view(branch).verdict.gates[2].reasons
    outside.answers = {"mail": Answer.ABSENT}
    ask_destination(branch=branch, operation_key=world.operation("mail"))
    assert standing(branch, world.operation("mail")) == "pending"
    settled = Receipt.objects.filter(run=branch, kind="effect_reconciled")
    assert [each.subject for each in settled] == [world.operation("ticket")]


@pytest.mark.parametrize(
    ("answers", "lasts", "answer"),
    [
        (["present"], timedelta(days=1), Answer.ABSENT),
        (["absent"], timedelta(days=1), Answer.CHANGED),
        (["present"], timedelta(days=-1), Answer.PRESENT),
    ],
    ids=["another answer", "something else is there", "over"],
)
def test_it_leaves_everything_else_to_a_person(
    db: None, outside: FakeWorld, answers: list[str], lasts: timedelta, answer: Answer
) -> None:
    world = make_world(declared=declared(answers=answers, lasts=lasts))
    branch = asked(world, outside, answer)
    assert standing(branch, world.operation("ticket")) == "pending"


def test_an_answer_that_changes_opens_what_it_accepted(db: None, outside: FakeWorld) -> None:
    world = make_world(declared=declared(answers=["present"], lasts=timedelta(days=1)))
    branch = asked(world, outside, Answer.PRESENT)
    outside.answers = {"tickets": Answer.CHANGED}
    ask_destination(branch=branch, operation_key=world.operation("ticket"))
    assert standing(branch, world.operation("ticket")) == "pending"


@pytest.mark.parametrize(
    ("accept", "field"),
    [
        ({"answers": ["unknown"], "until": "2027-01-01T00:00:00Z"}, "destinations.*.accept.answers"),
        ({"answers": [], "until": "2027-01-01T00:00:00Z"}, "destinations.*.accept.answers"),
        ({"answers": ["present"], "until": "2027-01-01"}, "destinations.*.accept.until"),
        ({"answers": ["present"]}, "destinations.*.accept"),
        ({"answers": "present", "until": "2027-01-01T00:00:00Z"}, "destinations.*.accept.answers"),
        ("always", "destinations.*.accept"),
    ],
)
def test_a_policy_without_an_end_or_of_another_form_is_refused(accept: Any, field: str) -> None:
    rules = {"tickets": {"query": "fake", "target": "tickets", "accept": accept}}
    tools = {"create_ticket": {"destination": "tickets", "effect_class": "reversible"}}
    problem = problem_of(declaration(destinations=rules, tools=tools))
    assert problem is not None
    assert problem.field == field
