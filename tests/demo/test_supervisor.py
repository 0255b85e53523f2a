"""Whatever a supervised program started ends with it, also where the program itself does not see to it."""

import sys
from pathlib import Path

from debugger.supervisor import Program, Supervisor
from tests.patience import comes
from tests.worlds import is_alive

# Starts a child and ends on the first signal without a word to it, as a worker does that is still starting.
_CARELESS = """
import pathlib, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
pathlib.Path(sys.argv[1]).write_text(str(child.pid))
time.sleep(600)
"""


def test_nothing_that_a_program_started_outlives_it(tmp_path: Path) -> None:
    note = tmp_path / "child"
    with Supervisor() as supervisor:
        running = supervisor.start(Program("careless", [sys.executable, "-c", _CARELESS, str(note)]))
        assert comes(lambda: note.exists() and note.read_text().isdigit())
        child = int(note.read_text())
        assert is_alive(child)
    assert running.poll() is not None
    assert comes(lambda: not is_alive(child))
