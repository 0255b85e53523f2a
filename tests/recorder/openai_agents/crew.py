"""A support crew on the OpenAI Agents SDK, a model that says what it is told, a desk and a gate."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agents import Agent, Model, ModelResponse, Usage
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

from branches.rules.handoffs import judge_handoff, parse_handoff
from branches.rules.stops import judge_stop, parse_stop
from branches.rules.topology import judge_topology, parse_topology
from debugger.recorder import Recorder, current_operation, openai_agents
from debugger.recorder.conformance.gate import Gate
from debugger.recorder.openai_agents.runs import AgentsRun

MARKER = "CONTENT-MARKER-7f3a"
DECLARATION: dict[str, Any] = {
    "workflow": "support-crew",
    "version": "1.0.0",
    "runtime": "openai-agents",
    "agents": ["triage", "billing", "legal"],
    "models": ["fake-1"],
    "kinds": ["handoff", "agent_as_tool"],
    "phases": ["answer"],
    "phase": "answer",
    "dependencies": ["approval", "billing", "legal"],
    "owners": ["refund-desk"],
    "state_keys": {"agent_memory": {"probe": "openai_agents_memory", "target": "memory"}},
    "tools": {
        "look_up": {"destination": None, "effect_class": "read", "key_fields": []},
        "refund": {"destination": "desk", "effect_class": "irreversible", "key_fields": ["order"]},
    },
    "destinations": {"desk": {"query": "http_json", "target": "desk", "fixture": False}},
    "outcome": {"expected": "answered", "verifier": "http_json", "target": "answers"},
    "limits": {"max_age_s": 900, "start_s": 60},
    "progress": ["tool_result", "message"],
    "contract": {
        "version": "1",
        "agents": ["triage", "billing", "legal"],
        "edges": [
            {"from": "triage", "to": "billing", "kind": "handoff"},
            {"from": "triage", "to": "legal", "kind": "handoff"},
            {"from": "triage", "to": "legal", "kind": "agent_as_tool"},
        ],
        "phases": {"answer": [["triage>billing:handoff", "triage>legal:handoff"]]},
    },
}


def says(text: str = "done", status: Any = "completed") -> ResponseOutputMessage:
    content = ResponseOutputText(text=f"{text} {MARKER}", type="output_text", annotations=[])
    return ResponseOutputMessage(
        id="__fake_id__", content=[content], role="assistant", status=status, type="message"
    )


def calls(tool: str, call: str, **arguments: Any) -> ResponseFunctionToolCall:
    return ResponseFunctionToolCall(
        id=f"fc_{call}", call_id=call, name=tool, arguments=json.dumps(arguments), type="function_call"
    )


DECLARED = {
    "agents": [
        {"agent": "triage", "model": "fake-1", "tools": []},
        {"agent": "billing", "model": "fake-1", "tools": ["look_up", "refund"]},
        {"agent": "legal", "model": "fake-1", "tools": []},
    ]
}
"""What nobody can see: a model that is an object, and tools that close over the bench."""


type Answer = list[Any] | BaseException


class Scripted(Model):
    """Says one answer after the other; what a name stands for at a provider, `model` stands for here."""

    def __init__(self, *answers: Answer, model: str = "fake-1") -> None:
        self.model = model
        self.answers = list(answers)
        self.asked = 0

    def _next(self) -> list[Any]:
        answer = self.answers[self.asked] if self.asked < len(self.answers) else [says("nothing more")]
        self.asked += 1
        if isinstance(answer, BaseException):
            raise answer
        return answer

    async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
        usage = Usage(requests=1, input_tokens=5, output_tokens=3, total_tokens=8)
        return ModelResponse(output=self._next(), usage=usage, response_id=f"r{self.asked}")

    async def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        answer = await self.get_response()
        output = [each.model_dump(exclude_unset=True) for each in answer.output]
        response = Response.model_validate(
            {
                "id": f"r{self.asked}", "created_at": 0, "model": self.model, "object": "response",
                "output": output, "tool_choice": "auto", "tools": [],
                "parallel_tool_calls": False,
                "usage": {
                    "input_tokens": 5, "output_tokens": 3, "total_tokens": 8,
                    "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
                    "output_tokens_details": {"reasoning_tokens": 0},
                },
            }
        )  # fmt: skip
        yield ResponseCompletedEvent(response=response, type="response.completed", sequence_number=0)


class Bench:
    """A gate, a recorder on one home, and a desk that remembers what reached it."""

    def __init__(self, gate: Gate, folder: Path) -> None:
        self.gate = gate
        self.folder = folder
        self.desk: list[tuple[str, str]] = []
        self.recorders: list[Recorder] = []
        self.recorder = self.open()

    def open(self) -> Recorder:
        recorder = openai_agents.open_recorder(
            self.folder / "home",
            server=self.gate.url,
            token="secret-token",
            workflow="support-crew",
            version="1.0.0",
        )
        recorder.declare(DECLARED)
        self.recorders.append(recorder)
        return recorder

    def close(self) -> None:
        for recorder in self.recorders:
            recorder.close()

    def tools(self, recorder: Recorder | None = None, **options: Any) -> list[Any]:
        """Return the two tools of billing; a refund asks a person first."""

        def look_up(order: str) -> str:
            return f"order {order} {MARKER}"

        def refund(order: str, note: str = "") -> str:
            self.desk.append((order, current_operation().key))
            current_operation().acknowledged(ref=f"refund-{len(self.desk)} {MARKER}", version=len(self.desk))
            return f"refunded {order} {MARKER}"

        owner = recorder or self.recorder
        return [
            openai_agents.wrap(owner, look_up),
            openai_agents.wrap(owner, refund, on_skip="was refunded", **{"needs_approval": True, **options}),
        ]

    def crew(self, *script: Answer, recorder: Recorder | None = None, **changed: Any) -> Agent[Any]:
        """Return triage, which can hand over to billing and to legal; all three say one script."""
        model = Scripted(*script)
        billing = Agent(
            **{
                "name": "billing",
                "instructions": f"Refund what is due. {MARKER}",
                "model": model,
                "tools": self.tools(recorder),
                **changed,
            }
        )
        legal = Agent(name="legal", instructions="Answer letters.", model=model)
        return Agent(name="triage", instructions="Route.", model=model, handoffs=[billing, legal])

    def record(self, agent: Any, **options: Any) -> AgentsRun:
        return openai_agents.record(self.recorder, agent, **options)

    def run(self, agent: Any, **options: Any) -> AgentsRun:
        """Record one run to its first stop."""
        run = self.record(agent)
        asyncio.run(run.start(f"help {MARKER}", **options))
        return run

    def delivered(self) -> "Bench":
        assert self.recorder.flush(60)
        assert self.gate.refused == []
        assert MARKER not in self.everything()
        return self

    def bodies(self, kind: str, run: str | None = None) -> list[dict[str, Any]]:
        self.delivered()
        return self.gate.of(run or self.gate.run_id(), kind)

    def kinds(self, run: str | None = None) -> list[str]:
        self.delivered()
        return [each["kind"] for each in self.gate.receipts if each["run"] == (run or self.gate.run_id())]

    def stop(self, run: str | None = None) -> tuple[str, list[str]]:
        """Return the rules' verdict on the newest stop."""
        verdict = stop_verdict(self.bodies("stopped", run)[-1])
        return str(verdict.state), list(verdict.reasons)

    def handoffs(self, run: str | None = None) -> dict[str, tuple[str, list[str]]]:
        """Return the rules' verdict on each operation, by its receiver."""
        events: dict[str, list[dict[str, Any]]] = {}
        for receipt in self.delivered().gate.receipts:
            if receipt["kind"] == "handoff" and receipt["run"] == (run or self.gate.run_id()):
                body = receipt["body"]
                said = {name: body[name] for name in _SAID if body.get(name) is not None}
                own = {"handoff_id": body["handoff"], "event": body["event"], "at": receipt["at"]}
                events.setdefault(body["operation"], []).append(
                    {**own, "agent": receipt["actor"]["name"], **said}
                )
        found = {}
        for operation, listed in events.items():
            facts = {"operation_id": operation, "now": datetime.now(UTC).isoformat(), "events": listed}
            verdict = judge_handoff(parse_handoff(facts))
            found[listed[0]["receiver"]] = (str(verdict.state), list(verdict.reasons))
        return found

    def edges(self, run: str | None = None) -> list[str]:
        return [f"{b['from']}>{b['to']}:{b['kind']} {b['status']}" for b in self.bodies("interaction", run)]

    def topology(self) -> tuple[str, list[str]]:
        """Return the rules' verdict on the newest root run against the declared contract."""
        run = self.gate.run_id()
        events = [
            {
                "event_id": each["event_id"],
                "version": each["body"]["contract_version"],
                "at": each["at"],
                **{name: each["body"][name] for name in ("from", "to", "kind", "status")},
            }
            for each in self.delivered().gate.receipts
            if each["kind"] == "interaction" and each["run"] == run
        ]
        facts = {
            "contract": DECLARATION["contract"],
            "run": {
                "pinned_version": "1", "phase": "answer", "parent_terminal": True, "outcome_receipt": True,
                "evidence": "complete", "now": datetime.now(UTC).isoformat(), "deadline": None,
                "dependency": None, "last_progress_at": None,
            },
            "events": events,
        }  # fmt: skip
        verdict = judge_topology(parse_topology(facts))
        return str(verdict.verdict), list(verdict.reasons)

    def everything(self) -> str:
        """Return all that left the process, and what lies in the spool or was refused."""
        home = self.folder / "home"
        files = [home / "refused.ndjson", *(home / "spool").glob("*")]
        kept = [file.read_bytes().decode("utf-8", "replace") for file in files if file.is_file()]
        return json.dumps([self.gate.receipts, kept])


_SAID = ("receiver", "expected_artifact", "dependency", "deadline")


def stop_verdict(body: dict[str, Any]) -> Any:
    return judge_stop(
        parse_stop(
            {
                "sdk": "openai-agents",
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
        bench.close()
        gate.close()


type Change = Callable[[Agent[Any]], None]
