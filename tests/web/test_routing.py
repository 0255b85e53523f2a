"""An approval that waits for nobody is routed; a branch is forked before what should not have been."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from branches.commands.publish_workflow import publish_workflow
from branches.evidence import ids
from branches.models import Receipt, Run
from branches.queries.audit_page import audit_page
from branches.queries.audits import audits_now
from branches.queries.chains import latest
from branches.queries.clock import now, stamp
from branches.queries.run_stop import approval_of
from tests.builders import World, checkpoint, declaration, make_world, run_started, stopped
from tests.web.cast import signed_in
from tests.web.test_audits_page import edge, uid  # noqa: F401 - a fixture

# ruff: noqa: F811 - fixtures that are imported


def waiting(world: World, uid: str, approval: dict[str, Any] | None) -> dict[str, Any]:
    body = {
        "policy": {"version": None, "conditions": []},
        "stop_cause": "approval_requested",
        "steps": [],
        "tool_failed": False,
        "useful_progress": True,
        "approval": approval,
        "loop": "ended",
    }
    return world.sent(uid, "stopped", body)


def state(uid: str) -> tuple[str, tuple[str, ...]]:
    (stop,) = audits_now(Run.objects.get(uid=uid), now()).stops
    return str(stop.verdict.state), stop.verdict.reasons


def form(world: World, sent: dict[str, Any], **changes: str) -> dict[str, str]:
    deadline = (now() + timedelta(hours=2)).strftime("%Y-%m-%dT%H:%M")
    return {
        "stopped": sent["event_id"], "owner": world.grace.username, "deadline": deadline,
        "resume_token": "CONTENT-MARKER-7f3a", **changes,
    }  # fmt: skip


def test_it_is_routed_on_the_page_and_waits_from_then_on(ada: Client, world: World, uid: str) -> None:
    sent = waiting(world, uid, None)
    assert not world.ingest(sent).refused
    assert state(uid)[0] == "waiting_unrouted"
    assert "Route it…" in ada.get(f"/runs/{uid}/audits/").text
    answer = ada.post(f"/runs/{uid}/audits/route/", form(world, sent))
    assert answer.status_code == 302
    assert state(uid) == ("waiting", ())
    assert "Route it…" not in ada.get(f"/runs/{uid}/audits/").text
    body = Receipt.objects.get(run__uid=uid, kind="approval_routed").body
    assert "CONTENT-MARKER" not in body
    assert world.grace.uid in body


def test_what_the_loop_itself_said_is_not_overwritten(ada: Client, world: World, uid: str) -> None:
    own = {"owner": None, "deadline": None, "resume_token": world.hmac("ref", "own")}
    sent = waiting(world, uid, own)
    world.ingest(sent)
    assert state(uid) == ("waiting_unrouted", ("no_deadline", "no_owner"))
    ada.post(f"/runs/{uid}/audits/route/", form(world, sent))
    assert state(uid) == ("waiting", ())
    (stop,) = audits_now(Run.objects.get(uid=uid), now()).stops
    routed = latest(stop.stopped.run_id, "approval_routed")
    assert routed is not None
    judged = approval_of(stop.stopped, routed)
    assert judged is not None
    assert judged["resume_token"] == own["resume_token"] != routed.body["resume_token"]
    assert judged["owner"] == world.grace.uid


def test_an_approval_that_lacks_nothing_is_not_routed_again(ada: Client, world: World, uid: str) -> None:
    own = {
        "owner": world.grace.uid,
        "deadline": stamp(now() + timedelta(hours=1)),
        "resume_token": world.hmac("ref", "own"),
    }
    sent = waiting(world, uid, own)
    assert not world.ingest(sent).refused
    page = ada.post(f"/runs/{uid}/audits/route/", form(world, sent), follow=True).text
    assert "already says whom it waits for" in page
    assert not Receipt.objects.filter(run__uid=uid, kind="approval_routed").exists()


def test_each_of_two_stops_is_routed_apart(ada: Client, world: World, uid: str) -> None:
    older, newer = waiting(world, uid, None), waiting(world, uid, None)
    world.ingest(older, newer)
    for sent in (newer, older):
        ada.post(f"/runs/{uid}/audits/route/", form(world, sent))
    assert "Waiting, unrouted" not in ada.get(f"/runs/{uid}/").text
    assert "Waiting, unrouted" not in ada.get("/").text


def test_without_a_token_nobody_could_go_on(ada: Client, world: World, uid: str) -> None:
    sent = waiting(world, uid, None)
    world.ingest(sent)
    ada.post(f"/runs/{uid}/audits/route/", form(world, sent, resume_token=""))
    assert state(uid) == ("waiting_unrouted", ("no_resume_token",))


def test_what_cannot_be_routed_says_why(ada: Client, world: World, uid: str) -> None:
    sent = waiting(world, uid, None)
    world.ingest(sent)
    for change, words in (
        ({"owner": world.linus.username}, "nobody of that name"),
        ({"deadline": "2020-01-01T00:00"}, "deadline has to be in the future"),
        ({"deadline": "soon"}, "deadline has to be a date and a time"),
        ({"stopped": "evt_" + "a" * 24}, "there is no such stopped"),
    ):
        page = ada.post(f"/runs/{uid}/audits/route/", form(world, sent, **change), follow=True).text
        assert words in page, change
    page = signed_in(world.rosa).post(f"/runs/{uid}/audits/route/", form(world, sent), follow=True).text
    assert "this needs the role engineer" in page
    assert state(uid)[0] == "waiting_unrouted"


def test_what_was_typed_is_kept_where_it_is_refused(ada: Client, world: World, uid: str) -> None:
    sent = waiting(world, uid, None)
    world.ingest(sent)
    typed = form(world, sent, deadline="2020-01-01T00:00", resume_token="token-1")
    answer = ada.post(f"/runs/{uid}/audits/route/", typed)
    assert answer.status_code == 422
    for kept in (f"selected>{world.grace.username}<", 'value="2020-01-01T00:00"', 'value="token-1"'):
        assert kept in answer.text


def test_a_branch_is_forked_before_the_forbidden_edge(ada: Client, world: World, uid: str) -> None:
    world.ingest(
        checkpoint(world, uid, "c1"),
        edge(world, uid, "planner", "writer"),
        checkpoint(world, uid, "c2", "c1"),
        edge(world, uid, "writer", "planner"),
        checkpoint(world, uid, "c3", "c2"),
    )
    page = ada.get(f"/runs/{uid}/audits/").text
    assert page.count("Fork before it") == 1
    assert "Fork before it</a><span>Forbidden, seen: <code>writer</code> → <code>planner</code>" in page
    assert world.checkpoint("c2").replace(":", "%3A") in page
    assert world.checkpoint("c3").replace(":", "%3A") not in page


def test_a_run_without_a_checkpoint_offers_no_fork(ada: Client, world: World, uid: str) -> None:
    world.ingest(edge(world, uid, "writer", "planner"))
    assert "Fork before it" not in ada.get(f"/runs/{uid}/audits/").text


def test_another_workspaces_run_is_not_routed(ada: Client, world: World) -> None:
    sent = waiting(world, run_started(world, "run_" + "a" * 24)["run"], None)
    assert ada.post(f"/runs/{sent['run']}/audits/route/", form(world, sent)).status_code == 404


def test_a_form_that_no_database_takes_is_bad_input(ada: Client, world: World, uid: str) -> None:
    sent = waiting(world, uid, None)
    world.ingest(sent)
    for change in ({"owner": "a\0b"}, {"stopped": "\0"}):
        assert ada.post(f"/runs/{uid}/audits/route/", form(world, sent, **change)).status_code == 400
    early = {"deadline": "9999-12-31T23:59:59-23:59"}
    page = ada.post(f"/runs/{uid}/audits/route/", form(world, sent, **early), follow=True).text
    assert "deadline has to be a date and a time" in page


def waits_for(client: Client, uid: str) -> list[str]:
    """Return what the rows of the stops say of whom they wait for."""
    page = client.get(f"/runs/{uid}/audits/").text
    cells = re.findall(r'<td data-label="Waits for">(.*?)</td>', page, re.DOTALL)
    return [" ".join(re.sub(r"<[^>]+>", " ", cell).split()) for cell in cells]


def test_a_routed_stop_shows_who_decides_and_until_when(ada: Client, world: World, uid: str) -> None:
    sent = waiting(world, uid, None)
    world.ingest(sent)
    assert waits_for(ada, uid) == ["nobody named no deadline"]
    deadline = now() + timedelta(hours=2, minutes=30)
    ada.post(f"/runs/{uid}/audits/route/", form(world, sent, deadline=deadline.strftime("%Y-%m-%dT%H:%M")))
    (said,) = waits_for(ada, uid)
    day = f"{deadline.day} {deadline:%b %Y %H:%M}"
    receipt = Receipt.objects.get(run__uid=uid, kind="approval_routed")
    assert said.startswith(f"{world.grace.username} until {day} , in 2 h routed ")
    assert said.endswith(f", receipt {receipt.seq}")
    assert "Overdue" not in said
    page = ada.get(f"/runs/{uid}/audits/").text
    assert f'mark={receipt.seq}#r{receipt.seq}">receipt {receipt.seq}</a>' in page
    assert f'datetime="{deadline:%Y-%m-%dT%H:%M}:00+00:00"' in page


def test_a_declared_owner_is_shown_by_its_name_and_a_covered_one_short(ada: Client, world: World) -> None:
    declared = declaration(version="9.1.0", owners=["desk-lead"])
    workflow = publish_workflow(workspace=world.workspace, publisher=world.recorder.uid, declaration=declared)
    uid = ids.mint("run")
    world.ingest(run_started(world, uid, workflow=workflow.uid, workflow_version="9.1.0"))
    sent, covered = waiting(world, uid, None), world.hmac("name", "somebody")
    sent["body"]["loop_ref"] = world.hmac("ref", "one")  # two loops that wait at once have names
    own = {"owner": covered, "deadline": stamp(now() + timedelta(days=3)), "resume_token": None}
    assert not world.ingest(sent, waiting(world, uid, own)).refused
    ada.post(f"/runs/{uid}/audits/route/", form(world, sent, owner="desk-lead"))
    first, second = waits_for(ada, uid)
    assert first.startswith("desk-lead until ")
    assert covered not in second
    assert second.startswith(f"{covered.rsplit(':', 1)[1][:4]}…{covered[-2:]} until ")


@pytest.mark.parametrize(("hours", "age"), [(-3, "3 h ago"), (-49, "2 d ago")])
def test_a_deadline_that_has_passed_is_overdue(
    ada: Client, world: World, uid: str, hours: int, age: str
) -> None:
    own = {
        "owner": world.grace.uid,
        "deadline": stamp(now() + timedelta(hours=hours)),
        "resume_token": world.hmac("ref", "own"),
    }
    world.ingest(waiting(world, uid, own))
    (said,) = waits_for(ada, uid)
    assert said.startswith(f"{world.grace.username} until ")
    assert said.endswith(f", {age} Overdue")


def test_the_deadline_becomes_overdue_by_the_clock_alone(world: World, uid: str) -> None:
    at = now()
    own = {"owner": world.grace.uid, "deadline": stamp(at + timedelta(hours=1)), "resume_token": None}
    world.ingest(waiting(world, uid, own))
    run = Run.objects.get(uid=uid)
    found = [
        row.awaited.is_overdue
        for hours in (0, 1, 2)
        for row in audit_page(run, at + timedelta(hours=hours)).stops
        if row.awaited is not None
    ]
    assert found == [False, True, True]


def test_a_stop_that_waits_for_no_approval_says_so(ada: Client, world: World, uid: str) -> None:
    world.ingest(stopped(world, uid))
    assert waits_for(ada, uid) == ["no approval"]


def test_a_person_of_another_workspace_is_not_named(ada: Client, world: World, uid: str) -> None:
    stranger = make_world("elsewhere").grace
    own = {"owner": stranger.uid, "deadline": None, "resume_token": None}
    assert not world.ingest(waiting(world, uid, own)).refused
    page = ada.get(f"/runs/{uid}/audits/").text
    assert stranger.username not in page
    assert stranger.uid in page
