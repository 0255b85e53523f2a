"""What is seen of the SDK before it is used: an unknown one is refused with a clear message."""

import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from agents import RunHooks, set_trace_processors, set_tracing_disabled
from agents.lifecycle import RunHooksBase

from debugger.recorder import openai_agents
from debugger.recorder.openai_agents import RuntimeUnknown, TracingOff, checks
from debugger.recorder.openai_agents.spans import PROCESSOR
from tests.recorder.openai_agents.crew import Bench, says


def test_it_takes_the_sdk_that_is_installed() -> None:
    openai_agents.check_runtime()
    assert checks.runtime_version() == {"name": "openai-agents", "version": "0.24.0"}


@pytest.mark.parametrize("installed", ["0.23.9", "0.25.0", "1.24.0", "0.24", "0.24.0rc1", "0.240.1"])
def test_it_refuses_a_version_that_was_not_tested(
    monkeypatch: pytest.MonkeyPatch, installed: str, tmp_path: Path
) -> None:
    monkeypatch.setattr(checks, "version", lambda name: installed)
    with pytest.raises(RuntimeUnknown) as refused:
        openai_agents.open_recorder(
            tmp_path / "home", server="http://127.0.0.1:9", token="x", workflow="x", version="1"
        )
    assert (refused.value.subject, refused.value.rule) == ("openai-agents", "version_unknown")
    assert (
        str(refused.value)
        == "openai-agents: version_unknown (tested with openai-agents 0.24.0, takes 0.24.*)"
    )
    assert not (tmp_path / "home").exists()


def test_it_takes_a_later_patch_of_the_tested_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "version", lambda name: "0.24.7")
    openai_agents.check_runtime()


def test_it_says_when_the_sdk_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> str:
        raise checks.PackageNotFoundError

    monkeypatch.setattr(checks, "version", absent)
    with pytest.raises(RuntimeUnknown, match="not_installed"):
        openai_agents.check_runtime()


@pytest.fixture
def untested() -> Any:
    checks._self_test.cache_clear()
    yield
    checks._self_test.cache_clear()


@pytest.mark.usefixtures("untested")
def test_it_refuses_hooks_of_another_form(monkeypatch: pytest.MonkeyPatch) -> None:
    async def on_handoff(self: Any, ctx: Any, from_agent: Any, to_agent: Any) -> None:
        """The SDK passes these by name."""

    monkeypatch.setattr(RunHooksBase, "on_handoff", on_handoff)
    with pytest.raises(RuntimeUnknown) as refused:
        openai_agents.attach()
    assert (refused.value.subject, refused.value.rule) == ("RunHooks.on_handoff", "form_changed")


@pytest.mark.usefixtures("untested")
def test_it_refuses_saved_states_of_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    from agents import run_state

    monkeypatch.setattr(run_state, "CURRENT_SCHEMA_VERSION", "1.22")
    with pytest.raises(RuntimeUnknown) as refused:
        openai_agents.attach()
    assert (refused.value.subject, refused.value.rule) == ("RunState", "form_changed")


@pytest.mark.usefixtures("untested")
def test_it_refuses_an_sdk_in_which_a_name_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    from agents.result import RunResultStreaming

    monkeypatch.delattr(RunResultStreaming, "to_state")
    with pytest.raises(RuntimeUnknown, match="form_changed"):
        openai_agents.attach()


def test_it_joins_the_processors_that_are_there_once() -> None:
    from agents.tracing import get_trace_provider

    set_trace_processors([])
    openai_agents.attach()
    openai_agents.attach()
    assert checks.processors(get_trace_provider()) == (PROCESSOR,)


def test_it_refuses_to_record_where_tracing_is_off(bench: Bench) -> None:
    set_tracing_disabled(True)
    try:
        with pytest.raises(TracingOff, match="disabled"):
            bench.record(bench.crew([says()]))
    finally:
        set_tracing_disabled(False)


def test_it_refuses_a_run_configuration_that_traces_nothing_or_elsewhere(bench: Bench) -> None:
    from agents import RunConfig

    with pytest.raises(TracingOff, match="disabled"):
        bench.record(bench.crew([says()]), run_config=RunConfig(tracing_disabled=True))
    with pytest.raises(ValueError, match="trace_id"):
        bench.record(bench.crew([says()]), run_config=RunConfig(trace_id="trace_" + "0" * 32))


def test_the_package_imports_without_the_sdk_and_without_django() -> None:
    listed = (
        "import debugger.recorder.openai_agents, sys;"
        " print(' '.join(sorted({name.split('.')[0] for name in sys.modules})))"
    )
    done = subprocess.run([sys.executable, "-c", listed], capture_output=True, text=True, check=True)
    assert not set(done.stdout.split()) & {"agents", "openai", "django", "celery", "langgraph"}


def test_the_hooks_of_the_recorder_have_the_parameters_of_the_sdk_s() -> None:
    from debugger.recorder.openai_agents.hooks import RecordingHooks

    for name in checks._HOOKS:
        own, theirs = (inspect.signature(getattr(kind, name)) for kind in (RecordingHooks, RunHooks))
        assert list(own.parameters) == list(theirs.parameters)
