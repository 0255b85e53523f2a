"""A disk that takes nothing for a moment: what was said then is said again, and is written once."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from branches.evidence.autogen_loop import Said
from debugger.recorder import Recorder, Run
from debugger.recorder.answers import Answers
from debugger.recorder.autogen.handovers import Handovers as TeamHandovers
from debugger.recorder.conformance.gate import Gate
from debugger.recorder.frames import AppendLog
from debugger.recorder.graph_handoffs import GraphHandoffs
from debugger.recorder.openai_agents.handovers import Handover
from debugger.recorder.openai_agents.handovers import Handovers as CrewHandovers
from debugger.recorder.pairs import Pairs
from debugger.recorder.spool import Spool
from tests.recorder.handoff_bench import HANDING, told
from tests.recorder.team import World, build

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate(HANDING)
    yield gate
    gate.close()


@contextmanager
def failing(owner: type[Any], name: str) -> Iterator[None]:
    """Let a call fail as it does on a disk that is full."""

    def fails(*_: Any, **__: Any) -> None:
        raise OSError("disk")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(owner, name, fails)
        yield


def again(say: Callable[[], object]) -> None:
    """Say something while the disk takes nothing, and once more when it does."""
    with failing(AppendLog, "append"), pytest.raises(OSError, match="disk"):
        say()
    say()


def started(gate: Gate, world: World) -> tuple[Recorder, Run]:
    recorder = world.open(gate.url)
    return recorder, recorder.start_run(build(recorder, world), thread_id="t-1")


def events(recorder: Recorder, gate: Gate, run: str) -> list[str]:
    assert recorder.flush(60)
    assert gate.refused == []
    return [event for _, event in told(gate, run)]


def operations(gate: Gate, run: str) -> int:
    return len({each["operation"] for each in gate.of(run, "handoff")})


@pytest.mark.parametrize("broken", [(AppendLog, "append"), (AppendLog, "sync"), (Answers, "add")])
def test_what_the_disk_did_not_take_is_said_again_and_written_once(
    gate: Gate, world: World, broken: tuple[type[Any], str]
) -> None:
    recorder, run = started(gate, world)
    attempt = run.operation("invoice").delegate("writer", by="planner")
    said: list[Callable[[], object]] = [
        attempt.accepted,
        lambda: attempt.waiting("printer"),
        attempt.progress,
        attempt.completed,
    ]
    for say in said:
        with failing(*broken), pytest.raises(OSError, match="disk"):
            say()
        say()
    assert events(recorder, gate, run.run) == ["delegated", "accepted", "waiting", "progress", "completed"]
    own = [each["writer_seq"] for each in gate.receipts if each["run"] == run.run]
    assert own == list(range(1, len(own) + 1))


def test_a_wait_for_another_that_failed_leaves_the_one_before_it(gate: Gate, world: World) -> None:
    recorder, run = started(gate, world)
    attempt = run.operation("invoice").delegate("writer", by="planner")
    attempt.waiting("printer")
    with failing(AppendLog, "append"), pytest.raises(OSError, match="disk"):
        attempt.waiting("approval")
    attempt.waiting("printer")  # that is written already
    attempt.waiting("approval")
    assert events(recorder, gate, run.run) == ["delegated", "waiting", "waiting"]
    waits = [each["dependency"] for each in gate.of(run.run, "handoff") if each["event"] == "waiting"]
    assert waits == ["printer", "approval"]


def test_a_line_that_the_disk_did_not_confirm_is_not_in_the_spool(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool")
    spool.append(b"1")
    with failing(AppendLog, "sync"), pytest.raises(OSError, match="disk"):
        spool.append(b"2", durable=True)
    spool.append(b"3", durable=True)
    batch = spool.peek(10, 1000)
    assert batch is not None
    assert (batch.lines, spool.waiting) == ((b"1", b"3"), 2)
    spool.close()


def test_the_hand_overs_of_a_graph_keep_their_operation_over_a_disk_error(gate: Gate, world: World) -> None:
    recorder, run = started(gate, world)
    seen = GraphHandoffs(run.record, {"writer": frozenset({"plan"})})
    given = {"plan": frozenset({"planner"})}
    again(lambda: seen.stepped(["writer"], given))
    again(lambda: seen.began("t-1", "writer", ["planner"]))
    again(lambda: seen.ended({"id": "t-1"}))
    assert events(recorder, gate, run.run) == ["delegated", "accepted", "completed"]
    assert (operations(gate, run.run), list(seen.done.values())) == (1, [[1]])


def test_the_hand_overs_of_a_crew_keep_their_operation_over_a_disk_error(gate: Gate, world: World) -> None:
    recorder, run = started(gate, world)
    seen = CrewHandovers(run.record, "trace_" + "0" * 32)
    seen.agent_began("", "planner", None)
    again(lambda: seen.handed_over("", Handover("planner", "writer"), (), failed=False))
    again(lambda: seen.agent_began("", "writer", None))
    again(lambda: seen.stopped("natural_finish", None))
    assert events(recorder, gate, run.run) == ["delegated", "accepted", "completed"]
    assert (operations(gate, run.run), list(seen.done.values())) == (1, [[1]])


def test_the_loop_of_an_agent_that_is_a_tool_ends_once_over_a_disk_error(gate: Gate, world: World) -> None:
    recorder, run = started(gate, world)
    seen = CrewHandovers(run.record, "trace_" + "0" * 32)
    seen.agent_began("call-1", "planner", "publisher")
    seen.handed_over("call-1", Handover("planner", "writer"), (), failed=False)
    seen.agent_began("call-1", "writer", None)
    again(lambda: seen.tool_ended("call-1", "ok"))
    seen.tool_ended("call-1", "ok")
    assert events(recorder, gate, run.run) == ["delegated", "accepted", "completed"]
    edges = [(each["from"], each["to"]) for each in gate.of(run.run, "interaction")]
    assert edges == [("planner", "writer"), ("publisher", "planner")]


def test_the_hand_overs_of_a_team_keep_their_operation_over_a_disk_error(gate: Gate, world: World) -> None:
    recorder, run = started(gate, world)
    seen = TeamHandovers(run.record)
    first = Said("m-1", "HandoffMessage", "planner", "2026-01-01T00:00:00Z", "", True, target="writer")
    second = replace(first, id="m-2")
    again(lambda: seen.said(first, {"event": "delegated"}))
    with failing(AppendLog, "append"), pytest.raises(OSError, match="disk"):
        seen.said(second, {"event": "delegated"})
    again(lambda: seen.said(first, {"event": "accepted"}))  # the work is still the first message's
    again(lambda: seen.said(first, {"event": "completed"}))
    assert events(recorder, gate, run.run) == ["delegated", "accepted", "completed"]
    assert operations(gate, run.run) == 1


def test_a_number_that_was_taken_for_what_failed_is_nobodys() -> None:
    pairs = Pairs()

    def taken() -> int:
        with pairs.taking("a") as number:
            raise OSError(number)

    for _ in range(2):
        with pytest.raises(OSError, match="0"):
            taken()
    with pairs.taking("a") as number:
        assert number == 0
