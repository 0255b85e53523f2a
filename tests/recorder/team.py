"""A team of three on LangGraph with a desk that remembers every delivery by its idempotency key."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph, add_messages

from branches import registry
from branches.evidence import langgraph_store
from branches.ports import Moment, StateMeasurement, Target
from debugger.recorder import Recorder, current_operation

MARKER = "CONTENT-MARKER-7f3a"
DECLARATION: dict[str, Any] = {
    "workflow": "desk-team",
    "version": "1.0.0",
    "runtime": "langgraph",
    "agents": ["planner", "writer", "publisher"],
    "models": ["fake-1"],
    "kinds": ["handover"],
    "phases": ["publish"],
    "phase": "publish",
    "state_keys": {
        "agent_memory": {"probe": "langgraph_memory", "target": "memory", "acknowledgeable": False},
        "workspace": {"probe": "file", "target": "workspace", "acknowledgeable": False},
        "approval_queue": {"probe": "file", "target": "elsewhere", "acknowledgeable": False},
    },
    "tools": {
        "create_ticket": {
            "destination": "desk.tickets", "effect_class": "reversible", "key_fields": ["subject"],
        },
        "send_mail": {
            "destination": "desk.mail",
            "effect_class": "irreversible",
            "key_fields": ["recipient", "subject"],
        },
        "search_notes": {"destination": None, "effect_class": "read", "key_fields": []},
    },
    "destinations": {
        "desk.tickets": {"query": "http_json", "target": "t", "fixture": False},
        "desk.mail": {"query": "http_json", "target": "m", "fixture": False},
    },
    "outcome": {"expected": "report-published", "verifier": "http_json", "target": "r"},
    "limits": {"max_age_s": 900, "start_s": 60, "steps": 12},
    "progress": ["tool_result", "artifact"],
    "contract": {
        "version": "1",
        "agents": ["planner", "writer", "publisher"],
        "edges": [
            {"from": "planner", "to": "writer", "kind": "handover"},
            {"from": "writer", "to": "publisher", "kind": "handover"},
        ],
        "phases": {"publish": ["planner>writer:handover", "writer>publisher:handover"]},
    },
}  # fmt: skip
CONFIGURATION = {
    "agents": [
        {"agent": "planner", "role": "plans", "model": "fake-1", "prompt": f"be good {MARKER}", "tools": []},
        {"agent": "writer", "role": "writes", "model": "fake-1", "prompt": "x", "tools": ["create_ticket"]},
        {"agent": "publisher", "role": "sends", "model": "fake-1", "prompt": "y", "tools": ["send_mail"]},
    ]
}


class State(TypedDict):
    messages: Annotated[list[Any], add_messages]
    ticket: str


class MemoryProbe:
    """Hashes a checkpoint in the store, found by HMAC."""

    limits = "Only what the store holds."
    remedy = "Fork again."

    def measure(self, target: Target, moment: Moment) -> StateMeasurement:
        with closing(langgraph_store.connect(Path(target.text("store")))) as connection:
            thread = langgraph_store.find_thread(connection, target.key, moment.external_ref or "")
            found = thread and langgraph_store.find_checkpoint(
                connection, target.key, thread, moment.checkpoint or ""
            )
            if not thread or not found:
                return StateMeasurement(None, problem="absent")
            return StateMeasurement(
                langgraph_store.memory_fingerprint(connection, target.key, thread, found[1])
            )

    capture = measure


class FileProbe:
    """Hashes one file."""

    limits = "One file."
    remedy = "Put it back."

    def measure(self, target: Target, moment: Moment) -> StateMeasurement:
        return StateMeasurement(target.key.digest("state", Path(target.text("file")).read_bytes()))

    capture = measure


PROBES = {"langgraph_memory": MemoryProbe(), "file": FileProbe()}


def install_probes() -> None:
    """Let the registry find this file's probes."""
    registry.find = lambda port, name: PROBES[name]  # type: ignore[assignment,misc]


class World:
    """The files round a recorder: store, desk, workspace, targets."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = folder / "store.sqlite"
        self.desk = folder / "desk.ndjson"
        self.workspace = folder / "workspace.txt"
        self.targets = folder / "targets.json"
        self.home = folder / "home"
        self.tone = "kindly"
        self.connections: list[sqlite3.Connection] = []
        self.recorders: list[Recorder] = []
        if not self.workspace.exists():
            self.workspace.write_text("as it was")
        self.targets.write_text(
            json.dumps({"memory": {"store": str(self.store)}, "workspace": {"file": str(self.workspace)}})
        )

    def open(self, url: str) -> Recorder:
        recorder = Recorder.open(
            self.home,
            server=url,
            token="secret-token",
            workflow="desk-team",
            version="1.0.0",
            targets=self.targets,
        )
        recorder.declare(CONFIGURATION)
        self.recorders.append(recorder)
        return recorder

    def close(self) -> None:
        for recorder in self.recorders:
            recorder.close()
        for connection in self.connections:
            connection.close()

    def deliver(self, tool: str, **content: str) -> str:
        """What a destination does: remembers who asked for what under which key."""
        entry = {"tool": tool, "key": current_operation().key, **content}
        with self.desk.open("a") as file:
            file.write(json.dumps(entry) + "\n")
        return f"{tool}-{len(self.delivered())}"

    def delivered(self, tool: str | None = None) -> list[dict[str, str]]:
        if not self.desk.exists():
            return []
        entries = [json.loads(line) for line in self.desk.read_text().splitlines()]
        return [entry for entry in entries if tool in (None, entry["tool"])]

    def saver(self) -> SqliteSaver:
        self.connections.append(sqlite3.connect(self.store, check_same_thread=False))
        return SqliteSaver(self.connections[-1])

    def rows(self, thread: str) -> list[Any]:
        with closing(sqlite3.connect(self.store)) as connection:
            found = connection.execute(
                "SELECT * FROM checkpoints WHERE thread_id = ? ORDER BY checkpoint_id", (thread,)
            ).fetchall()
            found += connection.execute(
                "SELECT * FROM writes WHERE thread_id = ? ORDER BY checkpoint_id, task_id, idx", (thread,)
            ).fetchall()
        return found


def build(recorder: Recorder, world: World, *, skip: Any = None) -> Any:
    """Return the compiled graph: planner, writer (a ticket), publisher (a mail)."""

    def create_ticket(subject: str, body: str) -> str:
        return world.deliver("create_ticket", subject=subject, body=body)

    def send_mail(recipient: str, subject: str, body: str) -> str:
        answer = world.deliver("send_mail", recipient=recipient, subject=subject, body=body)
        current_operation().acknowledged(ref=answer, version=7)
        return answer

    ticket = recorder.wrap(create_ticket)
    mail = recorder.wrap(send_mail, on_skip=skip)

    def planner(state: State) -> dict[str, Any]:
        return {"messages": [AIMessage(f"the plan {MARKER}", name="planner")]}

    def writer(state: State) -> dict[str, Any]:
        plan = state["messages"][-1].content
        return {"ticket": ticket("case 1", body=f"about {plan}")}

    def publisher(state: State) -> dict[str, Any]:
        sent = mail("ada@example.org", "case 1", body=f"see {state['ticket']} {world.tone}")
        return {"messages": [AIMessage(f"sent {sent}", name="publisher")]}

    graph = StateGraph(State)
    for node in (planner, writer, publisher):
        graph.add_node(node.__name__, node)
    graph.add_edge(START, "planner")
    graph.add_edge("planner", "writer")
    graph.add_edge("writer", "publisher")
    graph.add_edge("publisher", END)
    return graph.compile(checkpointer=world.saver())


def wrap_the_rest(recorder: Recorder) -> None:
    """Wrap every declared tool that a test's own graph has no use for."""

    def idle(subject: str) -> str:
        return subject

    for name in recorder.unwrapped:
        idle.__name__ = name
        recorder.wrap(idle)


def ask() -> dict[str, Any]:
    return {"messages": [HumanMessage(f"please {MARKER}", id="ask-1")], "ticket": ""}
