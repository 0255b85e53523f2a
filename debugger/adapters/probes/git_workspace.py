"""A git work tree: commit, branch, local edits, submodules, other work trees, stashes, and what is under way.

`python -m debugger.adapters.probes.git_workspace FOLDER` prints the digest of a folder's local edits, which
the option `intended` takes.
"""

import os
import re
import stat
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from branches.evidence.domains import PART, STATE
from branches.evidence.keys import SHA256_PATTERN, HmacKey
from branches.ports import Fact, Moment, StateMeasurement, Target
from debugger.adapters.answers import unfit_measurement
from debugger.adapters.options import TargetUnfit, local_path, text
from debugger.adapters.probes.git_changes import Changes, changes_in, digest_of
from debugger.adapters.probes.git_commands import Repository, Unreadable
from debugger.adapters.probes.git_submodules import deviating, submodules_in
from debugger.adapters.probes.no_journal import NoJournal

_DIGEST: Final = re.compile(SHA256_PATTERN)
_MOST_STATE: Final = 1024 * 1024
# The first that is there says what is under way; the other files say of what.
_OPERATIONS: Final[tuple[tuple[str, str], ...]] = (
    ("rebase-merge", "rebase"),
    ("rebase-apply/applying", "am"),
    ("rebase-apply", "rebase"),
    ("MERGE_HEAD", "merge"),
    ("CHERRY_PICK_HEAD", "cherry_pick"),
    ("REVERT_HEAD", "revert"),
    ("sequencer", "cherry_pick"),
    ("BISECT_LOG", "bisect"),
)
_STATE_FILES: Final = (
    *(
        "rebase-merge/onto",
        "rebase-merge/orig-head",
        "rebase-merge/head-name",
        "rebase-merge/git-rebase-todo",
    ),
    *("rebase-apply/onto", "rebase-apply/orig-head", "rebase-apply/head-name", "rebase-apply/next"),
    *("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "sequencer/todo", "BISECT_LOG"),
)


class GitWorkspaceProbe(NoJournal):
    """Options: `path`, a folder of the work tree; `intended`, the digest of the local edits as declared."""

    part_names = (
        *("commit", "branch", "staged", "unstaged", "untracked"),
        *("submodules", "worktrees", "stash", "operation"),
    )
    limits = (
        "Ignored files, nested repositories that are no submodules, other branches and remotes are not"
        " compared, and files outside the repository are not seen."
    )
    remedy = "Check the recorded commit out and put changed and new files back by hand, then probe again."

    def measure(self, target: Target, moment: Moment) -> StateMeasurement:
        """Hash the work tree as it is now."""
        del moment
        try:
            intended = _intended(target)
            seen = _seen(local_path(target, "path"))
        except TargetUnfit as error:
            return unfit_measurement(error)
        except Unreadable as error:
            return StateMeasurement(None, reachable=False, problem=str(error))
        return StateMeasurement(
            target.key.digest(STATE, b"git\0" + digest_of(seen.parts.values())),
            seen.facts(intended),
            parts=_keyed(target.key, seen.parts),
        )


@dataclass(frozen=True, slots=True)
class _Seen:
    """What a work tree looks like: a digest of each part, in the order of `part_names`."""

    parts: Mapping[str, bytes]
    files: int
    stashes: int
    operation: str
    edits: str | None
    """A labelled digest of the local edits; None where there are none."""

    def facts(self, intended: str | None) -> dict[str, Fact]:
        """Return the coarse facts; `edits` says whether the local edits are those that were declared."""
        edits = "none" if self.edits is None else "intended" if self.edits == intended else "unintended"
        return {
            "changed_files": self.files,
            "operation": self.operation,
            "stashes": self.stashes,
            "edits": edits,
        }


def edits_of(folder: Path) -> str | None:
    """Return the digest of a folder's local edits, None where there are none. Raises Unreadable."""
    return _seen(folder).edits


def _intended(target: Target) -> str | None:
    if "intended" not in target.options:
        return None
    if not _DIGEST.fullmatch(intended := text(target, "intended")):
        raise TargetUnfit("intended", "digest")
    return intended


def _seen(path: Path) -> _Seen:
    if not os.path.isdir(path):  # noqa: PTH112 - it raises nothing, whatever the folder above allows
        raise Unreadable("path_absent")
    repository = Repository(path)
    root, git_folder = _folders(repository)
    repository.switch_filters_off()
    found = changes_in(repository, root)
    links = submodules_in(repository, root, found)
    stashes = _stashes(repository)
    operation = _operation(git_folder)
    parts = {
        "commit": digest_of([found.commit]),
        "branch": digest_of([found.branch]),
        "staged": digest_of(found.staged),
        "unstaged": digest_of(found.unstaged),
        "untracked": digest_of(found.untracked),
        "submodules": digest_of(links),
        "worktrees": digest_of(_other_trees(repository, root)),
        "stash": digest_of(stashes),
        "operation": digest_of([operation.encode(), *_details(git_folder)]),
    }
    return _Seen(parts, found.files, len(stashes), operation, _edits(found, links))


def _keyed(key: HmacKey, parts: Mapping[str, bytes]) -> dict[str, str]:
    return {
        key.digest(PART, name): key.digest(STATE, b"git\0" + name.encode() + b"\0" + content)
        for name, content in parts.items()
    }


def _edits(found: Changes, links: list[bytes]) -> str | None:
    strayed = deviating(links)
    if found.is_clean and not strayed:
        return None
    lists = (found.staged, found.unstaged, found.untracked, strayed)
    return "sha256:" + digest_of(digest_of(entries) for entries in lists).hex()


def _folders(repository: Repository) -> tuple[Path, Path]:
    """Return the work tree's root and the repository's folder. Raises Unreadable.

    A repository can be configured to call any folder its work tree; only one around the path counts.
    """
    found = [
        repository.git("rev-parse", word).removesuffix(b"\n")
        for word in ("--show-toplevel", "--absolute-git-dir")
    ]
    if not all(found):
        raise Unreadable("no_work_tree")
    root = Path(os.fsdecode(found[0]))
    if not repository.path.resolve().is_relative_to(root.resolve()):
        raise Unreadable("no_work_tree")
    return root, Path(os.fsdecode(found[1]))


def _other_trees(repository: Repository, root: Path) -> list[bytes]:
    """Return commit, branch and condition of every other work tree of the repository, in one order."""
    printed = repository.git("worktree", "list", "--porcelain", "-z")
    trees = []
    for block in printed.split(b"\0\0"):
        lines = [line for line in block.split(b"\0") if line]
        if lines and lines[0] != b"worktree " + os.fsencode(root):
            kept = (_without_reason(line) for line in lines[1:])
            trees.append(b"\0".join(kept))
    return sorted(trees)


def _without_reason(line: bytes) -> bytes:
    """Return a line without somebody's words on why a tree is locked, or a path on why it can be pruned."""
    return line.split(b" ", 1)[0] if line.startswith((b"locked", b"prunable")) else line


def _stashes(repository: Repository) -> list[bytes]:
    """Return the commits of the stash, newest first."""
    top = repository.git("for-each-ref", "--format=%(objectname)", "refs/stash").split()
    if not top:
        return []
    return repository.git("rev-list", "--walk-reflogs", "refs/stash").split() or top


def _operation(git_folder: Path) -> str:
    word = next((word for name, word in _OPERATIONS if os.path.lexists(git_folder / name)), "none")
    if word == "cherry_pick" and _state_file(git_folder / "sequencer/todo").startswith(b"revert"):
        return "revert"
    return word


def _details(git_folder: Path) -> Iterator[bytes]:
    for name in _STATE_FILES:
        yield _state_file(git_folder / name)


def _state_file(path: Path) -> bytes:
    """Return a small file's content, empty where there is none. Raises Unreadable."""
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            return b""
        with path.open("rb") as file:
            content = file.read(_MOST_STATE + 1)
    except (FileNotFoundError, NotADirectoryError):
        return b""
    except OSError:
        raise Unreadable("file_unreadable") from None
    if len(content) > _MOST_STATE:
        raise Unreadable("too_large")
    return content


if __name__ == "__main__":
    try:
        print(edits_of(Path(sys.argv[1])) or "none")
    except Unreadable as error:
        sys.exit(str(error))
