"""What a loop leaves behind at its stop, where the audits would fork, and what machines are told of many."""

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from branches.commands.check_outcome import check_outcome, take_run_baseline
from branches.models import Run
from branches.ports import Check
from branches.queries import left_behind
from branches.queries.audit_page import audit_page, audit_summary
from branches.queries.clock import now
from branches.queries.left_behind import Left
from debugger.api import audit_routes
from tests.builders import World, checkpoint, effect, failed_run, stopped
from tests.plugins import FakeWorld
from tests.web.cast import signed_in
from tests.web.test_recoveries import begin, delegated, event
from tests.web.test_routing import form, waiting


@pytest.fixture
def uid(world: World) -> str:
    return begin(world)


def record(world: World, *sent: dict[str, Any]) -> None:
    report = world.ingest(*sent)
    assert not report.refused, report.refused


def left(uid: str, row: int = 0) -> Left | None:
    return audit_page(Run.objects.get(uid=uid), now()).stops[row].left


def seqs(found: Any) -> list[int]:
    return [each.seq for each in found]


def agent(sent: dict[str, Any], name: str) -> dict[str, Any]:
    return {**sent, "actor": {"type": "agent", "name": name}}


# What was left


def test_calls_without_an_answer_and_operations_nobody_completed_are_left(
    ada: Client, world: World, uid: str
) -> None:
    answered = effect(world, uid, "ticket", "create_ticket", "c1")
    silent = effect(world, uid, "mail", "send_mail", "c1")
    silent[1]["body"]["answer"] = "no_answer"
    read, never = (
        effect(world, uid, "read", "look_up", "c1")[0],
        effect(world, uid, "m2", "send_mail", "c1")[0],
    )
    record(
        world,
        checkpoint(world, uid, "c1"),
        *answered,
        *silent,
        read,
        never,
        delegated(world, uid, "brief", ago=90),
        *(delegated(world, uid, "done", ago=90), event(world, uid, "done", "accepted", ago=80)),
        event(world, uid, "done", "completed", ago=70),
        stopped(world, uid),
    )
    found = left(uid)
    assert found is not None
    assert (seqs(found.pending), seqs(found.operations)) == ([8, 5], [9])
    assert (found.approval, found.outcome) == (False, True)
    page = " ".join(ada.get(f"/runs/{uid}/audits/").text.split())
    assert "2 calls without an answer: <a" in page
    assert "1 operation not completed: <a" in page
    assert "no receipt of the expected outcome: nobody was asked" in page
    assert "at least" not in page


def test_a_call_that_was_answered_later_or_came_after_the_stop_is_not_left(world: World, uid: str) -> None:
    late, after = (
        effect(world, uid, "late", "send_mail", "c1"),
        effect(world, uid, "after", "send_mail", "c1"),
    )
    record(world, checkpoint(world, uid, "c1"), late[0], stopped(world, uid, "ended"))
    found = left(uid)
    assert found is not None
    assert seqs(found.pending) == [3]
    record(world, late[1], after[0])
    found = left(uid)
    assert found is not None
    assert found.pending == ()


def test_a_stop_that_names_its_agent_left_only_what_is_its_own(world: World, uid: str) -> None:
    mail = effect(world, uid, "mail", "send_mail", "c1")[0]
    record(
        world,
        checkpoint(world, uid, "c1"),
        agent(mail, "critic"),
        delegated(world, uid, "brief", ago=90),
        agent(stopped(world, uid), "writer"),
        agent(stopped(world, uid), "critic"),
    )
    by_agent = {
        row.audit.stopped.actor["name"]: row.left for row in audit_page(Run.objects.get(uid=uid), now()).stops
    }
    writer, critic = by_agent["writer"], by_agent["critic"]
    assert writer is not None
    assert critic is not None
    assert (seqs(writer.pending), seqs(writer.operations)) == ([], [4])
    assert (seqs(critic.pending), seqs(critic.operations)) == ([3], [])


def test_an_open_approval_is_left_until_the_loop_went_on(ada: Client, world: World, uid: str) -> None:
    record(world, waiting(world, uid, None))
    found = left(uid)
    assert found is not None
    assert found.approval
    assert "an approval is open" in ada.get(f"/runs/{uid}/audits/").text
    record(world, world.sent(uid, "progress", {"measure": "artifact"}, at="2099-01-01T00:00:00Z"))
    assert left(uid) is None


def test_a_run_whose_outcome_is_there_left_nothing_on_record(
    ada: Client, world: World, outside: FakeWorld, uid: str
) -> None:
    run = Run.objects.get(uid=uid)
    take_run_baseline(run=run)
    record(world, stopped(world, uid))
    check_outcome(run=run)
    found = left(uid)
    assert found is not None
    assert found.outcome
    assert found.checked is not None
    assert "the expected outcome is missing: <a" in ada.get(f"/runs/{uid}/audits/").text
    outside.check = Check.UNREACHABLE
    check_outcome(run=run)
    assert "no receipt of the expected outcome, asked last in <a" in ada.get(f"/runs/{uid}/audits/").text
    outside.newest, outside.check = "8", Check.PASSED
    check_outcome(run=run)
    found = left(uid)
    assert found is not None
    assert found.is_nothing
    assert "nothing on record" in ada.get(f"/runs/{uid}/audits/").text


def test_of_very_many_open_calls_the_page_says_at_least(
    ada: Client, world: World, uid: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(left_behind, "_LOOKED_AT", 2)
    calls = [effect(world, uid, f"mail {number}", "send_mail", "c1")[0] for number in range(5)]
    record(world, checkpoint(world, uid, "c1"), *calls[:2], stopped(world, uid))
    assert "<li>2 calls without an answer: <a" in ada.get(f"/runs/{uid}/audits/").text
    record(world, calls[2])
    assert "<li>at least 1 call without an answer: <a" in ada.get(f"/runs/{uid}/audits/").text
    record(world, calls[3], calls[4])
    assert "<li>at least 0 calls without an answer</li>" in ada.get(f"/runs/{uid}/audits/").text


# Where to fork


def test_cards_and_stops_lead_to_the_last_consistent_checkpoint_before_them(
    ada: Client, world: World, uid: str
) -> None:
    torn = checkpoint(world, uid, "c2", "c1")
    torn["body"]["consistent"] = False
    record(
        world,
        checkpoint(world, uid, "c1"),
        torn,
        delegated(world, uid, "brief", ago=900),
        checkpoint(world, uid, "c3", "c2"),
        stopped(world, uid),
    )
    page = audit_page(Run.objects.get(uid=uid), now())
    (card,) = (card for column in page.board for card in column.cards)
    assert card.fork is not None
    assert card.fork.checkpoint == world.checkpoint("c1")
    assert page.stops[0].fork.checkpoint == world.checkpoint("c3")
    summary = audit_summary(Run.objects.get(uid=uid), now())
    assert [each.checkpoint for each in summary.forks] == [world.checkpoint("c1"), world.checkpoint("c3")]
    for path in (f"/runs/{uid}/audits/", f"/runs/{uid}/"):
        assert ada.get(path).text.count(">Fork from here, before receipt ") == 2
    assert "Fork from here" not in signed_in(world.rosa).get(f"/runs/{uid}/audits/").text


def test_the_newest_delegation_counts_and_what_needs_no_attention_offers_no_fork(
    world: World, uid: str
) -> None:
    again = world.hmac("ref", "brief 2")
    record(
        world,
        checkpoint(world, uid, "c1"),
        delegated(world, uid, "brief", ago=900),
        checkpoint(world, uid, "c2", "c1"),
        delegated(world, uid, "brief", ago=600, handoff=again),
        delegated(world, uid, "new", ago=1),
    )
    cards = {
        card.operation: card.fork
        for column in audit_page(Run.objects.get(uid=uid), now()).board
        for card in column.cards
    }
    found = cards[world.hmac("ref", "brief")]
    assert found is not None
    assert found.checkpoint == world.checkpoint("c2")
    assert cards[world.hmac("ref", "new")] is None


def test_where_no_checkpoint_is_known_it_says_so(ada: Client, world: World, uid: str) -> None:
    record(world, delegated(world, uid, "brief", ago=900))
    page = ada.get(f"/runs/{uid}/audits/").text
    assert "No consistent checkpoint before receipt 2" in page
    assert "Fork from here" not in page


def test_the_link_opens_the_fork_page_at_that_checkpoint(ada: Client, world: World) -> None:
    run = failed_run(world)
    row = audit_page(run, now()).stops[0]
    assert row.fork.checkpoint is not None
    answer = ada.get(f"/runs/{run.uid}/fork/", {"checkpoint": row.fork.checkpoint})
    assert answer.status_code == 200


def test_what_the_page_asks_does_not_grow_with_stops_and_cards(ada: Client, world: World) -> None:
    counts = []
    for number in (2, 20):
        own = begin(world)
        record(world, checkpoint(world, own, "c1"))
        for each in range(number):
            record(
                world,
                delegated(world, own, f"work {each}", ago=900),
                effect(world, own, f"{own} {each}", "send_mail", "c1")[0],
                agent(stopped(world, own), "writer"),
            )
        with CaptureQueriesContext(connection) as asked:
            ada.get(f"/runs/{own}/audits/")
        counts.append(len(asked))
    assert counts[0] == counts[1]


# Whom it is routed to


@pytest.mark.parametrize("owner", ["legal-desk", "grace-desk"])
def test_the_page_says_that_a_declared_name_was_told_nothing(ada: Client, world: World, owner: str) -> None:
    own = begin(world, owners=["legal-desk"])
    sent = waiting(world, own, None)
    record(
        world,
        sent,
        delegated(world, own, "brief", ago=90),
        event(world, own, "brief", "accepted", ago=80),
        event(world, own, "brief", "waiting", ago=70, dependency=world.hmac("ref", "ruling")),
    )
    assert ada.post(f"/runs/{own}/audits/route/", form(world, sent, owner=owner)).status_code == 302
    (card,) = (card for column in audit_page(Run.objects.get(uid=own), now()).board for card in column.cards)
    wait = {"operation": card.operation, "action": "route_wait", "shown": card.shown, "owner": owner}
    assert ada.post(f"/runs/{own}/audits/recover/", wait).status_code == 302
    page = ada.get(f"/runs/{own}/audits/").text
    assert page.count("a declared name and no person") == (2 if owner == "legal-desk" else 0)
    assert f"for {owner}" in page


# Machines


def test_machines_are_told_how_many_of_very_many_operations_were_judged(
    client: Client, world: World, uid: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_routes, "MOST_SHOWN", 3)
    for number in range(5):
        record(world, delegated(world, uid, f"work {number}", ago=30))
    headers = {"Authorization": f"Bearer {world.token}"}
    found = client.get(f"/api/v1/runs/{uid}/audits", headers=headers).json()
    assert (found["operations"], found["judged"], len(found["handoffs"])) == (5, 3, 3)
    monkeypatch.undo()
    found = client.get(f"/api/v1/runs/{uid}/audits", headers=headers).json()
    assert (found["operations"], found["judged"]) == (5, 5)


def test_machines_are_told_which_receipt_shows_that_a_loop_went_on(
    client: Client, world: World, uid: str
) -> None:
    record(world, waiting(world, uid, None))
    headers = {"Authorization": f"Bearer {world.token}"}

    def went_on() -> list[int | None]:
        answer = client.get(f"/api/v1/runs/{uid}/audits", headers=headers).json()
        return [each.get("went_on") for each in answer["stops"]]

    assert went_on() == [None]
    record(world, world.sent(uid, "progress", {"measure": "artifact"}, at="2099-01-01T00:00:00Z"))
    assert went_on() == [3]
