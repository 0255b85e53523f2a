"""Every built-in probe on the command line, in a process of its own: it says what it says in this one."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from debugger import asking
from debugger.asking import Exit
from tests.adapters.places import MARKER, Place
from tests.adapters.places_all import PLACES, built_in

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(params=PLACES, ids=lambda place: place.__name__)
def place(request: Any, tmp_path: Path) -> Iterator[Place]:
    made = request.param(tmp_path)
    yield made
    made.close()


def run(*arguments: str) -> tuple[dict[str, Any], int, str]:
    """What a command prints, how it ends, and everything that it says anywhere.

    Its deadlines are the product's own: where the machine was too busy for one, it is asked again.
    """
    for _ in range(5):
        done = subprocess.run(
            [sys.executable, "manage.py", "probe", *arguments],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": "7", "TZ": "Asia/Kathmandu", "LC_ALL": "C"},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        said = json.loads(done.stdout)
        if said.get("problem") != "timeout":
            break
    return said, done.returncode, done.stdout + done.stderr


def test_another_process_finds_the_same_fingerprint(place: Place) -> None:
    said = json.dumps(place.spoken())
    here = asking.probe(place.probe, asking.target_of(said), None)
    assert (here.out["result"], here.exit) == ("measured", Exit.YES)
    there, end, everything = run(place.probe, "--target", said, "--expect", here.out["fingerprint"])
    assert ({**there, "result": "measured"}, there["result"], end) == (here.out, "matched", Exit.YES)
    assert everything == json.dumps(there) + "\n"
    assert MARKER not in everything


@pytest.mark.parametrize("name", built_in("probes"))
def test_a_target_without_options_is_bad_input(name: str) -> None:
    with pytest.raises(asking.BadInput, match=r"target(\.[a-z_]+)?: [a-z_:]+"):
        asking.probe(name, asking.target_of("{}"), None)


def test_a_probe_that_is_not_there_is_bad_input_with_the_names_of_those_that_are() -> None:
    said, end, everything = run("no-such-probe", "--target", json.dumps({"path": MARKER}))
    assert end == Exit.BAD_INPUT
    assert all(name in said["error"] for name in built_in("probes"))
    assert MARKER not in everything
