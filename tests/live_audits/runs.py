"""Runs of real runtimes with models that say what they are told, recorded on a running server."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, cast

from autogen_agentchat.conditions import MaxMessageTermination, TextMentionTermination
from langchain_core.messages import AIMessage
from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Link

from debugger.recorder import Recorder, autogen, openai_agents
from debugger.recorder.conformance.gate import Gate
from tests.live_audits.live import MARKER, Live
from tests.patience import PATIENCE_S
from tests.recorder import team
from tests.recorder.autogen import teams
from tests.recorder.openai_agents import crew

VERSION: Final = "1.0.0"
LANGGRAPH: Final = {
    **team.DECLARATION,
    "state_keys": {"agent_memory": {"probe": "langgraph_memory", "target": "memory"}},
    "kinds": ["handover", "handoff"],
    "dependencies": ["approval"],
    "outcome": {"expected": "report-published", "verifier": "file", "target": "desk"},
    "contract": {
        "version": "1",
        "agents": ["planner", "writer", "publisher"],
        "edges": [
            {"from": "planner", "to": "writer", "kind": "handoff"},
            {"from": "writer", "to": "publisher", "kind": "handover"},
        ],
        "phases": {"publish": ["planner>writer:handoff", "writer>publisher:handover"]},
    },
}
AUTOGEN: Final = {
    **teams.DECLARATION,
    "contract": {
        "version": "1",
        "agents": ["alice", "bob"],
        "edges": [{"from": "alice", "to": "bob", "kind": "handoff"}],
        "phases": {"talk": ["alice>bob:handoff"]},
    },
}
OPENAI_AGENTS: Final = crew.DECLARATION


def declared(runtime: str, name: str) -> dict[str, Any]:
    """Return a workflow of a runtime that brings no declaration: a crew of two, one hand-over."""
    return {
        "workflow": name,
        "version": VERSION,
        "runtime": runtime,
        "agents": ["triage", "billing"],
        "models": [],
        "kinds": ["handoff"],
        "phases": ["answer"],
        "phase": "answer",
        "owners": ["refund-desk"],
        "state_keys": {"notes": {"probe": "files", "target": "notes"}},
        "tools": {
            "search": {"destination": None, "effect_class": "read", "key_fields": []},
            "refund": {"destination": "desk", "effect_class": "irreversible", "key_fields": []},
        },
        "destinations": {"desk": {"query": "http_json", "target": "desk", "fixture": False}},
        "outcome": {"expected": "answered", "verifier": "http_json", "target": "answers"},
        "limits": {"max_age_s": 900, "start_s": 60},
        "contract": {
            "version": "1",
            "agents": ["triage", "billing"],
            "edges": [{"from": "triage", "to": "billing", "kind": "handoff"}],
            "phases": {"answer": ["triage>billing:handoff"]},
        },
    }


# --- LangGraph


class Forgetful(team.World):
    """A desk that says of every delivery that it came, and keeps none."""

    def deliver(self, tool: str, **content: str) -> str:
        return f"{tool}-1"


class Destination:
    """The desk's own file, and the server's word on it: the outcome is that something was delivered there."""

    def __init__(self, server: Live, world: team.World) -> None:
        self.server = server
        self.targets = world.folder / "server-targets.json"
        place = {"root": str(world.folder), "path": world.desk.name}
        self.targets.write_text(
            json.dumps({"desk": {**place, "expected": {"report-published": {"min_bytes": 10}}}})
        )

    def asked(self, command: str, run: str) -> None:
        """Have the server ask the destination, before a run works or after it stopped."""
        script = (
            f"from branches.commands.check_outcome import {command}\n"
            "from branches.models import Run\n"
            f"{command}(run=Run.objects.get(uid={run!r}))\n"
        )
        self.server.run_in_django(script, BRANCHGATE_TARGETS=str(self.targets))


def checked_run(server: Live, folder: Path, desk: type[team.World]) -> str:
    """Record one run of the team whose declared outcome the destination is asked for."""
    destination = Destination(server, desk(folder))

    def begun(recorder: Recorder, run: str) -> None:
        assert recorder.flush(PATIENCE_S)
        destination.asked("take_run_baseline", run)

    run = langgraph_run(server, folder, team.build, desk=desk, begun=begun)
    destination.asked("check_outcome", run)
    return run


def langgraph_run(
    server: Live,
    folder: Path,
    build: Callable[[Recorder, team.World], Any],
    *,
    desk: type[team.World] = team.World,
    begun: Callable[[Recorder, str], None] = lambda recorder, run: None,
) -> str:
    """Record one run of a graph and return its id; `begun` is called before it does anything."""
    world = desk(folder)
    recorder = Recorder.open(
        world.home,
        server=server.url,
        token=server.token,
        workflow=LANGGRAPH["workflow"],
        version=VERSION,
        targets=world.targets,
    )
    try:
        recorder.declare(team.CONFIGURATION)
        graph = build(recorder, world)
        team.wrap_the_rest(recorder)
        run = recorder.start_run(graph, thread_id="monday")
        begun(recorder, run.run)
        run.invoke(team.ask())
        assert recorder.flush(PATIENCE_S)
        return run.run
    finally:
        recorder.close()
        world.close()


def goes_past_the_writer(recorder: Recorder, world: team.World) -> Any:
    """Return a graph whose planner goes straight to the publisher, who asks a person."""

    def planner(state: team.State) -> dict[str, Any]:
        return {"messages": [AIMessage(f"the plan {MARKER}", name="planner")]}

    def publisher(state: team.State) -> dict[str, Any]:
        return {"messages": [AIMessage(f"sent {interrupt({'may': MARKER})}", name="publisher")]}

    graph = StateGraph(team.State)
    graph.add_node("planner", planner)
    graph.add_node("publisher", publisher)
    graph.add_edge(START, "planner")
    graph.add_edge("planner", "publisher")
    graph.add_edge("publisher", END)
    return graph.compile(checkpointer=world.saver())


# --- AutoGen


def autogen_run(server: Live, folder: Path, build: Callable[[Any], list[Any]], until: Any) -> str:
    """Record one run of a swarm, whose agents are given the recorded tool, and return the run's id."""
    recorder = autogen.open_recorder(
        folder, server=server.url, token=server.token, workflow=AUTOGEN["workflow"], version=VERSION
    )
    agents = build(autogen.wrap(recorder, teams.Desk().send_mail))

    async def run() -> str:
        swarm = teams.swarm(*agents, termination_condition=until)
        started = await autogen.record(recorder, swarm, thread_id="monday")
        await started.run_task(f"do it {MARKER}")
        return str(started.run)

    try:
        found = asyncio.run(run())
        assert recorder.flush(PATIENCE_S)
        return found
    finally:
        recorder.close()


def hands_over_once(server: Live, folder: Path) -> str:
    """Bob is handed the work, sends a mail and says that it is done."""

    def build(mail: Any) -> list[Any]:
        sends = teams.call("send_mail", recipient="ada@example.org", text=MARKER)
        return [
            teams.agent("alice", teams.call("transfer_to_bob"), handoffs=["bob"]),
            teams.agent("bob", sends, f"DONE {MARKER}", tools=[mail]),
        ]

    return autogen_run(server, folder, build, TextMentionTermination("DONE", sources=["bob"]))


def hands_back_until_its_limit(server: Live, folder: Path) -> str:
    """Alice and Bob hand the work to each other until a limit of messages ends it."""

    def build(mail: Any) -> list[Any]:
        return [
            teams.agent("alice", *[teams.call("transfer_to_bob")] * 4, handoffs=["bob"], tools=[mail]),
            teams.agent("bob", *[teams.call("transfer_to_alice")] * 4, handoffs=["alice"]),
        ]

    return autogen_run(server, folder, build, MaxMessageTermination(8))


# --- OpenAI Agents


class Crew(crew.Bench):
    """The crew of the recorder's own tests, recorded on a running server in place of a gate."""

    def __init__(self, server: Live, folder: Path) -> None:
        self.server = server
        super().__init__(cast("Gate", None), folder)

    def open(self) -> Recorder:
        recorder = openai_agents.open_recorder(
            self.folder,
            server=self.server.url,
            token=self.server.token,
            workflow=OPENAI_AGENTS["workflow"],
            version=VERSION,
        )
        recorder.declare(crew.DECLARED)
        self.recorders.append(recorder)
        return recorder


def openai_agents_run(server: Live, folder: Path, *script: crew.Answer, **options: Any) -> str:
    """Record one run of the crew to its first stop and return its id."""
    bench = Crew(server, folder)
    try:
        run = bench.run(bench.crew(*script), **options)
        assert bench.recorder.flush(PATIENCE_S)
        return str(run.run)
    finally:
        bench.close()


# --- OpenTelemetry


def traced(server: Live, workflow: str, *agents: str) -> None:
    """Trace agents that hand over one to the next, with the stock exporter and its processor."""
    exporter = OTLPSpanExporter(
        endpoint=f"{server.url}/v1/traces", headers={"Authorization": f"Bearer {server.token}"}
    )
    provider = TracerProvider(resource=Resource.create({"branchgate.workflow": workflow}))
    provider.add_span_processor(BatchSpanProcessor(exporter))
    tracer = provider.get_tracer("crew")
    with tracer.start_as_current_span(
        "invoke_workflow", attributes={"gen_ai.operation.name": "invoke_workflow", "note": MARKER}
    ):
        before: list[Link] = []
        for name in agents:
            about = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": name, "note": MARKER}
            with tracer.start_as_current_span(f"invoke_agent {name}", attributes=about, links=before) as span:
                before = [Link(span.get_span_context(), {"app.link.kind": "handoff"})]
    provider.shutdown()
