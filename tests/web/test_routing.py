"""An approval that waits for nobody is routed; a branch is forked before what should not have been."""

from datetime import timedelta
from typing import Any

from django.test import Client

from branches.models import Receipt, Run
from branches.queries.audits import audits_now
from branches.queries.chains import latest
from branches.queries.clock import now, stamp
from branches.queries.run_stop import approval_of
from tests.builders import World, checkpoint, run_started
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
