"""The memory of agents of the OpenAI SDK: which saved state is meant, and what is never read as one."""

import json
import os
import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from branches.ports import Moment, StateMeasurement
from debugger.adapters.probes import openai_agents_memory
from debugger.adapters.probes.openai_agents_memory import RunStateMemoryProbe
from tests.adapters.contracts import ends_cleanly
from tests.adapters.places import KEY, MARKER, MOMENT, NOW, target
from tests.adapters.places_runtimes import SavedRuns

PAGE = (Path(__file__).parents[2] / "docs" / "probes" / "openai_agents_memory.md").read_text()


@pytest.fixture
def runs(tmp_path: Path) -> SavedRuns:
    return SavedRuns(tmp_path)


def measured(runs: SavedRuns, moment: Moment | None = None) -> StateMeasurement:
    return RunStateMemoryProbe().measure(runs.target(), moment or runs.moment)


def clear(runs: SavedRuns, **named: str) -> StateMeasurement:
    return RunStateMemoryProbe().measure(target(store=str(runs.store), **named), MOMENT)


def anywhere(runs: SavedRuns) -> Moment:
    """The same checkpoint, where nothing says in which run's folder: a branch's branch."""
    return replace(runs.moment, external_ref=None)


def test_a_copy_in_a_branch_s_folder_is_the_same_state(runs: SavedRuns) -> None:
    found = measured(runs)
    assert found.fingerprint is not None
    assert measured(runs, anywhere(runs)) == found
    branch = Moment(KEY.digest("thread", "br_1"), runs.moment.checkpoint, NOW)
    assert measured(runs, branch) == found
    assert RunStateMemoryProbe().capture(runs.target(), runs.moment) == found


def test_copies_that_disagree_prove_nothing(runs: SavedRuns) -> None:
    before = measured(runs)
    runs.write({**runs.state, "current_turn": 99}, runs.files[1])
    found = measured(runs, anywhere(runs))
    assert (found.fingerprint, found.problem) == (None, "checkpoint_ambiguous")
    assert measured(runs) == before


def test_a_trace_is_no_part_of_the_state(runs: SavedRuns) -> None:
    before = measured(runs)
    runs.write({**runs.state, "trace": {"id": "trace_other"}})
    assert measured(runs) == before


def test_ids_in_clear_go_before_the_moment_s_and_the_newest_is_meant_without_one(runs: SavedRuns) -> None:
    whole = measured(runs)
    assert clear(runs, thread_id="trace-1", checkpoint_id="ck-1") == whole
    assert clear(runs, checkpoint_id="ck-1") == whole
    runs.write({**runs.state, "current_turn": 99}, runs.store / "trace-1" / "ck-2.json")
    newest = clear(runs, thread_id="trace-1")
    assert newest.fingerprint not in (None, whole.fingerprint)
    assert newest == clear(runs, checkpoint_id="ck-2")
    assert clear(runs).problem == "no_checkpoint"
    for absent in ({"thread_id": "../states/trace-1"}, {"thread_id": "x"}, {"checkpoint_id": "../br_1/ck-1"}):
        assert clear(runs, **absent).problem == "checkpoint_absent"


def test_a_moment_of_another_run_or_checkpoint_finds_nothing(runs: SavedRuns) -> None:
    other = KEY.digest("thread", "x"), KEY.digest("checkpoint", "x")
    for moment in (Moment(other[0], runs.moment.checkpoint, NOW), Moment(None, other[1], NOW)):
        assert (measured(runs, moment).fingerprint, measured(runs, moment).problem) == (
            None, "checkpoint_absent",
        )  # fmt: skip


def linked_file(runs: SavedRuns) -> None:
    outside = runs.folder / "outside.json"
    runs.files[0].rename(outside)
    runs.files[0].symlink_to(outside)


def linked_folder(runs: SavedRuns) -> None:
    outside = runs.folder / "outside"
    runs.files[0].parent.rename(outside)
    runs.files[0].parent.symlink_to(outside, target_is_directory=True)


@pytest.mark.parametrize("link", [linked_file, linked_folder])
def test_a_link_out_of_the_folder_is_not_followed(runs: SavedRuns, link: Any) -> None:
    link(runs)
    found = measured(runs)
    assert (found.fingerprint, found.problem) == (None, "checkpoint_absent")


def written(**changed: Any) -> bytes:
    whole = {
        "checkpoint": "ck-1",
        "kind": "waits",
        "context": "none",
        "agent": "a",
        "messages": [],
        "state": {},
    }
    return json.dumps({**whole, **changed}).encode()


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{}", b"[]", b"\xff", MARKER.encode(), b'{"state": ' + b"[" * 200_000,
        written(kind="other"), written(context="other"), written(state=7), written(messages=None),
    ],
)  # fmt: skip
def test_a_file_that_is_no_saved_state_proves_nothing_beside_a_good_copy(
    runs: SavedRuns, content: bytes, caplog: Any
) -> None:
    runs.files[0].write_bytes(content)
    for moment in (runs.moment, anywhere(runs)):
        found = measured(runs, moment)
        assert (found.fingerprint, found.reachable, found.problem) == (None, True, "state_malformed")
        assert MARKER not in repr(found) + caplog.text


def test_what_is_no_file_is_not_opened(runs: SavedRuns) -> None:
    for make in (os.mkfifo, os.mkdir):
        runs.files[0].unlink()
        make(runs.files[0])
        with ends_cleanly():
            found = measured(runs)
        assert (found.fingerprint, found.reachable, found.problem) == (None, False, "state_unreadable")
        (os.rmdir if make is os.mkdir else os.unlink)(runs.files[0])
        runs.files[0].touch()


def test_what_a_recorder_never_wrote_is_passed_by(runs: SavedRuns) -> None:
    before = measured(runs, anywhere(runs))
    (runs.store / "note.txt").write_text(MARKER)
    (runs.store / f"{MARKER} with blanks").mkdir()
    (runs.store / "trace-1" / ".ck-9.json.7.draft").write_text("half")
    (runs.store / os.fsdecode(b"\xff")).mkdir()
    assert measured(runs, anywhere(runs)) == before
    assert clear(runs, thread_id="trace-1") == before


@pytest.mark.parametrize(
    ("bound", "most", "problem"),
    [
        ("MOST_BYTES", 100, "too_large"),
        ("MOST_NAMES", 3, "too_many_checkpoints"),
        ("MOST_COPIES", 1, "too_many_checkpoints"),
        ("TIMEOUT_S", -1.0, "timeout"),
    ],
)
def test_it_reads_no_more_than_its_bounds(
    runs: SavedRuns, monkeypatch: pytest.MonkeyPatch, bound: str, most: float, problem: str
) -> None:
    monkeypatch.setattr(openai_agents_memory, bound, most)
    found = measured(runs, anywhere(runs))
    assert (found.fingerprint, found.reachable, found.problem) == (None, False, problem)


def test_a_folder_that_may_not_be_read_is_not_reached(runs: SavedRuns) -> None:
    for option, problem in (("file", "store_unreadable"), ("nowhere", "store_unreadable")):
        place = runs.folder / option
        if option == "file":
            place.write_text(MARKER)
        found = RunStateMemoryProbe().measure(target(store=str(place)), runs.moment)
        assert (found.fingerprint, found.reachable, found.problem) == (None, False, problem)


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_its_page_declares_a_target_and_a_command_that_are_read(
    runs: SavedRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    targets, workflow = (json.loads(block) for block in blocks("json"))
    (key,) = workflow["state_keys"].values()
    assert (key["probe"], key["target"] in targets) == (runs.probe, True)
    found = RunStateMemoryProbe().measure(target(**targets[key["target"]]), MOMENT)
    assert found.problem not in {None, "target_unfit"}
    (command,) = blocks("sh")
    words = shlex.split(command.replace("\\\n", " "))
    asked = json.loads(words[words.index("--target") + 1])
    runs.write(runs.state, runs.store / asked["thread_id"] / "ck-1.json")
    monkeypatch.chdir(runs.folder)
    assert asked["store"].startswith("recorder-home/")
    (runs.folder / "recorder-home").mkdir()
    runs.store.rename(runs.folder / asked["store"])
    assert RunStateMemoryProbe().measure(target(**asked), MOMENT).fingerprint is not None
