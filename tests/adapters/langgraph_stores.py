"""LangGraph's own PostgreSQL store with a thread of two steps, and how it is measured."""

import importlib.util
from collections.abc import Iterator
from typing import Annotated, Any, TypedDict

import psycopg
import pytest
from langchain_core.messages import HumanMessage
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages

from branches.ports import Moment, StateMeasurement
from debugger.adapters.probes.langgraph_memory import LangGraphMemoryProbe
from tests.adapters.places import KEY, MARKER, MOMENT, NOW, target
from tests.adapters.wire import database

if importlib.util.find_spec("langgraph.checkpoint.postgres") is None:
    pytest.skip("needs langgraph-checkpoint-postgres", allow_module_level=True)

from langgraph.checkpoint.postgres import PostgresSaver

TABLES = ("checkpoints", "checkpoint_blobs", "checkpoint_writes")


class State(TypedDict):
    messages: Annotated[list[Any], add_messages]
    count: int
    share: float
    label: str | None
    flag: bool
    seen: set[str]


class Store:
    """A database of its own with a thread of two steps; `own` is the first step's checkpoint."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.connection = psycopg.connect(
            f"host=127.0.0.1 user=postgres dbname={name}",
            autocommit=True,
            prepare_threshold=0,
            row_factory=psycopg.rows.dict_row,
        )
        self.saver = PostgresSaver(self.connection)
        self.saver.setup()

    def run(self, thread: str) -> str:
        graph: Any = StateGraph(State)
        graph.add_node("one", lambda _: {"messages": [HumanMessage(f"one {MARKER}", id="m-1")], "count": 1})
        graph.add_node("two", lambda _: {"messages": [HumanMessage("two", id="m-2")], "label": MARKER})
        graph.add_edge(START, "one")
        graph.add_edge("one", "two")
        graph.add_edge("two", END)
        config: Any = {"configurable": {"thread_id": thread}}
        compiled = graph.compile(checkpointer=self.saver)
        given = {"messages": [], "share": 0.5, "label": None, "flag": True, "seen": {"a", "b", "c"}}
        compiled.invoke(given, config, durability="sync")
        states = {each.next: each for each in compiled.get_state_history(config)}
        return str(states["two",].config["configurable"]["checkpoint_id"])

    def copy_to(self, other: "Store", thread: str, into: str) -> None:
        """Copy a thread's rows by SQL, last ones first."""
        for table in TABLES:
            rows = self.connection.execute(f"SELECT * FROM {table} WHERE thread_id = %s", [thread]).fetchall()
            for row in reversed(rows):
                named = {**row, "thread_id": into}
                values = [psycopg.types.json.Jsonb(v) if isinstance(v, dict) else v for v in named.values()]
                holes = ", ".join(["%s"] * len(values))
                other.connection.execute(f"INSERT INTO {table} ({', '.join(named)}) VALUES ({holes})", values)

    def execute(self, statement: str, *values: Any) -> Any:
        return self.connection.execute(statement, values)

    def target(self, *, port: int = 5432, **options: Any) -> Any:
        url = f"postgresql://postgres@127.0.0.1:{port}/{self.name}"
        return target(**{"url": url, "allow": "loopback"} | options)


@pytest.fixture
def store() -> Iterator[Store]:
    with database() as name:
        made = Store(name)
        yield made
        made.connection.close()


@pytest.fixture
def own(store: Store) -> str:
    return store.run("t-1")


def moment(thread: str | None, checkpoint: str | None) -> Moment:
    return Moment(
        None if thread is None else KEY.digest("thread", thread),
        None if checkpoint is None else KEY.digest("checkpoint", checkpoint),
        NOW,
    )


def measured(store: Store, thread: str | None, checkpoint: str | None, **options: Any) -> StateMeasurement:
    return LangGraphMemoryProbe().measure(store.target(**options), moment(thread, checkpoint))


def clear(
    store: Store, thread: str | None, checkpoint: str | None = None, **options: Any
) -> StateMeasurement:
    named = {"thread_id": thread, "checkpoint_id": checkpoint}
    given = {name: value for name, value in named.items() if value is not None}
    return LangGraphMemoryProbe().measure(store.target(**given, **options), MOMENT)


def drifted(one: StateMeasurement, other: StateMeasurement) -> set[str]:
    names = {
        KEY.digest("part", name): name for name in (*State.__annotations__, "branch:to:two", "__start__")
    }
    parts = one.parts.keys() | other.parts.keys()
    return {names[part] for part in parts if one.parts.get(part) != other.parts.get(part)}
