"""Places that runtimes keep: checkpoints, interrupts, saved run states."""

import json
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph

from branches.ports import Moment, Target
from debugger.adapters import postgres
from debugger.adapters.probes import langgraph_memory
from tests.adapters.places import KEY, MARKER, NOW, PipedPlace, Place, target
from tests.adapters.places_journals import turn_table
from tests.adapters.wire import POSTGRES, Wire, database, wire

SAVED = Path(__file__).with_name("data") / "openai_agents"


class Memory(PipedPlace):
    """A thread of two steps in LangGraph's own store; the moment is its first step."""

    probe = "langgraph_memory"
    option = "store"
    drifts = frozenset({"messages", "branch:to:two"})

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.store = folder / "store.sqlite"
        self.connection = sqlite3.connect(self.store, check_same_thread=False)
        graph: Any = StateGraph(MessagesState)
        graph.add_node("one", lambda _: {"messages": [HumanMessage(f"one {MARKER}", id="m-1")]})
        graph.add_node("two", lambda _: {"messages": [HumanMessage(f"two {MARKER}", id="m-2")]})
        graph.add_edge(START, "one")
        graph.add_edge("one", "two")
        graph.add_edge("two", END)
        self.graph = graph.compile(checkpointer=SqliteSaver(self.connection))
        config: Any = {"configurable": {"thread_id": "t-1"}}
        self.graph.invoke({"messages": []}, config, durability="sync")
        states = {each.next: each for each in self.graph.get_state_history(config)}
        self.own = states["two",].config["configurable"]["checkpoint_id"]
        self.moment = Moment(KEY.digest("thread", "t-1"), KEY.digest("checkpoint", self.own), NOW)

    def target(self) -> Target:
        return target(store=str(self.store))

    def spoken(self) -> dict[str, Any]:
        return {**super().spoken(), "thread_id": "t-1", "checkpoint_id": self.own}

    def change(self) -> None:
        own = "SELECT checkpoint FROM checkpoints WHERE checkpoint_id = ?"
        (self.kept,) = self.connection.execute(own, (self.own,)).fetchone()
        with self.connection as connection:
            connection.execute(
                "UPDATE checkpoints SET checkpoint = (SELECT checkpoint FROM checkpoints WHERE"
                " checkpoint_id <> ? ORDER BY checkpoint_id DESC LIMIT 1) WHERE checkpoint_id = ?",
                (self.own, self.own),
            )

    def change_back(self) -> None:
        with self.connection as connection:
            put = "UPDATE checkpoints SET checkpoint = ? WHERE checkpoint_id = ?"
            connection.execute(put, (self.kept, self.own))

    def turn(self) -> None:
        with self.connection as connection:
            for name in ("checkpoints", "writes"):
                turn_table(connection, name)

    def take_away(self) -> None:
        self.connection.close()
        self.store.unlink()

    def close(self) -> None:
        self.connection.close()
        super().close()


class PostgresMemory(Place):
    """The same in LangGraph's PostgreSQL store, over a wire that can be cut."""

    probe = "langgraph_memory"
    drifts = frozenset({"messages"})

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        from tests.adapters import langgraph_stores  # it skips where its package is missing

        self.tables = langgraph_stores.TABLES
        self.store = langgraph_stores.Store(self.held.enter_context(database()))
        self.held.callback(self.store.connection.close)
        self.wire = Wire(POSTGRES)
        self.port = self.wire.port
        self.held.callback(self.wire.close)
        self.own = self.store.run("t-1")
        self.moment = langgraph_stores.moment("t-1", self.own)

    def target(self) -> Target:
        found: Target = self.store.target(port=self.port)
        return found

    def spoken(self) -> dict[str, Any]:
        return {**super().spoken(), "thread_id": "t-1", "checkpoint_id": self.own}

    def change(self) -> None:
        kept = "SELECT version, blob FROM checkpoint_blobs WHERE channel = 'messages'"
        self.kept = self.store.execute(kept).fetchall()
        self.store.execute("UPDATE checkpoint_blobs SET blob = '\\x90' WHERE channel = 'messages'")

    def change_back(self) -> None:
        put = "UPDATE checkpoint_blobs SET blob = %s WHERE channel = 'messages' AND version = %s"
        for row in self.kept:
            self.store.execute(put, row["blob"], row["version"])

    def turn(self) -> None:
        self.store.copy_to(self.store, "t-1", "turned")
        for name in self.tables:
            self.store.execute(f"DELETE FROM {name} WHERE thread_id = 't-1'")
        self.store.copy_to(self.store, "turned", "t-1")
        for name in self.tables:
            self.store.execute(f"DELETE FROM {name} WHERE thread_id = 'turned'")

    def take_away(self) -> None:
        self.wire.close()

    @contextmanager
    def stalling(self, patch: pytest.MonkeyPatch) -> Iterator[Target]:
        patch.setattr(langgraph_memory, "TIMEOUT_S", 1.0)
        patch.setattr(postgres, "CONNECT_S", 2)
        with wire(POSTGRES, then="stall", most=900) as between:
            yield self.store.target(port=between.port)


class SavedRuns(Place):
    """A recorder's folder with a saved state of a run of the OpenAI Agents SDK, and a copy of a branch."""

    probe = "openai_agents_memory"
    own = "ck-1"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.store = folder / "states"
        self.state = json.loads((SAVED / "waiting.json").read_text())
        self.state["original_input"] = MARKER
        self.files = [self.store / thread / f"{self.own}.json" for thread in ("trace-1", "br_1")]
        self.change_back()
        self.moment = Moment(KEY.digest("thread", "trace-1"), KEY.digest("checkpoint", self.own), NOW)

    def target(self) -> Target:
        return target(store=str(self.store))

    def spoken(self) -> dict[str, Any]:
        return {**super().spoken(), "thread_id": "trace-1", "checkpoint_id": self.own}

    def write(self, state: dict[str, Any], *files: Path, indent: int | None = None) -> None:
        """Save a state as the recorder does, in both places or in some."""
        saved = {
            "checkpoint": self.own, "kind": "waits", "context": "none", "agent": "triage",
            "messages": ["m-1", "m-2"], "state": state,
        }  # fmt: skip
        for file in files or self.files:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(saved, indent=indent))

    def change(self) -> None:
        self.write({**self.state, "original_input": f"other {MARKER}"})

    def change_back(self) -> None:
        self.write(self.state)

    def turn(self) -> None:
        shutil.rmtree(self.store)
        self.files.reverse()
        self.write(dict(reversed(self.state.items())), indent=1)

    def take_away(self) -> None:
        self.store.rename(self.folder / "elsewhere")

    @contextmanager
    def stalling(self, patch: pytest.MonkeyPatch) -> Iterator[Target]:
        self.files[0].unlink()
        os.mkfifo(self.files[0])
        yield self.target()


class Interrupts(PipedPlace):
    """A thread that waits with two questions."""

    probe = "langgraph_interrupts"
    option = "store"
    drifts = frozenset({"pending"})

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        from tests.adapters.test_approval_queue import Thread

        self.thread = Thread(folder)
        self.held.callback(self.thread.connection.close)
        self.moment = self.thread.moment()

    def target(self) -> Target:
        return target(store=str(self.thread.store))

    def spoken(self) -> dict[str, Any]:
        return {**super().spoken(), "thread_id": "t-1"}

    def change(self) -> None:
        asked = "SELECT value FROM writes WHERE idx = -3 ORDER BY task_id"
        (self.kept,), (other,) = self.thread.connection.execute(asked).fetchall()
        self.put(other)

    def change_back(self) -> None:
        self.put(self.kept)

    def put(self, question: bytes) -> None:
        first = "SELECT min(task_id) FROM writes WHERE idx = -3"
        with self.thread.connection as connection:
            connection.execute(
                f"UPDATE writes SET value = ? WHERE idx = -3 AND task_id = ({first})", (question,)
            )

    def turn(self) -> None:
        with self.thread.connection as connection:
            for name in ("checkpoints", "writes"):
                turn_table(connection, name)

    def take_away(self) -> None:
        self.thread.connection.close()
        self.thread.store.unlink()


class RunState(PipedPlace):
    """A saved run that waits with two calls."""

    probe = "openai_run_state"
    option = "file"
    drifts = frozenset({"pending", "resolved"})

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.path = folder / f"{MARKER}.json"
        self.state = json.loads((SAVED / "waiting.json").read_text())
        request = {"type": "mcp_approval_request", "id": f"mcpr_{MARKER}", "arguments": MARKER}
        item = {"type": "tool_approval_item", "raw_item": request, "agent": {"name": "billing"}}
        self.state["current_step"]["data"]["interruptions"].append(item)
        self.change_back()

    def target(self) -> Target:
        return target(file=str(self.path))

    def change(self) -> None:
        decided = {"agent": {"name": "billing"}, "tool_key": "refund", "decision": {"approved": ["c2"]}}
        context = {**self.state["context"], "function_tool_approvals": [decided]}
        self.path.write_text(json.dumps({**self.state, "context": context}))

    def change_back(self) -> None:
        self.path.write_text(json.dumps(self.state))

    def turn(self) -> None:
        self.state["current_step"]["data"]["interruptions"].reverse()
        self.path.write_text(json.dumps(dict(reversed(self.state.items())), indent=1))

    def take_away(self) -> None:
        with suppress(FileNotFoundError):
            self.path.unlink()
