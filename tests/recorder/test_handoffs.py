"""Durable hand-overs by name: one operation over retries, restarts and branches; each event once."""

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from branches.evidence.domains import REF
from debugger.recorder import OUTCOME, Recorder, Run, Verifier
from debugger.recorder.conformance.gate import KEY, Gate
from debugger.recorder.frames import read
from debugger.recorder.gates import OwnGate
from debugger.recorder.handoffs import Handoffs
from tests.recorder.handoff_bench import HANDING, told, verdicts
from tests.recorder.team import MARKER, World, ask, build

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate({**HANDING, "contract": None})
    yield gate
    gate.close()


def started(gate: Gate, world: World) -> tuple[Recorder, Run]:
    recorder = world.open(gate.url)
    return recorder, recorder.start_run(build(recorder, world), thread_id="t-1")


def delivered(recorder: Recorder, gate: Gate) -> None:
    assert recorder.flush(60)
    assert gate.refused == []


def bodies(gate: Gate, run: Run) -> list[dict[str, Any]]:
    return gate.of(run.run, "handoff")


def test_an_attempt_says_each_of_its_events_under_the_agent_whose_word_it_is(
    gate: Gate, world: World
) -> None:
    recorder, run = started(gate, world)
    attempt = run.operation(f"invoice {MARKER}").delegate("writer", by="planner")
    attempt.accepted()
    attempt.waiting("printer", datetime.now(UTC) + timedelta(hours=1))
    attempt.progress()
    attempt.completed()
    delivered(recorder, gate)
    assert told(gate, run.run) == [
        ("planner", "delegated"),
        ("writer", "accepted"),
        ("writer", "waiting"),
        ("writer", "progress"),
        ("writer", "completed"),
    ]
    assert verdicts(gate, run.run) == [("false_success", ["unverified"])]
    assert MARKER not in str(gate.receipts)


def test_an_event_that_was_said_is_not_said_again(gate: Gate, world: World) -> None:
    recorder, run = started(gate, world)
    attempt = run.operation("invoice").delegate("writer", by="planner")
    for _ in range(2):
        attempt.accepted()
        attempt.waiting("printer")
    attempt.waiting("approval")
    for _ in range(2):
        attempt.completed()
    delivered(recorder, gate)
    events = [event for _, event in told(gate, run.run)]
    assert events == ["delegated", "accepted", "waiting", "waiting", "completed"]


def test_a_second_attempt_gives_the_first_one_up_so_that_there_are_never_two_owners(
    gate: Gate, world: World
) -> None:
    recorder, run = started(gate, world)
    work = run.operation("invoice")
    first = work.delegate("writer", by="planner")
    first.accepted()
    second = work.delegate("publisher", by="planner")
    second.accepted()
    delivered(recorder, gate)
    assert second.operation == first.operation
    assert second.id != first.id
    assert [event for _, event in told(gate, run.run)] == [
        "delegated",
        "accepted",
        "released",
        "delegated",
        "accepted",
    ]
    assert verdicts(gate, run.run) == [("working", [])]
    assert not first.is_open
    assert work.attempt is not None
    assert work.attempt.id == second.id


def test_a_refused_attempt_is_an_orphan_with_its_declared_reason(gate: Gate, world: World) -> None:
    recorder, run = started(gate, world)
    run.operation("invoice").delegate("writer", by="planner").rejected("too_busy")
    delivered(recorder, gate)
    assert verdicts(gate, run.run) == [("orphaned", ["rejected"])]
    assert bodies(gate, run)[-1]["reason"] == "too_busy"


def test_only_the_constant_stands_for_the_declared_outcome(gate: Gate, world: World) -> None:
    recorder, run = started(gate, world)
    declared = KEY.digest(REF, "report-published")
    for name, artifact in (("a", OUTCOME), ("b", "report-published"), ("c", None)):
        run.operation(name, artifact=artifact).delegate("writer", by="planner")
    delivered(recorder, gate)
    promised = [each["expected_artifact"] for each in bodies(gate, run)]
    assert [each == declared for each in promised] == [True, False, False]
    assert len(set(promised)) == 3


def test_an_operation_is_the_same_in_a_branch_and_its_attempts_are_not(gate: Gate, world: World) -> None:
    recorder, run = started(gate, world)
    attempt = run.operation("invoice").delegate("writer", by="planner")
    branch = recorder.record("br_" + "a" * 24, run.run, OwnGate(run.run, recorder.answers), "att_" + "a" * 24)
    again = Handoffs(branch).operation("invoice").delegate("writer", by="planner")
    assert again.operation == attempt.operation
    assert again.id != attempt.id
    other = recorder.start_run(build(recorder, world), thread_id="t-2")
    assert other.operation("invoice").id != attempt.operation


@pytest.mark.parametrize(
    ("call", "rule"),
    [
        (lambda run: run.operation(""), "operation: empty"),
        (lambda run: run.operation("a").delegate("", by="planner"), "agent: empty"),
        (lambda run: run.operation("a").delegate("writer", by="p").waiting(""), "dependency: empty"),
        (
            lambda run: run.operation("a").delegate("w", by="p").waiting("x", datetime(2026, 1, 1)),  # noqa: DTZ001
            "deadline: no_offset",
        ),
    ],
)
def test_what_no_receipt_could_carry_is_refused_by_its_field(
    gate: Gate, world: World, call: Any, rule: str
) -> None:
    _, run = started(gate, world)
    with pytest.raises(ValueError, match=rule):
        call(run)


def test_an_event_is_on_the_disk_before_the_call_returns(gate: Gate, world: World) -> None:
    recorder, run = started(gate, world)
    gate.errors["receipts"] = 503
    run.operation("invoice").delegate("writer", by="planner")
    lines = [frame.payload for each in (world.home / "spool").glob("*.seg") for frame in read(each)]
    assert any(b'"event":"delegated"' in line for line in lines)
    gate.errors.clear()
    delivered(recorder, gate)


_DIES = """
import os, sys
from pathlib import Path
from tests.recorder import team
from tests.recorder.test_handoffs import started
from debugger.recorder.answers import Answers

class At:
    def __init__(self, url): self.url = url

team.install_probes()
recorder, run = started(At(sys.argv[1]), team.World(Path(sys.argv[2])))
run.operation("invoice").delegate("writer", by="planner").accepted()
print(run.run, flush=True)
if sys.argv[3] == "late":
    os._exit(9)
Answers.add = lambda self, entry: os._exit(9)  # the receipt is in the spool, and nothing else is
run.operation("invoice").attempt.completed()
"""


@pytest.mark.parametrize("moment", ["late", "early"])
def test_a_program_that_starts_again_goes_on_with_the_same_attempt(
    gate: Gate, world: World, moment: str
) -> None:
    died = subprocess.run(
        [sys.executable, "-c", _DIES, gate.url, str(world.folder), moment],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])},
    )
    assert died.returncode == 9, died.stderr
    run = died.stdout.split()[0]
    recorder = world.open(gate.url)
    book = recorder.handoffs(run)
    work = book.operation("invoice")
    if moment == "late":
        assert work.attempt is not None
        work.attempt.accepted()
        work.attempt.completed()
    assert work.attempt is None
    again = work.delegate("writer", by="planner")
    delivered(recorder, gate)
    assert [event for _, event in told(gate, run)] == ["delegated", "accepted", "completed", "delegated"]
    handoffs = [each["handoff"] for each in gate.of(run, "handoff")]
    assert handoffs == [handoffs[0]] * 3 + [again.id]
    with pytest.raises(LookupError, match="not_of_this_home"):
        recorder.handoffs("run_" + "z" * 24)


def test_a_closed_recording_is_closed_again_behind_what_comes_later(gate: Gate, world: World) -> None:
    recorder, run = started(gate, world)
    run.invoke(ask())
    run.operation("invoice").delegate("writer", by="planner")
    recorder.close()
    world.recorders.remove(recorder)
    recorder = world.open(gate.url)
    recorder.handoffs(run.run).operation("invoice").delegate("writer", by="planner")
    delivered(recorder, gate)
    own = [each for each in gate.receipts if each["run"] == run.run]
    assert [each["writer_seq"] for each in own] == list(range(1, len(own) + 1))
    assert own[-1]["kind"] == "recording_closed"
    assert own[-1]["body"]["count"] == len(own)


def test_a_loops_own_recorder_has_no_word_for_an_outcome(gate: Gate, world: World) -> None:
    _, run = started(gate, world)
    work = run.operation("invoice")
    offered = {name for each in (run, work, work.delegate("writer", by="planner")) for name in dir(each)}
    assert not [name for name in offered if name.startswith("outcome")]
    assert {"outcome_verified", "outcome_failed"} <= set(dir(Verifier))
