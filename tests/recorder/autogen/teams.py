"""Real AutoGen teams whose models say what they are told to, and the workflow that declares them."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.teams import RoundRobinGroupChat, Swarm
from autogen_core import Component, FunctionCall
from autogen_core.models import ChatCompletionClient, CreateResult, ModelInfo, RequestUsage
from pydantic import BaseModel

from branches.rules.handoffs import judge_handoff, parse_handoff
from branches.rules.stops import judge_stop, parse_stop
from debugger.recorder import Recorder, autogen
from debugger.recorder.conformance.gate import Gate

MARKER = "CONTENT-MARKER-7f3a"
LATER = "2999-01-01T00:00:00+00:00"
DECLARATION: dict[str, Any] = {
    "workflow": "autogen-team",
    "version": "1.0.0",
    "runtime": "autogen",
    "agents": ["alice", "bob"],
    "models": ["fake-1"],
    "kinds": ["handoff", "message"],
    "phases": ["talk"],
    "phase": "talk",
    "dependencies": ["approval", "alice", "bob"],
    "owners": ["desk"],
    "facts": {"agents": [], "messages": []},
    "state_keys": {"team_memory": {"probe": "autogen_team", "target": "team", "acknowledgeable": False}},
    "tools": {
        "send_mail": {
            "destination": "desk.mail",
            "effect_class": "irreversible",
            "key_fields": ["recipient"],
        },
        "look_up": {"destination": None, "effect_class": "read", "key_fields": []},
    },
    "destinations": {"desk.mail": {"query": "http_json", "target": "m", "fixture": False}},
    "outcome": {"expected": "mail-sent", "verifier": "http_json", "target": "m"},
    "limits": {"max_age_s": 900, "start_s": 60},
    "progress": ["tool_result"],
}  # fmt: skip


class FakeConfig(BaseModel):
    model: str
    temperature: float = 0.0


class FakeModel(ChatCompletionClient, Component[FakeConfig]):
    """Gives its answers in turn: a text, calls of tools, or an error to raise."""

    component_type = "model"
    component_config_schema = FakeConfig

    def __init__(self, *answers: Any, model: str = "fake-1", usage: tuple[int, int] = (3, 2)) -> None:
        self.answers = list(answers)
        self.model = model
        self.usage = RequestUsage(*usage)

    async def create(self, messages: Any, **_: Any) -> CreateResult:
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        finish = "stop" if isinstance(answer, str) else "function_calls"
        return CreateResult(finish_reason=finish, content=answer, usage=self.usage, cached=False)

    def create_stream(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    async def close(self) -> None:
        pass

    def actual_usage(self) -> RequestUsage:
        return self.usage

    def total_usage(self) -> RequestUsage:
        return self.usage

    def count_tokens(self, *_: Any, **__: Any) -> int:
        return 0

    def remaining_tokens(self, *_: Any, **__: Any) -> int:
        return 0

    @property
    def capabilities(self) -> Any:
        return self.model_info

    @property
    def model_info(self) -> ModelInfo:
        return ModelInfo(
            vision=False,
            function_calling=True,
            json_output=False,
            family="unknown",
            structured_output=False,
            multiple_system_messages=True,
        )

    def _to_config(self) -> FakeConfig:
        return FakeConfig(model=self.model)

    @classmethod
    def _from_config(cls, config: FakeConfig) -> "FakeModel":
        return cls(model=config.model)


def call(tool: str, own: str = "1", **arguments: Any) -> list[FunctionCall]:
    return [FunctionCall(id=own, name=tool, arguments=json.dumps(arguments))]


def agent(name: str, *answers: Any, **options: Any) -> AssistantAgent:
    options.setdefault("system_message", f"be {name} {MARKER}")
    model = options.pop("model", None) or FakeModel(*answers)
    return AssistantAgent(name, model, **options)


def round_robin(*agents: Any, **options: Any) -> RoundRobinGroupChat:
    return RoundRobinGroupChat(list(agents), **options)


def swarm(*agents: Any, **options: Any) -> Swarm:
    return Swarm(list(agents), **options)


class Desk:
    """Tools of a desk that remembers what was sent, and under which operation key."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str]] = []

    def send_mail(self, recipient: str, text: str) -> str:
        """Send a mail."""
        from debugger.recorder import current_operation

        self.sent.append((recipient, current_operation().key))
        return f"sent {MARKER}"

    async def look_up(self, word: str) -> str:
        """Look a word up."""
        return f"{word} {MARKER}"


class Bench:
    """A gate and a recorder on one home."""

    def __init__(self, gate: Gate, folder: Path) -> None:
        self.gate = gate
        self.folder = folder
        self.recorder: Recorder = autogen.open_recorder(
            folder / "home", server=gate.url, token="secret-token", workflow="autogen-team", version="1.0.0"
        )

    def delivered(self) -> "Bench":
        assert self.recorder.flush(60)
        assert self.gate.refused == []
        return self

    def bodies(self, kind: str) -> list[dict[str, Any]]:
        return self.gate.of(self.gate.run_id(), kind)

    def stop(self) -> Any:
        """Return the rules' verdict on the newest stop."""
        return stop_verdict(self.bodies("stopped")[-1])

    def handoffs(self) -> list[Any]:
        """Return the verdicts on every operation, the one first delegated first."""
        events: dict[str, list[dict[str, Any]]] = {}
        for receipt in self.gate.receipts:
            if receipt["kind"] == "handoff":
                body = receipt["body"]
                said = {
                    name: body[name]
                    for name in ("receiver", "expected_artifact", "dependency")
                    if body.get(name) is not None
                }
                events.setdefault(body["operation"], []).append(
                    {
                        "handoff_id": body["handoff"],
                        "event": body["event"],
                        "at": receipt["at"],
                        "agent": receipt["actor"]["name"],
                        **said,
                    }
                )
        return [
            judge_handoff(parse_handoff({"operation_id": own, "now": LATER, "events": found}))
            for own, found in events.items()
        ]

    def edges(self) -> list[str]:
        return [f"{b['from']}>{b['to']}:{b['kind']} {b['status']}" for b in self.bodies("interaction")]

    def everything(self) -> str:
        """Return all that left the process, and all that lies in the spool's refusals."""
        refused = self.folder / "home" / "refused.ndjson"
        return json.dumps(self.gate.receipts) + (refused.read_text() if refused.exists() else "")


def stop_verdict(body: Mapping[str, Any]) -> Any:
    return judge_stop(
        parse_stop(
            {
                "sdk": "autogen",
                "policy": {**body["policy"], "version": body["policy"]["version"] or "none"},
                "stop_cause": body["stop_cause"],
                "done_tool": body.get("done_tool") or "done",
                "steps": [{"tools": s["tools"], "tokens": s["tokens"] or 0} for s in body["steps"]],
                "tool_failed": body["tool_failed"],
                "approval": body["approval"],
                "useful_progress": body["useful_progress"],
                "outcome": None,
            }
        )
    )


@contextmanager
def opened(folder: Path, declaration: dict[str, Any] = DECLARATION) -> Iterator[Bench]:
    gate = Gate(declaration)
    bench = Bench(gate, folder)
    try:
        yield bench
    finally:
        bench.recorder.close()
        gate.close()
