"""The git probe on real work trees, also on one that tries to make it execute something."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from branches.evidence.domains import PART
from branches.ports import StateMeasurement
from debugger.adapters.probes.git_workspace import GitWorkspaceProbe
from tests.adapters.places import KEY, MARKER, MOMENT, Repository, git


@pytest.fixture
def place(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


def measured(place: Repository) -> StateMeasurement:
    return GitWorkspaceProbe().measure(place.target(), MOMENT)


def drifted(before: StateMeasurement, after: StateMeasurement) -> set[str]:
    """The names of the parts that differ."""
    names = {KEY.digest(PART, name): name for name in GitWorkspaceProbe.part_names}
    assert set(before.parts) == set(after.parts) == set(names)
    return {names[part] for part in names if before.parts[part] != after.parts[part]}


def stage(place: Repository) -> None:
    (place.path / "note.md").write_text("staged")
    git(place.path, "add", "-A")


def odd_name(place: Repository) -> None:
    (place.path / f"odd\n{MARKER} \u00e9.md").write_text("new")


def hidden(place: Repository) -> None:
    git(place.path, "update-index", "--assume-unchanged", "note.md")
    (place.path / "note.md").write_text("changed unseen")


def link(place: Repository) -> None:
    (place.path / "link").symlink_to("/nowhere")


def intend(place: Repository) -> None:
    (place.path / "later.md").write_text("later")
    git(place.path, "add", "-N", "later.md")


def stash(place: Repository) -> None:
    (place.path / "note.md").write_text("put aside")
    git(place.path, "stash", "push", "-q", "-m", MARKER)


CHANGES: dict[str, tuple[Callable[[Repository], object], set[str]]] = {
    "a changed file": (lambda place: (place.path / "note.md").write_text("other"), {"unstaged"}),
    "a staged file": (stage, {"staged"}),
    "a new file": (lambda place: (place.path / "new.md").write_text("new"), {"untracked"}),
    "a file of an odd name": (odd_name, {"untracked"}),
    "a file that is to be added": (intend, {"unstaged"}),
    "a removed file": (lambda place: (place.path / "note.md").unlink(), {"unstaged"}),
    "a link": (link, {"untracked"}),
    "another mode": (lambda place: (place.path / "note.md").chmod(0o755), {"unstaged"}),
    "another commit": (lambda place: git(place.path, "commit", "-q", "--allow-empty", "-m", "x"), {"commit"}),
    "another branch": (lambda place: git(place.path, "checkout", "-q", "-b", "side"), {"branch"}),
    "a detached head": (lambda place: git(place.path, "checkout", "-q", "--detach"), {"branch"}),
    "a bisection": (lambda place: git(place.path, "bisect", "start"), {"operation"}),
    "a file marked as unchanged": (hidden, {"unstaged"}),
    "a stash": (stash, {"stash"}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_it_sees_and_names_the_part_of(place: Repository, change: str) -> None:
    make, expected = CHANGES[change]
    before = measured(place)
    make(place)
    after = measured(place)
    assert after.fingerprint not in (None, before.fingerprint)
    assert drifted(before, after) == expected
    assert MARKER not in repr(after)


def test_it_tells_two_contents_of_one_new_file_apart(place: Repository) -> None:
    (place.path / "new.md").write_text("one")
    before = measured(place)
    (place.path / "new.md").write_text("two")
    assert measured(place).fingerprint != before.fingerprint


def test_it_is_measured_alike_from_any_folder_and_after_a_touch(place: Repository) -> None:
    (place.path / "sub").mkdir()
    before = measured(place)
    os.utime(place.path / "note.md", (1, 1))
    place.path = place.path / "sub"
    assert measured(place).fingerprint == before.fingerprint


def test_it_takes_what_is_behind_a_remote_as_no_change(place: Repository) -> None:
    before = measured(place)
    git(place.path, "branch", "other")
    git(place.path, "config", "branch.main.remote", ".")
    git(place.path, "config", "branch.main.merge", "refs/heads/other")
    assert measured(place) == before


def test_it_executes_nothing_that_the_repository_configures(place: Repository) -> None:
    proof = place.folder / "executed"
    script = place.folder / "trap"
    script.write_text(f"#!/bin/sh\ntouch {proof}\ncat\n")
    script.chmod(0o755)
    (place.path / ".gitattributes").write_text("*.md filter=trap diff=trap\n")
    git(place.path, "add", ".gitattributes")
    for name in ("filter.trap.clean", "filter.trap.smudge", "filter.trap.process", "core.fsmonitor"):
        git(place.path, "config", name, str(script))
    git(place.path, "config", "filter.trap.required", "true")
    git(place.path, "config", "core.hooksPath", str(place.folder))
    for hook in ("post-index-change", "fsmonitor-watchman"):
        (place.path / ".git" / "hooks" / hook).write_text(script.read_text())
        (place.path / ".git" / "hooks" / hook).chmod(0o755)
    (place.path / "note.md").write_text("touched, so that git would have to look at it")
    assert measured(place).fingerprint is not None
    assert not proof.exists()


def test_it_leaves_the_index_and_everything_else_alone(place: Repository) -> None:
    stash(place)
    os.utime(place.path / "note.md", (1, 1))
    before = everything_in(place.path)
    measured(place)
    assert everything_in(place.path) == before


def everything_in(folder: Path) -> dict[str, tuple[int, bytes]]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert len(files) > 20
    return {str(path): (path.lstat().st_mtime_ns, path.read_bytes()) for path in files}


def test_it_takes_no_folder_without_git_for_an_empty_one(tmp_path: Path) -> None:
    place = Repository.__new__(Repository)
    place.path = tmp_path
    assert measured(place).problem in {"git_failed", "no_work_tree"}
