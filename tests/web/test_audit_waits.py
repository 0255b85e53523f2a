"""When a run is over, what it waits for, and when a stop for an approval waits no more."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client

from branches.commands.publish_workflow import publish_workflow
from branches.commands.refusal import Refused
from branches.commands.route_approval import route_approval
from branches.evidence import ids
from branches.models import Run
from branches.queries.audit_page import audit_page, audit_summary
from branches.queries.audits import audits_json, audits_now
from branches.queries.clock import now, stamp
from branches.queries.run_list import run_list
from branches.queries.timeline import run_head
from tests.builders import World, checkpoint, closed, declaration, effect, message, run_started, stopped
from tests.web.cast import signed_in
from tests.web.test_audits_page import AGENTS, CONTRACT, edge, handoff, uid  # noqa: F401 - a fixture
from tests.web.test_routing import form, waiting

# ruff: noqa: F811 - fixtures that are imported

START = datetime(2026, 11, 30, 9, tzinfo=UTC)
HOUR = timedelta(hours=1)


def at(minutes: int, sent: dict[str, Any]) -> dict[str, Any]:
    """Return a receipt as of so many minutes after the start."""
    return {**sent, "at": stamp(START + timedelta(minutes=minutes))}


def bodied(sent: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {**sent, "body": {**sent["body"], **changes}}


def owned(world: World, ahead: timedelta, owner: str | None = None) -> dict[str, Any]:
    """Return an approval that somebody owns until so long from now."""
    return {
        "owner": world.grace.uid if owner is None else owner,
        "deadline": stamp(now() + ahead),
        "resume_token": world.hmac("ref", "own"),
    }


def record(world: World, *sent: dict[str, Any]) -> None:
    report = world.ingest(*sent)
    assert not report.refused, report.refused


def topology(uid: str, ahead: timedelta = timedelta(0)) -> tuple[str, tuple[str, ...]]:
    audit = audits_now(Run.objects.get(uid=uid), now() + ahead).topology
    assert audit is not None
    return str(audit.verdict.verdict), audit.verdict.reasons


def waits(uid: str) -> list[bool]:
    return [each.waits for each in audits_now(Run.objects.get(uid=uid), now()).stops]


MISSING = ("no_outcome_receipt", "planner>writer:delegate", "writer>critic:delegate")


# A run that is over


def test_a_run_whose_own_newest_stop_says_done_is_over(world: World, uid: str) -> None:
    record(world, message(world, uid, "one", "writer"), stopped(world, uid), closed(world, uid))
    assert topology(uid) == ("false_complete", MISSING)


def test_a_run_that_waits_for_an_approval_is_not_over(world: World, uid: str) -> None:
    record(world, waiting(world, uid, None))
    assert topology(uid) == ("uncertain", ("no_recent_progress",))


def test_a_run_that_waits_after_its_tool_failed_is_not_over(world: World, uid: str) -> None:
    record(world, bodied(waiting(world, uid, None), tool_failed=True))
    assert topology(uid)[0] == "uncertain"


@pytest.mark.parametrize("changes", [{"stop_cause": None}, {"approval": {
    "owner": None, "deadline": None, "resume_token": None}}])  # fmt: skip
def test_a_stop_that_may_be_a_wait_for_all_that_is_known_ends_no_run(
    world: World, uid: str, changes: dict[str, Any]
) -> None:
    record(world, bodied(stopped(world, uid), **changes))
    assert topology(uid)[0] == "uncertain"


def test_an_inner_loop_that_finished_does_not_end_the_run_that_went_on(world: World, uid: str) -> None:
    inner = bodied(stopped(world, uid), loop_ref=world.hmac("ref", "inner"))
    record(world, at(1, inner), at(2, message(world, uid, "two", "writer")))
    assert topology(uid)[0] == "uncertain"
    record(world, at(3, stopped(world, uid)))
    assert topology(uid)[0] == "false_complete"


def test_a_loop_that_finished_does_not_end_a_run_whose_other_loop_waits(world: World, uid: str) -> None:
    asks = bodied(waiting(world, uid, None), loop_ref=world.hmac("ref", "asks"))
    ends = bodied(stopped(world, uid), loop_ref=world.hmac("ref", "ends"))
    record(world, at(1, asks), at(2, ends))
    assert topology(uid)[0] == "uncertain"
    assert waits(uid) == [True, False]


@pytest.mark.parametrize("kind", ["message", "effect", "interaction", "handoff", "progress"])
def test_work_after_a_stop_says_that_the_run_is_not_over(world: World, uid: str, kind: str) -> None:
    artifact = world.hmac("content", "artifact")
    sent = {
        "message": lambda: [message(world, uid, "late", "writer")],
        "effect": lambda: effect(world, uid, "look", "look_up", "c1"),
        "interaction": lambda: [edge(world, uid, "planner", "writer")],
        "handoff": lambda: [
            handoff(world, uid, "o", "delegated", "planner", receiver="writer", expected_artifact=artifact)
        ],
        "progress": lambda: [world.sent(uid, "progress", {"measure": "message"})],
    }[kind]
    record(world, at(1, stopped(world, uid)))
    assert topology(uid)[0] == "false_complete"
    record(world, *(at(2, each) for each in sent()))
    assert topology(uid)[0] != "false_complete"


def test_what_came_late_but_happened_before_a_stop_leaves_the_run_over(world: World, uid: str) -> None:
    record(world, at(5, stopped(world, uid)), at(1, message(world, uid, "late", "writer")))
    assert topology(uid)[0] == "false_complete"


def test_a_stop_that_came_late_and_was_followed_by_work_ends_nothing(world: World, uid: str) -> None:
    record(world, at(5, message(world, uid, "later", "writer")), at(1, stopped(world, uid)))
    assert topology(uid)[0] == "uncertain"


def test_what_settles_a_handoff_after_the_stop_is_no_work(world: World, uid: str) -> None:
    artifact = world.hmac("content", "artifact")
    given = handoff(world, uid, "o", "delegated", "planner", receiver="writer", expected_artifact=artifact)
    record(world, at(1, given), at(2, handoff(world, uid, "o", "accepted", "writer")))
    record(world, at(3, stopped(world, uid)), at(4, handoff(world, uid, "o", "completed", "writer")))
    assert topology(uid)[0] == "false_complete"


# What a run waits for


def asks(world: World, uid: str, name: str, deadline: timedelta | None) -> list[dict[str, Any]]:
    """Return an operation that waits for the legal desk, until so long from now."""
    artifact = world.hmac("content", name)
    until = {} if deadline is None else {"deadline": stamp(now() + deadline)}
    legal = world.hmac("ref", f"legal {name}")
    return [
        handoff(world, uid, name, "delegated", "planner", receiver="writer", expected_artifact=artifact),
        handoff(world, uid, name, "accepted", "writer"),
        handoff(world, uid, name, "waiting", "writer", dependency=legal, **until),
    ]


def test_a_run_whose_operation_waits_is_waiting_and_past_the_deadline_incomplete(
    world: World, uid: str
) -> None:
    record(world, *asks(world, uid, "brief", HOUR))
    assert topology(uid) == ("waiting", (f"dependency:{world.hmac('ref', 'legal brief')}",))
    assert topology(uid, 2 * HOUR) == ("incomplete", MISSING[1:])


def test_of_several_waits_the_one_that_is_due_first_counts(world: World, uid: str) -> None:
    record(world, *asks(world, uid, "open", None), *asks(world, uid, "far", 3 * HOUR))
    assert topology(uid) == ("waiting", (f"dependency:{world.hmac('ref', 'legal far')}",))
    record(world, *asks(world, uid, "near", HOUR))
    assert topology(uid) == ("waiting", (f"dependency:{world.hmac('ref', 'legal near')}",))
    assert topology(uid, 2 * HOUR)[0] == "incomplete"


def test_a_wait_without_a_deadline_is_no_reason_to_wait_for_ever(world: World, uid: str) -> None:
    record(world, *asks(world, uid, "open", None))
    assert topology(uid) == ("uncertain", ("no_recent_progress",))


def test_an_approval_that_the_loop_routed_is_what_its_run_waits_for(world: World, uid: str) -> None:
    record(world, waiting(world, uid, owned(world, HOUR)))
    assert topology(uid) == ("waiting", (f"dependency:{world.grace.uid}",))
    assert topology(uid, 2 * HOUR) == ("incomplete", MISSING[1:])


def test_an_approval_that_a_person_routed_is_what_its_run_waits_for(
    ada: Client, world: World, uid: str
) -> None:
    sent = waiting(world, uid, None)
    record(world, sent)
    assert topology(uid)[0] == "uncertain"
    ada.post(f"/runs/{uid}/audits/route/", form(world, sent))
    assert topology(uid) == ("waiting", (f"dependency:{world.grace.uid}",))


def test_an_approval_that_was_answered_is_no_longer_what_its_run_waits_for(world: World, uid: str) -> None:
    record(world, at(1, waiting(world, uid, owned(world, HOUR))), at(2, message(world, uid, "on", "writer")))
    assert topology(uid, 2 * HOUR) == ("uncertain", ("no_recent_progress",))


def test_the_workflows_own_limit_says_what_recent_progress_is(world: World) -> None:
    limits = {"max_age_s": 900, "start_s": 60, "handoffs": {"progress_s": 7200}}
    declared = declaration(version="9.3.0", agents=AGENTS, contract=CONTRACT, limits=limits)
    workflow = publish_workflow(workspace=world.workspace, publisher=world.recorder.uid, declaration=declared)
    own = ids.mint("run")
    configuration = {"agents": [], "routing": None}
    begun = run_started(
        world, own, workflow=workflow.uid, workflow_version="9.3.0", configuration=configuration,
        contract_version="1",
    )  # fmt: skip
    moved = {**world.sent(own, "progress", {"measure": "message"}), "at": stamp(now())}
    record(world, begun, moved)
    assert topology(own, HOUR)[0] == "working"
    assert topology(own, 3 * HOUR) == ("uncertain", ("no_recent_progress",))


# A stop for an approval that waits no more


def row(client: Client, uid: str, number: int = 0) -> str:
    page = client.get(f"/runs/{uid}/audits/").text
    (body,) = re.findall(r'<section class="card" id="stops".*?<tbody>(.*?)</tbody>', page, re.DOTALL)
    return str(body.split("</tr>")[number])


def test_a_later_stop_of_the_same_loop_supersedes_its_wait(ada: Client, world: World, uid: str) -> None:
    record(world, at(1, waiting(world, uid, owned(world, -HOUR))))
    assert "Overdue" in row(ada, uid)
    record(world, at(9, stopped(world, uid)))
    assert waits(uid) == [False, False]
    first, last = row(ada, uid), row(ada, uid, 1)
    assert "Went on" in first
    assert "next stop, receipt 3" in first
    assert world.grace.username in first  # the history stays
    for word in ("Overdue", "Waiting", "Route", "ago"):
        assert word not in first, word
    assert "Says complete" in last
    page = audit_page(Run.objects.get(uid=uid), now())
    assert (page.loops, len(page.stops)) == (1, 2)
    assert [each.words for each in audit_summary(Run.objects.get(uid=uid), now()).stops] == ["Says complete"]


def test_further_work_supersedes_an_unrouted_wait_and_takes_its_form_away(
    ada: Client, world: World, uid: str
) -> None:
    record(world, at(1, checkpoint(world, uid, "c1")), at(2, waiting(world, uid, None)))
    assert "Route it…" in row(ada, uid)
    record(world, at(3, checkpoint(world, uid, "c2", "c1")))
    first = row(ada, uid)
    assert "next work, receipt 4" in first
    assert "Route it…" not in first
    assert "Add owner and route" not in first
    (said,) = audits_json(audits_now(Run.objects.get(uid=uid), now()))["stops"]
    assert (said["state"], said["went_on"]) == ("waiting_unrouted", 4)


def test_the_second_of_two_waits_waits(world: World, uid: str) -> None:
    record(world, at(1, waiting(world, uid, None)), at(2, message(world, uid, "on", "writer")))
    record(world, at(3, waiting(world, uid, None)))
    assert waits(uid) == [False, True]


def test_an_answer_to_an_earlier_call_does_not_say_that_the_loop_went_on(world: World, uid: str) -> None:
    intended, answered = effect(world, uid, "look", "look_up", "c1")
    record(world, at(1, intended), at(2, waiting(world, uid, None)), at(3, answered))
    artifact = world.hmac("content", "artifact")
    given = handoff(world, uid, "o", "delegated", "planner", receiver="writer", expected_artifact=artifact)
    record(world, at(4, given))
    assert waits(uid) == [True]


def test_what_came_late_but_happened_before_does_not_answer_a_wait(world: World, uid: str) -> None:
    record(world, at(5, waiting(world, uid, None)))
    record(world, at(1, message(world, uid, "late", "writer")), at(2, stopped(world, uid)))
    assert waits(uid) == [False, True]


def test_a_wait_that_came_late_is_answered_by_what_happened_after_it(world: World, uid: str) -> None:
    record(world, at(5, message(world, uid, "later", "writer")), at(1, waiting(world, uid, None)))
    assert waits(uid) == [False]


def test_a_wait_without_a_time_is_placed_as_it_was_recorded(world: World, uid: str) -> None:
    untimed = {**waiting(world, uid, None), "at": "1970-01-01T00:00:00Z"}
    record(world, at(5, message(world, uid, "before", "writer")), untimed)
    assert waits(uid) == [True]
    record(world, at(1, message(world, uid, "after", "writer")))
    assert waits(uid) == [False]


def test_a_wait_of_a_named_loop_is_not_answered_by_another_loop(world: World, uid: str) -> None:
    named = bodied(waiting(world, uid, None), loop_ref=world.hmac("ref", "a"))
    other = bodied(stopped(world, uid), loop_ref=world.hmac("ref", "b"))
    record(world, at(1, named), at(2, message(world, uid, "on", "writer")), at(3, other))
    record(world, at(4, stopped(world, uid)))
    assert waits(uid) == [True, False, False]


def test_a_wait_that_names_its_agent_is_answered_by_that_agent_alone(world: World, uid: str) -> None:
    writer = {"actor": {"type": "agent", "name": "writer"}}
    critic = {"actor": {"type": "agent", "name": "critic"}}
    record(world, at(1, {**waiting(world, uid, None), **writer}))
    record(world, at(2, {**message(world, uid, "x", "critic"), **critic}))
    record(world, at(3, {**stopped(world, uid), **critic}))
    assert waits(uid) == [True, False]
    record(world, at(4, {**message(world, uid, "y", "writer"), **writer}))
    assert waits(uid) == [False, False]


# A card leads to its receipts


def test_a_card_leads_to_each_of_its_receipts(ada: Client, world: World, uid: str) -> None:
    record(world, *asks(world, uid, "brief", HOUR))
    page = ada.get(f"/runs/{uid}/audits/").text
    assert "<summary>3 receipts</summary>" in page
    for seq, event in ((2, "delegated"), (3, "accepted"), (4, "waiting")):
        assert f'/runs/{uid}/?at={seq}&amp;mark={seq}#r{seq}">{event}, receipt {seq}</a>' in page


def test_a_card_of_very_many_receipts_leads_to_the_newest(ada: Client, world: World, uid: str) -> None:
    record(world, *asks(world, uid, "brief", HOUR)[:2])
    record(world, *(handoff(world, uid, "brief", "progress", "writer") for _ in range(30)))
    page = ada.get(f"/runs/{uid}/audits/").text
    assert "<summary>32 receipts, the newest 20</summary>" in page
    assert "progress, receipt 33</a>" in page
    assert "progress, receipt 13</a>" not in page


# The stop slot of a run


def slots(uid: str) -> tuple[str, str]:
    """Return what the page of a run and the list of runs print as its stop."""
    run = Run.objects.get(uid=uid)
    (row,) = [
        each
        for each in run_list(run.workspace, chosen="all", before=None, find="").rows
        if each.run.uid == uid
    ]
    return run_head(run).stop.words, row.stop.words


def test_a_run_that_went_on_after_an_approval_is_running_and_no_more_waiting(world: World, uid: str) -> None:
    record(world, at(1, waiting(world, uid, owned(world, HOUR))))
    assert slots(uid) == ("Waiting", "Waiting")
    record(world, at(2, message(world, uid, "on", "writer")))
    assert slots(uid) == ("Running", "Running")


def test_an_approval_that_was_answered_is_not_routed(world: World, uid: str) -> None:
    sent = waiting(world, uid, None)
    record(world, at(1, sent), at(2, message(world, uid, "on", "writer")))
    with pytest.raises(Refused, match="already_answered"):
        route_approval(
            person=world.ada,
            run=Run.objects.get(uid=uid),
            stopped=sent["event_id"],
            owner=world.grace.uid,
            deadline=now() + HOUR,
            resume_token="token",
        )


def test_a_stop_names_its_agent_and_the_version_of_its_policy(world: World, uid: str) -> None:
    sent = bodied(stopped(world, uid), policy={"version": "7.2", "conditions": []})
    record(world, {**sent, "actor": {"type": "agent", "name": "writer"}})
    page = signed_in(world.ada).get(f"/runs/{uid}/audits/").content.decode()
    row = page[page.index('id="stops"') :]
    assert '<span class="two">writer</span>' in row
    assert '<span class="two">version 7.2</span>' in row
