"""A team of two on LangGraph for the suite: a ticket, then a mail, each in a node of its own."""

import importlib.metadata
import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Final, TypedDict

from debugger.recorder import branching
from debugger.recorder.conformance.gate import Gate
from debugger.recorder.conformance.subject import Unavailable
from debugger.recorder.recorder import Recorder

_THREAD: Final = "conformance"
DECLARATION: Final[dict[str, Any]] = {
    "workflow": "conformance",
    "version": "1.0.0",
    "runtime": "langgraph",
    "agents": ["writer", "publisher"],
    "models": ["none"],
    "kinds": ["delegate"],
    "state_keys": {"agent_memory": {"probe": "langgraph_memory", "target": "memory"}},
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


class State(TypedDict):
    """What the team remembers."""

    ticket: str
    mail: str


class LangGraphSubject:
    """The team with its store and a list of what was really called."""

    runtime = "langgraph"
    declaration: Mapping[str, Any] = DECLARATION

    def __init__(self) -> None:
        try:
            self.version = importlib.metadata.version("langgraph")
        except importlib.metadata.PackageNotFoundError:
            raise Unavailable("langgraph") from None
        self._called: list[str] = []
        self._recorder: Recorder | None = None
        self._connection: sqlite3.Connection | None = None

    def record(self, gate: Gate, folder: Path) -> None:
        self._store = folder / "checkpoints.sqlite"
        targets = folder / "targets.json"
        memory = {"store": str(self._store), "runtime": "langgraph"}
        targets.write_text(json.dumps({"memory": memory}))
        self._recorder = Recorder.open(
            folder / "home",
            server=gate.url,
            token="secret-token",  # noqa: S106 - the suite's own gate, on this machine
            workflow="conformance",
            version="1.0.0",
            targets=targets,
        )
        self._graph = self._build(self._recorder)
        run = self._recorder.start_run(self._graph, thread_id=_THREAD)
        run.invoke({"ticket": "", "mail": ""})
        self._recorder.flush(30)

    def checkpoint(self, gate: Gate) -> Mapping[str, Any]:
        return gate.of(gate.run_id(), "checkpoint")[1]

    def resume(self, envelope: Mapping[str, Any]) -> str:
        assert self._recorder is not None  # noqa: S101 - record comes first
        return branching.resume(self._recorder, self._graph, envelope)

    def exists(self, branch: str) -> bool:
        del branch  # a branch's thread has a name of its own: any other than the parent's is one
        return any(
            thread != _THREAD for (thread,) in self._rows("SELECT DISTINCT thread_id FROM checkpoints")
        )

    def calls(self) -> list[str]:
        return list(self._called)

    def parent(self) -> object:
        return [
            self._rows(f"SELECT * FROM {table} WHERE thread_id = ? ORDER BY 1, 2, 3, 4, 5", _THREAD)  # noqa: S608
            for table in ("checkpoints", "writes")
        ]

    def close(self) -> None:
        if self._recorder is not None:
            self._recorder.close()
        if self._connection is not None:
            self._connection.close()

    def _rows(self, sql: str, *values: str) -> list[Any]:
        with closing(sqlite3.connect(self._store)) as connection:
            return connection.execute(sql, values).fetchall()

    def _build(self, recorder: Recorder) -> Any:
        from langgraph.checkpoint.sqlite import SqliteSaver
        from langgraph.graph import END, START, StateGraph

        def create_ticket(subject: str) -> str:
            self._called.append("create_ticket")
            return f"ticket for {subject}"

        def send_mail(subject: str) -> str:
            self._called.append("send_mail")
            return f"mail about {subject}"

        ticket = recorder.wrap(create_ticket)
        mail = recorder.wrap(send_mail, on_skip="not sent")
        parts = {"role": "r", "model": "none", "prompt": "p"}
        recorder.declare(
            {
                "agents": [
                    {"agent": "writer", "tools": ["create_ticket"], **parts},
                    {"agent": "publisher", "tools": ["send_mail"], **parts},
                ]
            }
        )

        def writer(state: State) -> dict[str, str]:
            return {"ticket": state["ticket"] + ticket("conformance")}

        def publisher(state: State) -> dict[str, str]:
            return {"mail": state["mail"] + mail("conformance")}

        graph = StateGraph(State)
        graph.add_node("writer", writer)
        graph.add_node("publisher", publisher)
        graph.add_edge(START, "writer")
        graph.add_edge("writer", "publisher")
        graph.add_edge("publisher", END)
        self._connection = sqlite3.connect(self._store, check_same_thread=False)
        return graph.compile(checkpointer=SqliteSaver(self._connection))
