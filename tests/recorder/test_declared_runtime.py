"""A workflow is one runtime's: a recorder of another refuses it, when it opens and when a run begins."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from debugger.recorder import Recorder, RuntimeDiffers, Verifier, autogen, cli, openai_agents
from debugger.recorder.conformance.gate import Gate
from debugger.recorder.openai_agents.checks import runtime_version as of_openai_agents
from tests.recorder.autogen import teams
from tests.recorder.openai_agents import crew
from tests.recorder.team import DECLARATION, World, build

OPENS: dict[str, Callable[..., Any]] = {
    "langgraph": Recorder.open,
    "openai-agents": openai_agents.open_recorder,
    "autogen": autogen.open_recorder,
}
DECLARED = {"langgraph": DECLARATION, "openai-agents": crew.DECLARATION, "autogen": teams.DECLARATION}
OTHERS = [(own, other) for own in OPENS for other in (*DECLARED, "opentelemetry") if own != other]


@contextmanager
def gate_of(runtime: str) -> Iterator[tuple[Gate, dict[str, Any]]]:
    """Serve a workflow that is declared for a runtime, and say how a home is opened on it."""
    declared = {**DECLARED.get(runtime, DECLARATION), "runtime": runtime}
    gate = Gate(declared)
    try:
        named = {"workflow": declared["workflow"], "version": declared["version"]}
        yield gate, {"server": gate.url, "token": "secret-token", **named}
    finally:
        gate.close()


@pytest.mark.parametrize(("own", "other"), OTHERS)
def test_a_recorder_refuses_to_open_a_workflow_of_another_runtime(
    own: str, other: str, tmp_path: Path
) -> None:
    with gate_of(other) as (gate, options):
        for _ in range(2):  # also where the home has fetched the workflow before
            with pytest.raises(RuntimeDiffers) as refused:
                OPENS[own](tmp_path / "home", **options)
        assert gate.receipts == []
    assert (refused.value.field, refused.value.rule) == ("runtime", "declared_for_another")
    assert str(refused.value) == f"runtime: declared_for_another (this recorder records {own})"


@pytest.mark.parametrize("own", OPENS)
def test_a_recorder_opens_a_workflow_of_its_own_runtime(own: str, tmp_path: Path) -> None:
    with gate_of(own) as (_, options):
        OPENS[own](tmp_path / "home", **options).close()


@pytest.mark.parametrize("runtime", [*DECLARED, "opentelemetry"])
def test_a_verifier_opens_a_workflow_of_any_runtime(runtime: str, tmp_path: Path) -> None:
    with gate_of(runtime) as (_, options):
        Verifier.open(tmp_path / "home", **options).close()


def test_no_run_of_another_runtime_begins_on_a_recorder_that_is_open(world: World, tmp_path: Path) -> None:
    runtime = {"openai-agents": of_openai_agents(), "autogen": {"name": "autogen", "version": "0.7.5"}}
    for own in ("openai-agents", "autogen"):
        with gate_of(own) as (gate, options):
            recorder = Recorder.open(tmp_path / own, runtime=runtime[own], **options)
            with pytest.raises(RuntimeDiffers, match="records langgraph"):
                recorder.start_run(build(recorder, world), thread_id="t-1")
            recorder.close()
            assert gate.receipts == []
    with gate_of("langgraph") as (gate, options):
        recorder = Recorder.open(tmp_path / "langgraph", **options)
        with pytest.raises(RuntimeDiffers, match="records openai-agents"):
            openai_agents.record(recorder, crew.Agent(name="triage"))
        team = teams.round_robin(teams.agent("alice"), max_turns=1)
        with pytest.raises(RuntimeDiffers, match="records autogen"):
            asyncio.run(autogen.record(recorder, team, thread_id="t-1"))
        recorder.close()
        assert gate.receipts == []


def test_the_command_says_why_it_does_not_serve_such_a_workflow(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    token = tmp_path / "token"
    token.write_text("secret-token")
    with gate_of("autogen") as (_, options), caplog.at_level(logging.ERROR):
        arguments = [
            "run",
            "--graph",
            "none:none",
            "--home",
            str(tmp_path / "home"),
            "--server",
            options["server"],
            "--token-file",
            str(token),
            "--workflow",
            options["workflow"],
            "--version",
            options["version"],
        ]
        assert cli.main(arguments) == 1
    assert "refused: runtime: declared_for_another" in caplog.text
