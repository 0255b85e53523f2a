"""Siblings side by side, and the conclusion over them."""

import pytest
from django.test import Client

from branches.commands.check_outcome import check_outcome
from branches.models import Run
from branches.ports import Check
from branches.queries.chains import latest
from branches.queries.compare import comparison
from branches.queries.compare_cells import Cell
from tests.builders import World, effect
from tests.plugins import FakeWorld
from tests.web.cast import forked, resumed, signed_in


def cell(run: Run, label: str, column: int = 0) -> Cell:
    found = comparison(run, chosen=[], only_differences=False)
    rows = {row.label: row for group in found.groups for row in group.rows}
    return rows[label].cells[column]


def test_it_says_that_there_is_nothing_to_compare(ada: Client, run: Run) -> None:
    page = ada.get(f"/runs/{run.uid}/compare/").content.decode()
    assert "No branch to compare" in page


def test_it_puts_claim_beside_outcome(ada: Client, world: World, run: Run, outside: FakeWorld) -> None:
    first = resumed(world, run, outside)
    check_outcome(run=first)
    forked(world, run)
    page = ada.get(f"/runs/{run.uid}/compare/").content.decode()
    assert "Compare 2 sibling branches" in page
    assert "False success" in page
    assert "Claimed done" in page
    assert "b1 claimed success and the destination denies it." in page
    assert "Verified" not in page


def test_only_a_destination_makes_it_say_verified(
    ada: Client, world: World, run: Run, outside: FakeWorld
) -> None:
    branch = resumed(world, run, outside)
    outside.newest, outside.check = "8", Check.PASSED
    check_outcome(run=branch)
    forked(world, run)
    page = ada.get(f"/runs/{run.uid}/compare/").content.decode()
    assert page.count("Verified") == 1
    assert "Only b1 has a destination receipt." in page


def test_it_tells_what_stands_from_what_the_branch_did(world: World, run: Run, outside: FakeWorld) -> None:
    branch = resumed(world, run, outside)
    reused = {"operation_key": world.operation("ticket"), "payload": world.hmac("payload", "ticket")}
    world.ingest(
        world.sent(branch.uid, "effect_reused", {**reused, "decision": None}),
        *effect(world, branch.uid, "mail", "send_mail", "c1"),
        *effect(world, branch.uid, "another", "create_ticket", "c1"),
    )
    ticket = cell(run, "create_ticket at tickets")
    assert (ticket.text, ticket.note) == ("1 as landed", "here: 1 answer reused, 1 new")
    mail = cell(run, "send_mail at mail")
    assert (mail.text, mail.note, mail.diff) == ("1 as landed", "here: 1 repeated", True)


def test_it_can_show_differences_only(ada: Client, world: World, run: Run, outside: FakeWorld) -> None:
    forked(world, run)
    forked(world, run, "c2")
    every = ada.get(f"/runs/{run.uid}/compare/").content.decode()
    some = ada.get(f"/runs/{run.uid}/compare/?only=differences").content.decode()
    assert "Agent’s own claim" in every
    assert "Agent’s own claim" not in some
    assert "Forked from" in some
    assert "Show all rows" in some


def test_it_says_when_nothing_differs(ada: Client, world: World, run: Run, outside: FakeWorld) -> None:
    forked(world, run)
    forked(world, run)
    page = ada.get(f"/runs/{run.uid}/compare/?only=differences").content.decode()
    assert "do not differ" in page


def test_it_shows_four_columns_at_most(ada: Client, world: World, run: Run, outside: FakeWorld) -> None:
    branches = [forked(world, run) for _ in range(6)]
    named = "&".join(f"with={branch.uid}" for branch in branches)
    page = ada.get(f"/runs/{run.uid}/compare/?{named}").content.decode()
    assert "Compare 4 sibling branches" in page
    here = ada.get(f"/runs/{run.uid}/compare/?branch={branches[0].uid}").content.decode()
    assert "(this)" in here


def conclude(world: World, run: Run, **form: str) -> str:
    reviewer = signed_in(world.rosa)
    return reviewer.post(f"/runs/{run.uid}/conclude/", form, follow=True).content.decode()


def test_a_reviewer_concludes(world: World, run: Run, branch: Run) -> None:
    page = conclude(world, run, conclusion="refuted", chosen=branch.uid)
    assert "refuted, b1 preferred" in page
    concluded = latest(run.pk, "concluded")
    assert concluded is not None
    assert concluded.body["chosen"] == branch.uid


def test_supported_needs_a_destination(world: World, run: Run, branch: Run) -> None:
    page = conclude(world, run, conclusion="supported", chosen=branch.uid)
    assert "needs a branch that its destination verified" in page
    assert latest(run.pk, "concluded") is None


@pytest.mark.parametrize("conclusion", ["", "certain"])
def test_an_unknown_conclusion_changes_nothing(world: World, run: Run, conclusion: str) -> None:
    assert "is not one of the choices" in conclude(world, run, conclusion=conclusion)
    assert latest(run.pk, "concluded") is None


def test_an_engineer_does_not_conclude(ada: Client, run: Run, branch: Run) -> None:
    page = ada.post(f"/runs/{run.uid}/conclude/", {"conclusion": "refuted"}, follow=True).content.decode()
    assert "this needs the role reviewer" in page
    assert "A reviewer writes the conclusion." in page
