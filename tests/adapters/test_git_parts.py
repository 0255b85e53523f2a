"""What lies around a work tree's commit: submodules, other trees, stashes, operations and intended edits."""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from branches.ports import StateMeasurement
from debugger.adapters.probes import git_changes, git_commands
from debugger.adapters.probes.git_workspace import GitWorkspaceProbe, edits_of
from tests.adapters.places import MARKER, MOMENT, Repository, git, target
from tests.adapters.test_git_workspace import drifted, everything_in, measured
from tests.patience import comes, ends

LOCAL = ("-c", "protocol.file.allow=always")


@pytest.fixture
def place(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


@pytest.fixture
def nested(place: Repository) -> Repository:
    """A repository with a submodule `sub`, which has one `deep` of its own."""
    for name, inner in (("deep-origin", None), ("sub-origin", "deep-origin")):
        origin = place.folder / name
        origin.mkdir()
        (origin / "inside.md").write_text(f"{name} {MARKER}")
        git(origin, "init", "-q", "-b", "main")
        git(origin, "add", "-A")
        git(origin, "commit", "-q", "-m", "first")
        if inner:
            git(origin, *LOCAL, "submodule", "add", "-q", str(place.folder / inner), "deep")
            git(origin, "commit", "-q", "-m", "with one inside")
    git(place.path, *LOCAL, "submodule", "add", "-q", str(place.folder / "sub-origin"), "sub")
    git(place.path, *LOCAL, "submodule", "update", "-q", "--init", "--recursive")
    git(place.path, "commit", "-q", "-m", "with a submodule")
    return place


def commit_inside(place: Repository) -> None:
    git(place.path / "sub", "commit", "-q", "--allow-empty", "-m", "moved on")


def linked(place: Repository) -> None:
    (place.path / "sub").rename(place.folder / "moved")
    (place.path / "sub").symlink_to(place.folder / "moved")


IN_SUBMODULES: dict[str, Callable[[Repository], object]] = {
    "another commit": commit_inside,
    "a changed file": lambda place: (place.path / "sub" / "inside.md").write_text("other"),
    "a new file": lambda place: (place.path / "sub" / f"{MARKER}.md").write_text("other"),
    "a changed file two levels down": lambda place: (place.path / "sub/deep/inside.md").write_text("other"),
    "a missing folder": lambda place: (place.path / "sub").rename(place.folder / "gone"),
    "a link in its place": linked,
}


@pytest.mark.parametrize("change", IN_SUBMODULES)
def test_it_sees_in_a_submodule(nested: Repository, change: str) -> None:
    before = measured(nested)
    assert before.facts["edits"] == "none"
    IN_SUBMODULES[change](nested)
    after = measured(nested)
    assert after.problem is None
    assert "submodules" in drifted(before, after) <= {"submodules", "unstaged"}
    assert after.facts["edits"] == "unintended"


def test_it_sees_another_recorded_commit_of_a_submodule(nested: Repository) -> None:
    commit_inside(nested)
    before = measured(nested)
    git(nested.path, "add", "sub")
    assert drifted(before, measured(nested)) == {"submodules", "staged"}


def test_it_takes_a_submodule_that_is_not_checked_out_for_no_edit(nested: Repository) -> None:
    before = measured(nested)
    git(nested.path, "submodule", "deinit", "-q", "--all", "--force")
    after = measured(nested)
    assert drifted(before, after) == {"submodules"}
    assert after.facts["edits"] == "none"


def test_it_finds_a_submodules_commit_among_packed_references(nested: Repository) -> None:
    git(nested.path / "sub", "checkout", "-q", "-B", "main")
    before = measured(nested)
    git(nested.path / "sub", "pack-refs", "--all")
    assert measured(nested) == before
    assert before.facts["edits"] == "none"


@pytest.mark.parametrize(
    "content", [b"", b"ref: ../../outside\n", b"ref: refs/heads/.invalid\n", b"x" * 9000]
)
def test_it_knows_nothing_of_a_submodule_whose_head_it_cannot_read(
    nested: Repository, content: bytes
) -> None:
    (nested.path / ".git/modules/sub/HEAD").write_bytes(content)
    found = measured(nested)
    assert (found.fingerprint, found.reachable) == (None, False)
    assert found.problem in {"submodule_unreadable", "git_failed"}


def test_it_executes_nothing_that_a_submodule_brings_along(nested: Repository) -> None:
    proof = nested.folder / "executed"
    script = nested.folder / "trap"
    script.write_text(f"#!/bin/sh\ntouch {proof}\ncat\n")
    script.chmod(0o755)
    own = nested.path / ".git/modules/sub"
    for name in ("filter.trap.clean", "filter.trap.process", "core.fsmonitor", "diff.trap.textconv"):
        git(nested.path / "sub", "config", name, str(script))
    git(nested.path / "sub", "config", "filter.trap.required", "true")
    git(nested.path / "sub", "config", "core.hooksPath", str(nested.folder))
    git(nested.path / "sub", "config", "core.worktree", str(nested.folder))
    (own / "info" / "attributes").write_text("* filter=trap diff=trap\n")
    (nested.folder / "post-index-change").write_text(script.read_text())
    (nested.path / "sub" / ".gitattributes").write_text("* filter=trap diff=trap\n")
    (nested.path / "sub" / "inside.md").write_text("touched, so that git would have to look at it")
    before = everything_in(nested.path)
    found = measured(nested)
    assert (found.problem, found.facts["edits"]) == (None, "unintended")
    assert not proof.exists()
    assert everything_in(nested.path) == before
    git(nested.path / "sub", "status")  # the trap is real
    assert proof.exists()


def test_it_fetches_nothing_whatever_the_repository_allows(place: Repository) -> None:
    proof = place.folder / "executed"
    (place.path / ".gitattributes").write_text("*.md text\n")
    git(place.path, "add", "-A")
    git(place.path, "commit", "-q", "-m", "attributes")
    blob = git(place.path, "rev-parse", "HEAD:note.md").strip()
    (place.path / ".git/objects" / blob[:2] / blob[2:]).unlink()
    for name, value in {
        "core.repositoryFormatVersion": "1",
        "core.autocrlf": "true",
        "extensions.partialClone": "evil",
        "remote.evil.url": f"ext::sh -c touch% {proof}",
        "remote.evil.promisor": "true",
        "protocol.ext.allow": "always",
        "protocol.allow": "always",
    }.items():
        git(place.path, "config", name, value)
    (place.path / "note.md").write_text("one\r\ntwo\n")
    measured(place)
    assert not proof.exists()
    # The trap is real: git itself, asked without our settings, springs it.
    subprocess.run(["git", "-C", str(place.path), "cat-file", "-p", blob], capture_output=True, check=False)
    assert proof.exists()


def test_it_believes_the_commit_and_no_replacement_of_it(place: Repository) -> None:
    before = measured(place)
    (place.path / "note.md").write_text("another content")
    git(place.path, "commit", "-q", "-am", "other")
    other = git(place.path, "rev-parse", "HEAD").strip()
    git(place.path, "reset", "-q", "--soft", "HEAD^")
    git(place.path, "replace", "HEAD", other)
    after = measured(place)
    assert drifted(before, after) == {"staged"}


def test_it_measures_no_folder_that_a_repository_calls_its_work_tree(place: Repository) -> None:
    elsewhere = place.folder / "elsewhere"
    elsewhere.mkdir()
    git(place.path, "config", "core.worktree", str(elsewhere))
    found = measured(place)
    assert (found.fingerprint, found.reachable) == (None, False)


def test_it_compares_the_heads_of_other_work_trees(place: Repository) -> None:
    alone = measured(place)
    other = place.folder / f"tree-{MARKER}"
    git(place.path, "worktree", "add", "-q", "-b", "side", str(other))
    beside = measured(place)
    assert drifted(alone, beside) == {"worktrees"}
    git(other, "commit", "-q", "--allow-empty", "-m", "there")
    moved = measured(place)
    assert drifted(beside, moved) == {"worktrees"}
    place.path = other
    assert measured(place).problem is None
    assert MARKER not in repr(moved)


def test_it_counts_stashes_and_sees_another_order(place: Repository) -> None:
    for text in ("one", "two"):
        (place.path / "note.md").write_text(text)
        git(place.path, "stash", "push", "-q")
    before = measured(place)
    assert before.facts["stashes"] == 2
    git(place.path, "stash", "drop", "-q", "stash@{1}")
    after = measured(place)
    assert (after.facts["stashes"], drifted(before, after)) == (1, {"stash"})


def conflict(place: Repository, *command: str) -> None:
    """Run a command that stops in a conflict between `main` and `side`."""
    git(place.path, "checkout", "-q", "-b", "side")
    for branch, text in (("side", "theirs"), ("main", "ours")):
        git(place.path, "checkout", "-q", branch)
        (place.path / "note.md").write_text(text)
        git(place.path, "commit", "-q", "-am", text)
    with pytest.raises(subprocess.CalledProcessError):
        git(place.path, *command)


def mailed(place: Repository) -> None:
    git(place.path, "checkout", "-q", "-b", "side")
    (place.path / "note.md").write_text("theirs")
    git(place.path, "commit", "-q", "-am", "theirs")
    patch = place.folder / "patch"
    patch.write_text(git(place.path, "format-patch", "-1", "--stdout"))
    git(place.path, "checkout", "-q", "main")
    (place.path / "note.md").write_text("ours")
    git(place.path, "commit", "-q", "-am", "ours")
    with pytest.raises(subprocess.CalledProcessError):
        git(place.path, "am", str(patch))


def reverted(place: Repository) -> None:
    for text in ("one", "two"):
        (place.path / "note.md").write_text(text)
        git(place.path, "commit", "-q", "-am", text)
    with pytest.raises(subprocess.CalledProcessError):
        git(place.path, "revert", "--no-edit", "HEAD^")


def half_reverted(place: Repository) -> None:
    reverted(place)
    (place.path / ".git" / "REVERT_HEAD").unlink()
    (place.path / ".git" / "sequencer").mkdir()
    (place.path / ".git" / "sequencer" / "todo").write_text("revert 1234567 one\n")


UNDER_WAY: dict[str, tuple[Callable[[Repository], object], str]] = {
    "a merge": (lambda place: conflict(place, "merge", "side"), "merge"),
    "a rebase": (lambda place: conflict(place, "rebase", "side"), "rebase"),
    "a rebase of the old sort": (lambda place: conflict(place, "rebase", "--apply", "side"), "rebase"),
    "a cherry-pick": (lambda place: conflict(place, "cherry-pick", "side"), "cherry_pick"),
    "a revert": (reverted, "revert"),
    "the rest of a revert": (half_reverted, "revert"),
    "a mailed patch": (mailed, "am"),
    "a bisection": (lambda place: git(place.path, "bisect", "start"), "bisect"),
}


@pytest.mark.parametrize("operation", UNDER_WAY)
def test_it_names_what_is_under_way(place: Repository, operation: str) -> None:
    start, word = UNDER_WAY[operation]
    before = measured(place)
    assert before.facts["operation"] == "none"
    start(place)
    found = measured(place)
    assert found.facts["operation"] == word
    assert "operation" in drifted(before, found)


def test_it_tells_two_merges_with_the_same_files_apart(place: Repository) -> None:
    conflict(place, "merge", "side")
    before = measured(place)
    head = place.path / ".git" / "MERGE_HEAD"
    head.write_text(git(place.path, "rev-parse", "side^"))
    assert drifted(before, measured(place)) == {"operation"}


def test_it_knows_the_intended_edits_from_others(place: Repository) -> None:
    clean = measured(place)
    assert (edits_of(place.path), clean.facts["edits"]) == (None, "none")
    (place.path / "note.md").write_text("meant")
    (place.path / "new.md").write_text(f"meant {MARKER}")
    intended = edits_of(place.path)
    assert intended is not None
    there = target(path=str(place.path), intended=intended)
    same = GitWorkspaceProbe().measure(there, MOMENT)
    assert same.facts["edits"] == "intended"
    assert same.fingerprint == measured(place).fingerprint
    (place.path / "new.md").write_text("not meant")
    assert GitWorkspaceProbe().measure(there, MOMENT).facts["edits"] == "unintended"
    git(place.path, "stash", "push", "-q", "-u")
    assert GitWorkspaceProbe().measure(there, MOMENT).facts["edits"] == "none"


def test_it_prints_the_digest_that_a_target_declares(place: Repository) -> None:
    (place.path / "new.md").write_text("meant")
    command = [sys.executable, "-m", "debugger.adapters.probes.git_workspace", str(place.path)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    assert printed == edits_of(place.path)


def test_it_refuses_an_intention_that_is_no_digest(place: Repository) -> None:
    found = GitWorkspaceProbe().measure(target(path=str(place.path), intended="whatever"), MOMENT)
    assert (found.fingerprint, found.problem) == (None, "target_unfit")


def test_it_hashes_no_part_of_what_is_too_much(place: Repository) -> None:
    for name in ("one", "two"):
        (place.path / name).write_text("x" * 600)
    assert unreachable(place, git_commands.Limits(content_left=1_000)) == "too_large"


def test_it_hashes_no_part_where_time_is_up(place: Repository) -> None:
    (place.path / "one").write_text("x")
    assert unreachable(place, git_commands.Limits(deadline=time.monotonic())) == "timeout"


def unreachable(place: Repository, limits: git_commands.Limits) -> str:
    repository = git_commands.Repository(place.path, limits)
    with pytest.raises(git_commands.Unreadable) as problem:
        git_changes.changes_in(repository, place.path)
    return str(problem.value)


def test_it_takes_too_long_a_list_for_no_list(place: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git_commands, "MOST_OUTPUT", 500)
    for number in range(40):
        (place.path / f"file-{number:030}").write_text("x")
    found = measured(place)
    assert (found.fingerprint, found.problem) == (None, "too_large")


def test_it_ends_a_git_that_hangs_and_all_it_started(
    place: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = place.folder / "tools"
    tools.mkdir()
    sign = place.folder / "children"
    (tools / "git").write_text(f"#!/bin/sh\nsleep 120 &\necho $! > {sign}\nsleep 120\n")
    (tools / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    monkeypatch.setattr(git_commands, "TIMEOUT_S", 5.0)  # by then it has started another
    with ends():
        found = measured(place)
    assert (found.fingerprint, found.problem) == (None, "timeout")
    pid = sign.read_text().strip()
    assert comes(lambda: has_ended(pid))


def has_ended(pid: str) -> bool:
    """Whether a process has ended, though nobody may have waited for it yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_it_is_measured_alike_in_another_process(nested: Repository) -> None:
    (nested.path / "new.md").write_text("new")
    code = (
        "import sys; from tests.adapters.places import MOMENT, target;"
        "from debugger.adapters.probes.git_workspace import GitWorkspaceProbe as Probe;"
        "print(Probe().measure(target(path=sys.argv[1]), MOMENT).fingerprint)"
    )
    command = [sys.executable, "-c", code, str(nested.path)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    again: StateMeasurement = measured(nested)
    assert printed == again.fingerprint
