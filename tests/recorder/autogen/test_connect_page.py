"""The page about connecting AutoGen is tried as written: its team runs, and is judged as the page says."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from branches.queries.workflow_form import problem_of
from debugger.recorder.conformance.gate import Gate
from tests.recorder.autogen.teams import stop_verdict

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "connect-autogen.md").read_text()


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    return found.group(1)


def test_its_team_is_recorded_and_its_finish_is_a_claim(tmp_path: Path) -> None:
    declaration = json.loads(block("json"))
    assert problem_of(declaration) is None
    gate = Gate(declaration)
    try:
        (tmp_path / "token").write_text("secret-token\n")
        (tmp_path / "team.py").write_text(block("python").replace("http://127.0.0.1:8000", gate.url))
        ran = subprocess.run(
            [sys.executable, "team.py"],
            cwd=tmp_path,
            timeout=300,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        run = gate.run_id()
        assert ran.stdout.splitlines()[-1] == f"{run} natural_finish"
        assert gate.refused == []
        assert str(stop_verdict(gate.of(run, "stopped")[0]).state) == "false_complete"
        assert [each["event"] for each in gate.of(run, "handoff")] == ["delegated", "accepted", "completed"]
        assert [each["answer"] for each in gate.of(run, "effect_answered")] == ["acknowledged"]
        assert gate.started()["recording"] == "full"
    finally:
        gate.close()


@pytest.mark.parametrize("word", ["Maximum number of", "Timeout of", "The group chat is stopped."])
def test_its_table_names_the_words_that_are_read(word: str) -> None:
    assert word in PAGE
