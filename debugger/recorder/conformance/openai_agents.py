"""A small crew on the OpenAI Agents SDK for the conformance suite: two agents, a tool each, a turn each.

Its model says what it is told, so that nothing is asked of a provider; branches are made of the states that
the recorder keeps.
"""

import asyncio
import importlib.metadata
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from debugger.recorder import openai_agents
from debugger.recorder.conformance.gate import Gate
from debugger.recorder.conformance.subject import Unavailable
from debugger.recorder.recorder import Recorder

_ON_SKIP: Final = "not sent"
DECLARATION: Final[dict[str, Any]] = {
    "workflow": "conformance",
    "version": "1.0.0",
    "runtime": "openai-agents",
    "agents": ["writer", "publisher"],
    "models": ["none"],
    "kinds": ["handoff"],
    "state_keys": {"agent_memory": {"probe": "openai_agents_memory", "target": "memory"}},
    "tools": {
        "create_ticket": {"destination": "tickets", "effect_class": "reversible", "key_fields": ["subject"]},
        "send_mail": {"destination": "mail", "effect_class": "irreversible", "key_fields": ["subject"]},
    },
    "destinations": {
        "tickets": {"query": "http_json", "target": "tickets"},
        "mail": {"query": "http_json", "target": "mail"},
    },
    "outcome": {"expected": "mail-sent", "verifier": "http_json", "target": "mail"},
    "limits": {"max_age_s": 900, "start_s": 60},
}


class OpenAIAgentsSubject:
    """The crew with the recorder's folder of states and a list of what was really called."""

    runtime = "openai-agents"
    declaration: Mapping[str, Any] = DECLARATION

    def __init__(self) -> None:
        try:
            openai_agents.check_runtime()
        except openai_agents.RuntimeUnknown:
            raise Unavailable("openai-agents") from None
        self.version = importlib.metadata.version("openai-agents")
        self._called: list[str] = []
        self._recorder: Recorder | None = None

    def record(self, gate: Gate, folder: Path) -> None:
        from agents import set_trace_processors

        set_trace_processors([])  # the SDK's own exporter sends traces to the provider
        self._states = folder / "home" / "states"
        self._recorder = openai_agents.open_recorder(
            folder / "home",
            server=gate.url,
            token="secret-token",  # noqa: S106 - the suite's own gate, on this machine
            workflow="conformance",
            version="1.0.0",
        )
        run = openai_agents.record(self._recorder, self._build(self._recorder))
        asyncio.run(run.start("conformance"))
        self._recorder.flush(30)
        self._thread = run.trace

    def checkpoint(self, gate: Gate) -> Mapping[str, Any]:
        return gate.of(gate.run_id(), "checkpoint")[0]

    def resume(self, envelope: Mapping[str, Any]) -> str:
        assert self._recorder is not None  # noqa: S101 - record comes first
        return openai_agents.resume(self._recorder, self._build(self._recorder), envelope)

    def exists(self, branch: str) -> bool:
        del branch  # whatever is kept of another run than the parent is of a branch
        return any(thread != self._thread for thread in self._kept())

    def calls(self) -> list[str]:
        return list(self._called)

    def parent(self) -> object:
        return self._kept()[self._thread]

    def close(self) -> None:
        if self._recorder is not None:
            self._recorder.close()

    def _kept(self) -> dict[str, dict[str, bytes]]:
        """Return the states by run and file; a folder without a state is none."""
        found: dict[str, dict[str, bytes]] = {}
        for file in sorted(self._states.rglob("*")):
            if file.is_file():
                found.setdefault(file.parent.name, {})[file.name] = file.read_bytes()
        return found

    def _build(self, recorder: Recorder) -> Any:
        """Return the agent that begins, whose model starts its script anew."""
        from agents import Agent
        from agents.testing import ScriptedModel, assistant_message, function_call

        def create_ticket(subject: str) -> str:
            self._called.append("create_ticket")
            return f"ticket for {subject}"

        def send_mail(subject: str) -> str:
            self._called.append("send_mail")
            return f"mail about {subject}"

        subject = {"subject": "conformance"}
        model: Any = ScriptedModel(
            [
                [function_call("create_ticket", subject, call_id="c1")],
                [function_call("transfer_to_publisher", {}, call_id="c2")],
                [function_call("send_mail", subject, call_id="c3")],
                [assistant_message("sent")],
            ]
        )
        model.model = "none"  # what the record calls it
        # Nobody can see what a model that is an object asks, nor what a tool closes over.
        recorder.declare(
            {
                "agents": [
                    {"agent": "writer", "model": "none", "tools": ["create_ticket"]},
                    {"agent": "publisher", "model": "none", "tools": ["send_mail"]},
                ]
            }
        )
        ticket = openai_agents.wrap(recorder, create_ticket, on_skip=_ON_SKIP)
        mail = openai_agents.wrap(recorder, send_mail, on_skip=_ON_SKIP)
        publisher = Agent(name="publisher", instructions="Send.", model=model, tools=[mail])
        return Agent(name="writer", instructions="Write.", model=model, tools=[ticket], handoffs=[publisher])
