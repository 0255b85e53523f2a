"""`branchgate-recorder conform` on its own: what it says, and when it has nothing to try."""

from collections.abc import Callable
from pathlib import Path

import pytest

from debugger.recorder import cli
from debugger.recorder.conformance.subject import Subject, Unavailable
from debugger.recorder.conformance.suite import SUITE, Outcome, Report


def conform(folder: Path, *more: str) -> int:
    (folder / "token").write_text("secret-token")
    shared = ["--home", str(folder / "home"), "--token-file", str(folder / "token")]
    return cli.main(["conform", "--runtime", "langgraph", "--server", "http://127.0.0.1:9", *shared, *more])


def test_a_runtime_that_is_not_here_is_said_to_be_and_nothing_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def absent(make: Callable[[], Subject]) -> Report:
        raise Unavailable("langgraph")

    monkeypatch.setattr(cli, "run_suite", absent)
    assert conform(tmp_path) == 2
    assert "langgraph: not installed here" in capsys.readouterr().err
    assert not (tmp_path / "home").exists()


def test_a_promise_that_was_not_kept_is_said_even_where_no_server_hears_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    outcomes = (Outcome("expired", True, ""), Outcome("started_once", False, "started_again"))
    monkeypatch.setattr(cli, "run_suite", lambda make: Report(SUITE, "langgraph", "1.2.24", outcomes))
    assert conform(tmp_path) == 1
    assert capsys.readouterr().out.splitlines() == ["kept   expired", "BROKEN started_once started_again"]
