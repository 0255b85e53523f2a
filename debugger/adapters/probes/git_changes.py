"""What a work tree holds that its commit does not: staged, unstaged and untracked, each with its content."""

import hashlib
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from debugger.adapters.probes.git_commands import Limits, Repository, Unreadable

LINK_MODE: Final = b"160000"
_CHUNK: Final = 1024 * 1024
_OPEN: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(slots=True)
class Changes:
    """Commit and branch as git prints them, and an entry for everything that is not as committed."""

    commit: bytes = b""
    branch: bytes = b""
    files: int = 0
    staged: list[bytes] = field(default_factory=list)
    unstaged: list[bytes] = field(default_factory=list)
    untracked: list[bytes] = field(default_factory=list)
    links: dict[bytes, bytes] = field(default_factory=dict)
    """Recorded commit of every submodule, by its path."""

    @property
    def is_clean(self) -> bool:
        """Whether nothing differs from the commit, the submodules aside."""
        return not (self.staged or self.unstaged or self.untracked)


def digest_of(parts: Iterable[bytes]) -> bytes:
    """Return a SHA-256 over parts that cannot run into each other."""
    whole = hashlib.sha256()
    for part in parts:
        whole.update(len(part).to_bytes(8, "big") + part)
    return whole.digest()


def changes_in(repository: Repository, root: Path) -> Changes:
    """Return what differs from the commit, hashing whatever is not in the index. Raises Unreadable."""
    found = Changes()
    _read_index(repository, root, found)
    printed = repository.git(
        "status",
        "--porcelain=v2",
        "-z",
        "--branch",
        "--no-ahead-behind",
        "--untracked-files=all",
        "--no-renames",
        "--ignore-submodules=dirty",
    )
    for entry in printed.split(b"\0"):
        _sort_in(entry, repository, root, found)
    if not found.commit:
        raise Unreadable("git_failed")
    return found


def _read_index(repository: Repository, root: Path, found: Changes) -> None:
    """Find the submodules, and the files git was told to take as unchanged: status says nothing of those."""
    for entry in repository.git("ls-files", "-v", "--stage", "-z", "--full-name", ":/").split(b"\0"):
        if not entry:
            continue
        flag, mode, rest = entry.split(b" ", 2)
        name = rest.split(b"\t", 1)[1]
        if mode == LINK_MODE:
            found.links[name] = rest.split(b" ", 1)[0]
        elif flag == b"S" or flag.islower():
            found.unstaged.append(_joined(flag, name, _content(repository.limits, root, name)))


def _sort_in(entry: bytes, repository: Repository, root: Path, found: Changes) -> None:
    """Put one entry of git's porcelain v2 where it belongs; a header of no interest nowhere."""
    if entry.startswith(b"# branch.oid "):
        found.commit = entry.split(b" ", 2)[2]
    elif entry.startswith(b"# branch.head "):
        found.branch = entry.split(b" ", 2)[2]
    if not entry or entry.startswith(b"# "):
        return
    found.files += 1
    if entry.startswith(b"? "):
        name = entry[2:]
        found.untracked.append(_joined(name, _content(repository.limits, root, name)))
    elif entry.startswith(b"u "):
        _, states, _, *stages, mode, first, second, third, name = entry.split(b" ", 10)
        found.staged.append(_joined(b"u", states, *stages, first, second, third, name))
        found.unstaged.append(_joined(b"u", mode, name, _content(repository.limits, root, name)))
    elif entry.startswith(b"1 "):
        _, states, _, head_mode, mode, tree_mode, head, own, name = entry.split(b" ", 8)
        if states[:1] != b".":
            found.staged.append(_joined(states[:1], head_mode, mode, head, own, name))
        if states[1:] != b"." and tree_mode != LINK_MODE:
            content = _content(repository.limits, root, name)
            found.unstaged.append(_joined(states[1:], tree_mode, name, content))
    else:
        raise Unreadable("git_failed")


def _joined(*fields: bytes) -> bytes:
    return b"\0".join(fields)  # the content comes last: nothing else can hold a NUL


def _content(limits: Limits, root: Path, name: bytes) -> bytes:
    """Return what lies at a path of the work tree, as a word or a digest. Raises Unreadable."""
    limits.spend(0)
    path = root / os.fsdecode(name)
    try:
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            return b"link\0" + os.fsencode(path.readlink())
        if stat.S_ISDIR(mode):  # a repository inside this one
            return b"folder"
        return b"file\0" + _hashed(limits, path) if stat.S_ISREG(mode) else b"special"
    except (FileNotFoundError, NotADirectoryError):
        return b"gone"
    except OSError:
        raise Unreadable("file_unreadable") from None


def _hashed(limits: Limits, path: Path) -> bytes:
    """Hash a regular file; one that grows or changes meanwhile is half an answer. Raises Unreadable."""
    whole = hashlib.sha256()
    with os.fdopen(os.open(path, _OPEN), "rb", buffering=0) as file:
        before = os.fstat(file.fileno())
        if not stat.S_ISREG(before.st_mode):
            raise Unreadable("file_changing")
        if before.st_size > limits.content_left:
            raise Unreadable("too_large")
        while chunk := file.read(_CHUNK):
            limits.spend(len(chunk))
            whole.update(chunk)
        after = os.fstat(file.fileno())
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        raise Unreadable("file_changing")
    return whole.digest()
