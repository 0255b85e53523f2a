"""Submodules of a work tree, looked at without ever reading the configuration they bring along.

Git is given the submodule's index and objects, and a repository folder of our own that holds a commit and
nothing else: no hook, filter, monitor or remote of the submodule's exists there.
"""

import os
import re
import stat
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from debugger.adapters.probes.git_changes import Changes, changes_in, digest_of
from debugger.adapters.probes.git_commands import Repository, Unreadable

MOST_DEEP: Final = 5
_MOST_REFS: Final = 16 * 1024 * 1024
_SMALL: Final = 4096
_COMMIT: Final = re.compile(rb"[0-9a-f]{40}|[0-9a-f]{64}")
_REF: Final = re.compile(rb"refs/[A-Za-z0-9_./@+-]{1,250}")
_UNBORN: Final = b"ref: refs/heads/unborn\n"


def submodules_in(repository: Repository, root: Path, found: Changes, depth: int = 1) -> list[bytes]:
    """Return an entry of path, recorded and present state for each submodule. Raises Unreadable."""
    if found.links and depth > MOST_DEEP:
        raise Unreadable("submodules_too_deep")
    entries = []
    for name, recorded in sorted(found.links.items()):
        present = _present(repository, root, name, depth)
        entries.append(b"\0".join((name, recorded, *present)))
    return entries


def deviating(entries: list[bytes]) -> list[bytes]:
    """Return those entries whose submodule is checked out otherwise than recorded, or not clean."""
    return [entry for entry in entries if not _is_as_recorded(entry)]


def _is_as_recorded(entry: bytes) -> bool:
    _, recorded, commit, *rest = entry.split(b"\0")
    return rest == [b"clean"] and commit in (recorded, b"absent")


def _present(repository: Repository, root: Path, name: bytes, depth: int) -> tuple[bytes, bytes]:
    """Return the commit that is checked out (or a word), and `clean` or a digest of what differs."""
    path = root / os.fsdecode(name)
    repository.limits.spend(0)
    try:
        if path.resolve() != root.resolve() / os.fsdecode(name) or not stat.S_ISDIR(path.lstat().st_mode):
            return b"replaced", b"dirty"
        folder = _git_folder(path)
        if folder is None:
            return b"absent", b"dirty" if any(path.iterdir()) else b"clean"
        commit = _head(folder)
        inside = _changes(repository, path, folder, commit, depth)
    except (FileNotFoundError, NotADirectoryError):
        return b"gone", b"dirty"
    except (OSError, RuntimeError):
        raise Unreadable("submodule_unreadable") from None
    return commit or b"unborn", inside


def _git_folder(path: Path) -> Path | None:
    """Return the folder that `.git` is, or that it names; None where the submodule is not checked out."""
    own = path / ".git"
    try:
        mode = own.lstat().st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(mode):
        return own
    content = _small(own)
    if not content.startswith(b"gitdir: "):
        raise Unreadable("submodule_unreadable")
    return path / os.fsdecode(content.removeprefix(b"gitdir: ").rstrip(b"\r\n"))


def _common(folder: Path) -> Path:
    """Return the folder with objects and references: another one where this is a linked work tree's."""
    try:
        return folder / os.fsdecode(_small(folder / "commondir").rstrip(b"\r\n"))
    except FileNotFoundError:
        return folder


def _head(folder: Path) -> bytes | None:
    """Return the commit that HEAD stands at, None where its branch has none yet. Raises Unreadable."""
    content = _small(folder / "HEAD").strip()
    for _ in range(_SMALL):
        if _COMMIT.fullmatch(content):
            return content
        name = content.removeprefix(b"ref: ")
        if name == content or not _REF.fullmatch(name) or b".." in name or b"/." in name:
            break
        try:
            content = _small(_common(folder) / os.fsdecode(name)).strip()
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return _packed(folder, name)
    raise Unreadable("submodule_unreadable")


def _packed(folder: Path, name: bytes) -> bytes | None:
    try:
        content = _small(_common(folder) / "packed-refs", _MOST_REFS)
    except FileNotFoundError:
        return None
    for line in content.split(b"\n"):
        commit, _, own = line.partition(b" ")
        if own == name and _COMMIT.fullmatch(commit):
            return commit
    return None


def _small(path: Path, most: int = _SMALL) -> bytes:
    """Read a small regular file; a pipe or a link in its place is no file. Raises OSError, Unreadable."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags), "rb", buffering=0) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise Unreadable("submodule_unreadable")
        content = file.read(most + 1)
    if len(content) > most:
        raise Unreadable("submodule_unreadable")
    return content


def _changes(repository: Repository, path: Path, folder: Path, commit: bytes | None, depth: int) -> bytes:
    with TemporaryDirectory(prefix="branchgate-") as own:
        _make_bare(Path(own), commit)
        places = {
            "GIT_DIR": own,
            "GIT_WORK_TREE": str(path),
            "GIT_INDEX_FILE": str((folder / "index").absolute()),
            "GIT_OBJECT_DIRECTORY": str((_common(folder) / "objects").absolute()),
        }
        inner = Repository(path, repository.limits, places)
        found = changes_in(inner, path)
        nested = submodules_in(inner, path, found, depth + 1)
    if found.is_clean and not deviating(nested):
        return b"clean"
    lists = (found.staged, found.unstaged, found.untracked, nested)
    return digest_of(digest_of(entries) for entries in lists).hex().encode()


def _make_bare(own: Path, commit: bytes | None) -> None:
    """Lay out the least that git takes for a repository."""
    (own / "refs").mkdir()
    (own / "objects").mkdir()
    (own / "HEAD").write_bytes(_UNBORN if commit is None else commit + b"\n")
    form = "[core]\n\trepositoryformatversion = 0\n\tbare = false\n"
    if commit is not None and len(commit) == 64:
        form = form.replace("= 0", "= 1") + "[extensions]\n\tobjectFormat = sha256\n"
    (own / "config").write_text(form)
