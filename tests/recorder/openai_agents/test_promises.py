"""The conformance suite on the OpenAI Agents SDK: its recorder keeps every promise, a careless one none."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from agents import Agent, Runner, function_tool
from agents.testing import ScriptedModel, assistant_message, function_call

from branches.queries.conformance import REQUIRED
from debugger.recorder import openai_agents
from debugger.recorder.conformance import run_suite
from debugger.recorder.conformance.gate import claims_of
from debugger.recorder.conformance.openai_agents import OpenAIAgentsSubject
from debugger.recorder.conformance.subject import Unavailable
from debugger.recorder.conformance.subjects import SUBJECTS, subject_of
from debugger.recorder.conformance.suite import CHECKS


class Careless(OpenAIAgentsSubject):
    """Runs its agents past the recorder, keeps a state of the branch, and writes over the parent's."""

    def resume(self, envelope: Mapping[str, Any]) -> str:
        branch = self._states / claims_of(dict(envelope))["branch"]
        branch.mkdir(parents=True, exist_ok=True)
        (branch / "state.json").write_text("{}")

        @function_tool
        def send_mail(subject: str) -> str:
            self._called.append("send_mail")
            return subject

        again = [[function_call("send_mail", {"subject": "x"}, call_id=name)] for name in ("c1", "c2")]
        script = [*again, [assistant_message("sent")]]
        careless = Agent(
            name="publisher", instructions="Send.", model=ScriptedModel(script), tools=[send_mail]
        )
        asyncio.run(Runner.run(careless, "go"))
        for file in (self._states / self._thread).iterdir():
            file.write_text("{}")
        return "natural_finish"


def test_the_recorder_of_the_openai_agents_sdk_keeps_every_promise() -> None:
    report = run_suite(subject_of("openai-agents"))
    assert [each for each in report.outcomes if not each.kept] == []
    assert set(report.passed) == REQUIRED
    assert (report.runtime, report.version) == ("openai-agents", OpenAIAgentsSubject().version)


def test_a_careless_one_keeps_none() -> None:
    report = run_suite(Careless)
    assert set(report.failed) == set(CHECKS)
    assert {each.word for each in report.outcomes} <= {
        *("branch_exists", "never_redeemed", "redeemed_again", "started_again", "went_on"),
        *("parent_changed", "tool_called"),
    }


def test_every_runtime_with_a_recorder_of_ours_for_permits_can_be_tried() -> None:
    assert set(SUBJECTS) == {"langgraph", "openai-agents"}


def test_a_version_that_the_recorder_does_not_know_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown() -> None:
        raise openai_agents.RuntimeUnknown("openai-agents", "version_unknown")

    monkeypatch.setattr(openai_agents, "check_runtime", unknown)
    with pytest.raises(Unavailable):
        run_suite(OpenAIAgentsSubject)
