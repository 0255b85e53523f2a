"""Traces of the OpenAI Agents SDK, put together span by span as its tracing processors export them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from branches.ports import SourceFile, SourceRun
from debugger.adapters.runtimes.openai_agents import OpenAIAgentsImporter
from tests.adapters.source_runs import a_file, check, read

SAVED = Path(__file__).with_name("data") / "openai_agents"
IMPORTER = OpenAIAgentsImporter()
TRACE = "trace_" + "a" * 32


def file_of(name: str) -> SourceFile:
    return SourceFile(name, (SAVED / name).read_bytes())


def saved(name: str) -> Any:
    return json.loads((SAVED / name).read_bytes())


def the_run(*files: SourceFile) -> SourceRun:
    """Return the one run in files that hold nothing else and nothing to refuse."""
    found = read(IMPORTER, *files)
    assert found.refused == ()
    (run,) = found.runs
    check(run)
    return run


class Trace:
    """A trace whose clock goes on by a second with every span's beginning and end."""

    def __init__(self, trace: str = TRACE) -> None:
        self.trace = trace
        self.seconds = 0
        self.events: list[dict[str, Any]] = [self.record("trace_start")]

    def record(self, event: str) -> dict[str, Any]:
        return {"event": event, "export": {"object": "trace", "id": self.trace, "workflow_name": "w"}}

    def now(self) -> str:
        self.seconds += 1
        return f"2026-11-30T11:{self.seconds // 60:02}:{self.seconds % 60:02}+00:00"

    def begin(self, own: str, parent: str | None, **content: Any) -> dict[str, Any]:
        """Add a span that is still open; `end` closes it."""
        export = {
            "object": "trace.span",
            "id": own,
            "trace_id": self.trace,
            "parent_id": parent,
            "started_at": self.now(),
            "ended_at": None,
            "span_data": content,
            "error": None,
        }
        self.events.append({"event": "span_end", "export": export})
        return export

    def end(self, *exports: dict[str, Any], error: str | None = None, **content: Any) -> None:
        for export in exports:
            export["ended_at"] = self.now()
            if error is not None:
                export["error"] = {"message": error, "data": content}

    def task(self, own: str, parent: str | None = None) -> dict[str, Any]:
        return self.begin(own, parent, type="custom", name="task", data={"sdk_span_type": "task"})

    def agent(self, own: str, parent: str, name: str) -> dict[str, Any]:
        return self.begin(own, parent, type="agent", name=name, handoffs=[], tools=[])

    def turn(self, own: str, parent: str, number: int, agent: str) -> dict[str, Any]:
        inner = {"sdk_span_type": "turn", "turn": number, "agent_name": agent, "usage": None}
        return self.begin(own, parent, type="custom", name="turn", data=inner)

    def call(self, own: str, parent: str, tool: str, output: Any = "ok", sent: Any = "{}") -> dict[str, Any]:
        """Add a call that has come back."""
        export = self.begin(own, parent, type="function", name=tool, input=sent, output=output)
        self.end(export)
        return export

    def handoff(self, own: str, parent: str, sender: str, receiver: str | None) -> dict[str, Any]:
        export = self.begin(own, parent, type="handoff", from_agent=sender, to_agent=receiver)
        self.end(export)
        return export

    def loop(self, *tools: tuple[str, Any], agent: str = "worker") -> "Trace":
        """Add one loop: a turn for each (tool, output), and one that answers."""
        task, own = self.task("t"), self.agent("a", "t", agent)
        for number, (tool, output) in enumerate(tools, 1):
            turn = self.turn(f"turn{number}", "a", number, agent)
            self.call(f"call{number}", turn["id"], tool, output)
            self.end(turn)
        self.end(self.turn("last", "a", len(tools) + 1, agent), own, task)
        return self

    def file(self, label: str = "trace.json", **beside: Any) -> SourceFile:
        events = [*self.events, self.record("trace_end")]
        return a_file(label, {"sdk": "openai-agents", "version": "0.24.0", "events": events, **beside})

    def spans(self) -> Iterator[dict[str, Any]]:
        return (each["export"] for each in self.events if each["event"] == "span_end")


def finished(agent: str = "worker") -> dict[str, Any]:
    return {"hooks": [["agent_start", agent], ["agent_end", agent]]}


def a_state(turn: int = 1, **changes: Any) -> dict[str, Any]:
    """The captured state that waits, as one of our trace."""
    return {
        **saved("waiting.json"),
        "trace": {"object": "trace", "id": TRACE},
        "current_turn": turn,
        **changes,
    }
