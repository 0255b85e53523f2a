"""The files probe on real folders: what it sees, what it leaves alone, and where it may go."""

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from branches.evidence.keys import is_hmac
from branches.ports import StateMeasurement, StateProbe, Unsupported
from debugger.adapters.probes.files import FilesProbe
from tests.adapters.places import KEY, MARKER, MOMENT, target
from tests.patience import ends


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    (made / "sub").mkdir(parents=True)
    (made / f"{MARKER}.md").write_text(MARKER)
    (made / "sub" / "run.sh").write_text("echo")
    (made / "sub" / "run.sh").chmod(0o755)
    (made / "link").symlink_to(f"/nowhere/{MARKER}")
    return made


def measured(path: Path | str, **options: Any) -> StateMeasurement:
    return FilesProbe().measure(target(path=str(path), **options), MOMENT)


def problem(path: Path | str, **options: Any) -> str | None:
    found = measured(path, **options)
    assert (found.fingerprint, found.reachable, found.facts, found.parts) == (None, False, {}, {})
    return found.problem


def test_it_fulfils_its_port_and_has_no_past() -> None:
    probe = FilesProbe()
    assert isinstance(probe, StateProbe)
    for sentence in (probe.limits, probe.remedy):
        assert sentence.endswith(".")
        assert 40 < len(sentence) < 260
    with pytest.raises(Unsupported):
        probe.capture(target(), MOMENT)
    assert probe.measure(target(), MOMENT).problem == "target_unfit"


def test_it_measures_a_folder_and_shows_nothing_of_it(folder: Path) -> None:
    first = measured(folder)
    assert is_hmac(first.fingerprint or "")
    assert first.facts == {"kind": "folder", "files": 2, "bytes": len(MARKER) + 4}
    assert set(first.parts) == {KEY.digest("part", name) for name in (f"{MARKER}.md", "sub", "link")}
    assert MARKER not in repr(first)


def test_it_is_the_same_elsewhere_in_another_process_and_order_and_later(
    folder: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    for name in ("sub", ""):
        (other / name).mkdir(parents=True, exist_ok=True)
    (other / "link").symlink_to(f"/nowhere/{MARKER}")
    (other / "sub" / "run.sh").write_text("echo")
    (other / "sub" / "run.sh").chmod(0o700)
    (other / f"{MARKER}.md").write_text(MARKER)
    os.utime(other / "sub", (1, 1))
    assert measured(other) == measured(folder)
    code = "import sys; from tests.adapters.test_files import *; print(measured(sys.argv[1]).fingerprint)"
    said = subprocess.run(
        [sys.executable, "-c", code, str(other)],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONHASHSEED": "3"},
        check=True,
        capture_output=True,
        text=True,
    )
    assert said.stdout.strip() == measured(folder).fingerprint


CHANGES: dict[str, Callable[[Path], object]] = {
    "another content of one size": lambda path: (path / f"{MARKER}.md").write_text(MARKER[::-1]),
    "a new file": lambda path: (path / "new").write_text(""),
    "a new empty folder": lambda path: (path / "new").mkdir(),
    "a file gone": lambda path: (path / f"{MARKER}.md").unlink(),
    "another name": lambda path: (path / f"{MARKER}.md").rename(path / "note.md"),
    "another place": lambda path: (path / f"{MARKER}.md").rename(path / "sub" / f"{MARKER}.md"),
    "no longer executable": lambda path: (path / "sub" / "run.sh").chmod(0o644),
    "a link elsewhere": lambda path: (path / "link").unlink() or (path / "link").symlink_to("/elsewhere"),
    "a file for a link": lambda path: (
        (path / "link").unlink() or (path / "link").write_text(f"/nowhere/{MARKER}")
    ),
    "a pipe": lambda path: os.mkfifo(path / "pipe"),
    "a name of no encoding": lambda path: Path(os.fsdecode(bytes(path / "x") + b"\xff\n")).write_text(""),
}


@pytest.mark.parametrize("change", CHANGES)
def test_it_sees(folder: Path, change: str) -> None:
    before = measured(folder)
    CHANGES[change](folder)
    after = measured(folder)
    assert after.problem is None
    assert after.fingerprint not in (None, before.fingerprint)
    assert after.parts != before.parts


def test_it_tells_where_a_name_ends_and_a_folder_begins(tmp_path: Path) -> None:
    seen = []
    for number, names in enumerate((["a/b"], ["ab"], ["a/b", "a/c"], ["a/bc"], ["b", "a"])):
        made = tmp_path / str(number)
        for name in names:
            (made / name).parent.mkdir(parents=True, exist_ok=True)
            (made / name).write_text("x")
        seen.append(measured(made).fingerprint)
    assert len(set(seen)) == len(seen)


def test_it_measures_one_file_and_takes_absence_in_a_folder_for_a_state(folder: Path) -> None:
    one = measured(folder / f"{MARKER}.md")
    assert one.facts == {"kind": "file", "files": 1, "bytes": len(MARKER)}
    gone = measured(folder / "gone")
    assert gone.facts == {"kind": "absent", "files": 0, "bytes": 0}
    assert measured(folder / "gone too").fingerprint == gone.fingerprint
    empty = folder / "empty"
    empty.mkdir()
    assert len({one.fingerprint, gone.fingerprint, measured(empty).fingerprint}) == 3
    assert problem(folder / "gone" / "below") == "path_absent"
    assert problem(folder / f"{MARKER}.md" / "below") == "path_unreadable"


def test_it_opens_no_pipe_socket_or_device(tmp_path: Path, folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "socket"))
        with ends():
            found = measured(folder)
    assert found.facts["files"] == 2
    assert measured(folder / "pipe").facts == {"kind": "special", "files": 0, "bytes": 0}
    assert measured("/dev/zero").facts == {"kind": "special", "files": 0, "bytes": 0}


def test_it_stays_below_its_root(folder: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (outside / "inner").mkdir(parents=True)
    (outside / "inner" / "secret").write_text(MARKER)
    (folder / "way").symlink_to(outside)
    (folder / "inside").symlink_to(folder / "sub")
    root = str(folder)
    assert measured("sub", root=root) == measured(folder / "sub")
    assert measured(folder / "sub", root=root) == measured(folder / "sub")
    assert measured("inside", root=root) == measured(folder / "sub")
    assert measured(".", root=root).facts["kind"] == "folder"
    for path in ("way", "way/inner", "way/inner/secret", outside, outside / "inner", "/"):
        assert problem(path, root=root) == "path_outside"
    for path in ("../outside", "sub/../../outside", folder / ".." / "outside"):
        assert problem(path, root=root) == "target_unfit"
        assert problem(path) == "target_unfit"
    before = measured(folder)
    (outside / "inner" / "secret").write_text("other")
    assert measured(folder) == before  # a link is its target's name
    assert problem("sub", root=str(folder / "gone")) == "path_unreadable"
    assert problem("sub", root="no such folder") == "path_unreadable"


@pytest.mark.parametrize(
    ("path", "options"),
    [
        *(("", {}), ("/a\0b", {}), ("/tmp/../etc", {})),
        *(("/tmp", {"most_files": 0}), ("/tmp", {"most_bytes": "many"}), ("/tmp", {"root": 7})),
    ],
)
def test_it_reads_only_what_the_target_says(path: str, options: dict[str, Any]) -> None:
    assert problem(path, **options) == "target_unfit"


def test_it_gives_no_digest_of_a_part(folder: Path, monkeypatch: Any) -> None:
    assert measured(folder, most_files=3).facts["files"] == 2
    assert problem(folder, most_files=2) == "too_many_files"
    assert problem(folder, most_bytes=len(MARKER) + 3) == "too_large"
    deep = folder
    for _ in range(70):
        deep /= "d"
    deep.mkdir(parents=True)
    assert problem(folder) == "too_deep"


def test_it_names_parts_only_where_they_are_few(folder: Path) -> None:
    for number in range(21):
        (folder / f"n{number}").write_text("")
    assert len(measured(folder).parts) == 24
    (folder / "one more").write_text("")
    assert measured(folder).parts == {}


def test_it_tells_which_part_drifted(folder: Path) -> None:
    before = measured(folder)
    (folder / "sub" / "new").write_text("x")
    after = measured(folder)
    assert {part for part in before.parts if before.parts[part] != after.parts[part]} == {
        KEY.digest("part", "sub")
    }


def test_thousands_of_small_files_are_measured(tmp_path: Path) -> None:
    """A tenth of what the limit allows; see the page on this probe for the whole and how long it takes."""
    for number in range(100):
        (tmp_path / f"{number:03}").mkdir()
        for inner in range(100):
            (tmp_path / f"{number:03}" / f"{inner}.txt").write_text(f"{number}/{inner}")
    with ends():
        assert measured(tmp_path).facts["files"] == 10_000
