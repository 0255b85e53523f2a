"""The files probe while files change, links are put in its way, and a disk gives errors."""

import errno
import itertools
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from debugger.adapters.probes import file_tree, files
from tests.adapters import test_files
from tests.adapters.places import MARKER
from tests.adapters.test_files import measured, problem
from tests.adapters.wire import leaves_nothing_open
from tests.patience import ends

folder = test_files.folder


def test_it_follows_no_link_that_is_put_in_its_way_meanwhile(
    folder: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "run.sh").write_text("other")
    walk = file_tree.walk

    def meddle(path: Path, budget: Any) -> Any:
        (folder / "sub").rename(folder / "moved")
        (folder / "sub").symlink_to(outside)
        return walk(path, budget)

    monkeypatch.setattr(files, "walk", meddle)
    assert problem("sub/run.sh", root=str(folder)) == "path_unreadable"


def test_it_gives_no_digest_where_a_disk_gives_an_error(folder: Path, monkeypatch: Any) -> None:
    def broken(*_: Any) -> bytes:
        raise OSError(errno.EIO, MARKER)

    monkeypatch.setattr(file_tree.os, "read", broken)
    with leaves_nothing_open():
        assert problem(folder) == "file_unreadable"


@pytest.mark.parametrize("mode", ["r+", "w"])
@pytest.mark.parametrize("within", ["log", "big"])
def test_it_says_changing_of_a_folder_that_never_rests(
    folder: Path, mode: str, within: str, monkeypatch: Any
) -> None:
    """Written whenever it or another file is read, with one size: only its times and its content tell."""
    path, read, number = folder / "log", os.read, itertools.count()
    path.write_text("0" * 8)
    (folder / "big").write_bytes(b"x" * 20_000_000)

    def meddle(*given: Any) -> bytes:
        found = read(*given)
        if found.startswith(b"0" if within == "log" else b"x"):
            with path.open(mode) as file:
                file.write(f"{next(number):08}")
        return found

    monkeypatch.setattr(file_tree.os, "read", meddle)
    assert problem(folder) == "changing"
    monkeypatch.undo()
    assert next(number) >= 3
    assert measured(folder).facts["kind"] == "folder"


def test_it_believes_no_look_in_which_a_change_kept_the_times(folder: Path, monkeypatch: Any) -> None:
    """Changed again within a tick after it was read, in a look that lasts far longer than a tick."""
    path, read, changed = folder / "sub" / "run.sh", os.read, list[bytes]()

    def meddle(*given: Any) -> bytes:
        found = read(*given)
        if found == b"echo" and not changed:
            times = path.stat()
            changed.append(found)
            path.write_text("ohce")
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
            time.sleep(3 * files._TICK_S)
        return found

    def stamp(status: os.stat_result) -> tuple[int, ...]:
        """Without the time of the inode, which nobody can set back."""
        return status.st_ino, status.st_mode, status.st_size, status.st_mtime_ns

    monkeypatch.setattr(file_tree.os, "read", meddle)
    monkeypatch.setattr(file_tree, "_stamp", stamp)
    path.write_text("echo")
    found = measured(folder)
    monkeypatch.undo()
    assert changed == [b"echo"]
    assert found == measured(folder)


def test_it_sees_one_moment_while_files_swap_names(folder: Path) -> None:
    """A cut through two moments would hold one content twice, or a name that is nowhere."""
    for name in ("one", "two"):
        (folder / name).write_text(name * 1000)
    states = set()
    for _ in range(2):
        states.add(measured(folder).fingerprint)
        _swap(folder)
    stopped = threading.Event()

    def swap() -> None:
        while not stopped.is_set():
            _swap(folder)
            time.sleep(0.03)

    swapping = threading.Thread(target=swap)
    swapping.start()
    try:
        seen = [measured(folder) for _ in range(12)]
    finally:
        stopped.set()
        swapping.join()
    assert {found.problem for found in seen} <= {None, "changing"}
    for found in seen:
        # While a swap is under way a third state is there: one name is missing.
        assert found.problem == "changing" or found.facts["files"] in {3, 4}
    assert measured(folder).fingerprint in states


def _swap(folder: Path) -> None:
    (folder / "one").rename(folder / "aside")
    (folder / "two").rename(folder / "one")
    (folder / "aside").rename(folder / "two")


@pytest.mark.parametrize("seam", ["lstat", "read", "scandir"])
def test_it_reads_again_what_changed_once_in_the_middle(folder: Path, seam: str, monkeypatch: Any) -> None:
    changed: list[object] = []
    real: Any = getattr(file_tree.os, seam)

    def meddle(*given: Any, **named: Any) -> Any:
        found = real(*given, **named)
        if not changed and (seam != "lstat" or given[0] == b"run.sh"):
            changed.append((folder / "sub" / "run.sh").write_text("ohce"))
        return found

    monkeypatch.setattr(file_tree.os, seam, meddle)
    found = measured(folder)
    monkeypatch.undo()
    assert len(changed) == 1
    assert found == measured(folder)
    assert found.fingerprint is not None


def test_it_waits_no_longer_than_it_may_and_keeps_nothing_open(folder: Path, monkeypatch: Any) -> None:
    (folder / "big").write_bytes(b"x" * 50_000_000)
    monkeypatch.setattr(files, "TIMEOUT_S", 0.01)
    with leaves_nothing_open(), ends():
        assert problem(folder) == "timeout"
