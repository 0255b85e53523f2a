"""What is attached to: a version that was tested, that still says what is read of it, and really a team."""

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from autogen_agentchat import conditions

from debugger.recorder import autogen
from debugger.recorder.autogen import checks
from tests.recorder.autogen.teams import Bench, agent, round_robin


def test_it_takes_the_installed_version() -> None:
    autogen.check_runtime()


@pytest.mark.parametrize("other", ["0.7.4", "0.7.6", "0.8.0", "1.0", ""])
def test_it_refuses_a_version_that_was_not_tested(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    team = round_robin(agent("alice"), max_turns=1)
    monkeypatch.setattr(checks, "version", lambda _: other)
    with pytest.raises(
        autogen.RuntimeUnknown, match=r"autogen-agentchat: version_unknown \(tested with 0\.7\.5\)"
    ):
        asyncio.run(autogen.record(bench.recorder, team, thread_id="1"))
    with pytest.raises(autogen.RuntimeUnknown):
        autogen.open_recorder(Path("never"), server="", token="", workflow="", version="")
    assert bench.gate.receipts == []


def test_it_says_when_nothing_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(_: str) -> str:
        raise checks.PackageNotFoundError

    monkeypatch.setattr(checks, "version", absent)
    with pytest.raises(autogen.RuntimeUnknown, match="not_installed"):
        autogen.check_runtime()


def test_it_refuses_a_library_whose_words_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Reworded(conditions.MaxMessageTermination):
        async def __call__(self, messages: Any) -> Any:
            said = await super().__call__(messages)
            return None if said is None else said.model_copy(update={"content": "That is enough."})

    checks._self_test.cache_clear()
    monkeypatch.setattr(conditions, "MaxMessageTermination", Reworded)
    with pytest.raises(autogen.RuntimeUnknown, match="Reworded: words_changed"):
        autogen.check_runtime()
    checks._self_test.cache_clear()


def test_it_refuses_what_is_no_team(bench: Bench) -> None:
    with pytest.raises(autogen.RuntimeUnknown, match="not_a_group_chat"):
        asyncio.run(autogen.record(bench.recorder, agent("alice"), thread_id="1"))
    assert bench.gate.receipts == []


def test_a_team_without_a_limit_is_warned_of(bench: Bench) -> None:
    team = round_robin(
        agent("alice", "DONE"), termination_condition=conditions.TextMentionTermination("DONE")
    )

    async def run() -> None:
        await (await autogen.record(bench.recorder, team, thread_id="1")).run_task("go")

    asyncio.run(run())
    assert list(bench.delivered().stop().warnings) == ["unbounded"]


def test_it_needs_neither_langgraph_nor_the_server() -> None:
    code = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("langgraph", "langchain_core", "django", "celery"):
            raise ImportError(name)
sys.meta_path.insert(0, Absent())
from debugger.recorder import autogen
autogen.check_runtime()
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)
