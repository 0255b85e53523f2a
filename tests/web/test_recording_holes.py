"""What a run's writer numbered and nobody has is a hole, whether or not it closed its recording."""

from typing import Any

import pytest

from branches.models import Recorder, Run
from branches.queries import counted
from branches.queries.audits import audits_now
from branches.queries.clock import now
from branches.queries.counted import is_short
from tests.builders import World, another_recorder, closed, said_by
from tests.web.test_audit_findings import TWICE, begun, edge, record
from tests.web.test_audits_page import handoff


@pytest.fixture
def uid(world: World) -> str:
    return begun(world, [TWICE], "9.20.0")


def sent(world: World, uid: str, many: int) -> list[dict[str, Any]]:
    """Return interactions that are numbered from 2 on, for the run's start is the first."""
    return [edge(world, uid, "planner", "writer") for _ in range(many)]


def run(uid: str) -> Run:
    return Run.objects.get(uid=uid)


def evidence(uid: str) -> str:
    audit = audits_now(run(uid), now()).topology
    assert audit is not None
    return audit.evidence


def stranger_says(world: World, uid: str, stranger: Recorder, many: int) -> None:
    said = [handoff(world, uid, f"work {number}", "progress", "writer") for number in range(many)]
    assert not said_by(stranger, *said).refused


def test_a_recorder_that_died_with_a_hole_in_its_count_leaves_evidence_unknown(
    world: World, uid: str
) -> None:
    second, third, fourth = sent(world, uid, 3)
    record(world, second, fourth)
    assert evidence(uid) == "unknown"
    record(world, third)
    assert evidence(uid) == "complete"


def test_a_recording_that_is_not_closed_is_complete_so_far(world: World, uid: str) -> None:
    lines = sent(world, uid, 2)
    record(world, *lines)
    assert evidence(uid) == "complete"
    assert world.ingest(*lines).duplicates == 2  # what comes a second time is no second receipt
    assert evidence(uid) == "complete"


def test_what_came_out_of_order_is_no_hole_and_hides_none(world: World, uid: str) -> None:
    lines = sent(world, uid, 40)
    record(world, *reversed(lines))
    assert evidence(uid) == "complete"
    lost, *rest = sent(world, uid, 40)
    record(world, *reversed(rest))
    assert evidence(uid) == "unknown"
    record(world, lost)
    assert evidence(uid) == "complete"


def test_a_closed_recording_is_judged_by_what_it_counted(world: World, uid: str) -> None:
    lost, kept = sent(world, uid, 2)
    record(world, kept, closed(world, uid))
    assert evidence(uid) == "unknown"
    record(world, lost)
    assert evidence(uid) == "complete"


def test_what_others_say_neither_makes_a_hole_nor_hides_one(
    world: World, uid: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counted, "_AT_ONCE", 3)
    stranger = another_recorder(world, "stranger")
    lost, kept = sent(world, uid, 2)
    record(world, kept)
    stranger_says(world, uid, stranger, 8)
    assert is_short(run(uid))
    record(world, lost)
    stranger_says(world, uid, stranger, 8)
    assert not is_short(run(uid))


def test_behind_very_many_of_others_nobody_can_tell(
    world: World, uid: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counted, "_AT_ONCE", 3)
    monkeypatch.setattr(counted, "_FURTHEST", 6)
    stranger_says(world, uid, another_recorder(world, "stranger"), 8)
    assert is_short(run(uid))


def test_of_a_long_run_only_its_newest_receipts_are_read(
    world: World, uid: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(world, *sent(world, uid, 30))
    monkeypatch.setattr(counted, "_NEWEST", 4)
    monkeypatch.setattr(counted, "_AT_ONCE", 4)
    read = []
    loads = counted.json.loads
    monkeypatch.setattr(counted.json, "loads", lambda text: read.append(text) or loads(text))
    assert not counted._has_hole(run(uid), world.recorder.uid)
    assert len(read) == 4
