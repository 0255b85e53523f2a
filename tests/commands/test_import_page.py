"""The page about importing is tried as written: its thirty lines send receipts that are taken."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.management import call_command

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.django_db
def test_its_home_made_loop_is_a_bounded_stop(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("debugger.management.commands.import.prepare", lambda: None)
    found = re.search(r"```python\n(.*?)```", (ROOT / "docs" / "import.md").read_text(), re.DOTALL)
    assert found is not None
    assert len([line for line in found.group(1).splitlines() if line]) <= 30
    subprocess.run([sys.executable, "-c", found.group(1)], cwd=tmp_path, check=True, timeout=300)
    call_command("import", "receipts", str(tmp_path / "loop.ndjson"))
    said = json.loads(capsys.readouterr().out)
    assert (said["accepted"], said["refused"]) == (2, [])
    assert said["stops"] == [{"state": "bounded_stop", "reasons": ["step_limit"]}]
