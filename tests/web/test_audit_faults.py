"""Receipts of a handoff that come twice, late, out of order or from somebody else."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from branches.commands.ingest_receipts import ingest_receipts
from branches.models import Recorder, Run
from branches.queries import audit_page as audit_page_module
from branches.queries.audits import audits_now
from branches.queries.branch_facts import branch_view
from branches.queries.clock import now
from tests.branches.test_branch_life import fork
from tests.builders import World, another_recorder, failed_run, said_by
from tests.plugins import FakeWorld
from tests.web.test_audits_page import handoff
from tests.web.test_recoveries import begin, delegated, event


def state(uid: str, ahead: timedelta = timedelta(0)) -> tuple[str, tuple[str, ...]]:
    (audit,) = audits_now(Run.objects.get(uid=uid), now() + ahead).handoffs
    return str(audit.verdict.state), audit.verdict.reasons


@pytest.fixture
def uid(world: World) -> str:
    return begin(world)


@pytest.fixture
def stranger(world: World) -> Recorder:
    """Another recorder of the workspace, with a token of its own."""
    return another_recorder(world, "another")


def done(world: World, uid: str) -> list[dict[str, Any]]:
    return [
        delegated(world, uid, "brief", ago=90),
        event(world, uid, "brief", "accepted", ago=80),
        event(world, uid, "brief", "completed", ago=70),
    ]


def test_what_comes_twice_counts_once(world: World, uid: str) -> None:
    sent = done(world, uid)
    world.ingest(*sent)
    before = state(uid)
    assert world.ingest(*sent).duplicates == 3
    assert state(uid) == before == ("false_success", ("unverified",))


def test_what_comes_out_of_order_is_judged_by_when_it_happened(world: World, uid: str) -> None:
    for sent in reversed(done(world, uid)):
        assert not world.ingest(sent).refused
    assert state(uid) == ("false_success", ("unverified",))


def test_what_comes_late_moves_a_state_that_the_clock_had_moved(world: World, uid: str) -> None:
    first, accepted, completed = done(world, uid)
    world.ingest(first)
    assert state(uid, timedelta(seconds=60)) == ("orphaned", ("not_accepted",))
    world.ingest(accepted)
    assert state(uid, timedelta(seconds=60))[0] == "working"
    world.ingest(completed)
    assert state(uid)[0] == "false_success"


def test_a_writer_who_is_not_the_runs_is_kept_and_makes_it_uncertain(
    world: World, uid: str, stranger: Recorder
) -> None:
    world.ingest(delegated(world, uid, "brief", ago=90))
    claim = event(world, uid, "brief", "accepted", ago=80)
    claim = {**claim, "writer_seq": 1}
    report = ingest_receipts(recorder=stranger, lines=[json.dumps(claim).encode()])
    assert (report.accepted, report.refused) == (1, [])
    assert state(uid) == ("uncertain", ("untrusted_writer",))


def test_the_receiver_does_not_verify_its_own_work(world: World) -> None:
    uid = begin(world, writers={"checks": {"outcomes": True}})
    artifact = world.hmac("content", "brief")
    own = event(world, uid, "brief", "outcome_verified", ago=60, expected_artifact=artifact)
    world.ingest(*done(world, uid))
    assert not said_by(another_recorder(world, "checks"), own).refused
    assert state(uid) == ("uncertain", ("self_verified",))


def test_anything_but_a_hand_over_of_somebody_elses_run_is_refused(
    world: World, uid: str, stranger: Recorder
) -> None:
    sent = {**world.sent(uid, "progress", {"measure": "artifact"}), "writer_seq": 1}
    report = ingest_receipts(recorder=stranger, lines=[json.dumps(sent).encode()])
    assert [(line.field, line.rule) for line in report.refused] == [("run", "foreign_writer")]


def test_what_a_stranger_says_leaves_the_recording_as_complete_as_it_was(
    world: World, outside: FakeWorld, stranger: Recorder
) -> None:
    run = failed_run(world)
    branch = fork(world, run)
    assert branch_view(branch).facts.effects_ledger == "complete"
    sent = {**handoff(world, run.uid, "brief", "progress", "writer"), "writer_seq": 1}
    sent["actor"] = {"type": "recorder", "id": stranger.uid}
    report = ingest_receipts(recorder=stranger, lines=[json.dumps(sent).encode()])
    assert (report.accepted, report.refused) == (1, [])
    assert branch_view(branch).facts.effects_ledger == "complete"


# A clock that runs ahead, and bounds


@pytest.mark.parametrize(
    ("events", "state_then"),
    [
        (["delegated"], "orphaned"),
        (["delegated", "accepted"], "stuck"),
        (["delegated", "accepted", "completed"], "false_success"),
    ],
)
def test_a_clock_that_runs_ahead_hides_no_bad_state(
    world: World, uid: str, events: list[str], state_then: str
) -> None:
    for name in events:
        make = (
            delegated(world, uid, "brief", ago=0)
            if name == "delegated"
            else event(world, uid, "brief", name, ago=0)
        )
        assert not world.ingest({**make, "at": "9998-01-01T00:00:00Z"}).refused
    assert state(uid, timedelta(days=30))[0] == state_then


def test_of_very_many_operations_those_that_moved_last_are_shown(
    ada: Any, world: World, uid: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_page_module, "MOST_SHOWN", 3)
    for number in range(6):
        world.ingest(delegated(world, uid, f"work {number}", ago=30))
    page = ada.get(f"/runs/{uid}/audits/").text
    assert "6 operations, the 3 that moved last are shown" in page
    assert page.count('<article class="op') == 3


def test_what_a_page_of_the_board_asks_does_not_grow_with_its_operations(ada: Any, world: World) -> None:
    counts = []
    for operations in (2, 20):
        own = begin(world)
        for number in range(operations):
            world.ingest(delegated(world, own, f"work {number}", ago=300))
        with CaptureQueriesContext(connection) as asked:
            ada.get(f"/runs/{own}/audits/")
        counts.append(len(asked))
    assert counts[0] == counts[1]
