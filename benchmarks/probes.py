"""What one measurement costs, by probe: each at a modest real place, the median of several in a row."""

import json
import shutil
import sqlite3
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from uuid import uuid4

from benchmarks.world import VAR
from branches.evidence.keys import HmacKey
from branches.ports import Moment, StateMeasurement, Target
from branches.registry import find

FILES, ROWS, ENTRIES, MESSAGES = 2_000, 1_000, 1_000, 50
ROUNDS, SLOW_ROUNDS = 9, 3
KEY = HmacKey("0badc0de", b"k" * 32)
POSTGRES = "host=127.0.0.1 user=postgres connect_timeout=3"
REDIS_DATABASE = 11
TOOLS = """
import asyncio
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

async def listed(context, params):
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    tools = [types.Tool(name=f"tool_{n}", description="a tool", inputSchema=schema) for n in range(20)]
    return types.ListToolsResult(tools=tools)

async def main():
    server = Server("tools", version="1.0.0", on_list_tools=listed)
    async with stdio_server() as (reader, writer):
        await server.run(reader, writer, server.create_initialization_options())

asyncio.run(main())
"""

type Options = dict[str, Any]
type Place = Callable[[Path], Any]
"""Makes a place below a folder, gives its options, and takes it away again."""


class NotMeasured(Exception):
    """Something that the place needs is not here; the message says what."""


def measure() -> dict[str, Any]:
    """Return the median time of each probe in ms, or why there is none."""
    return {name: _cost(probe, place, rounds) for name, (probe, place, rounds) in PLACES.items()}


def _cost(probe: str, place: Place, rounds: int) -> float | str:
    folder = VAR / f"probes-{uuid4().hex}"
    folder.mkdir(parents=True)
    try:
        with place(folder) as options:
            target, moment = Target("bench", options, KEY), Moment(None, None, datetime.now(UTC))
            times = []
            time.sleep(0.1)  # what was only just written is looked at again by some
            for _ in range(rounds + 1):
                began = time.perf_counter()
                found: StateMeasurement = find("probes", probe).measure(target, moment)
                times.append(time.perf_counter() - began)
                if found.fingerprint is None:
                    raise NotMeasured(str(found.problem))
            return statistics.median(times[1:]) * 1000  # the first one loads what it needs
    except NotMeasured as error:
        return f"not measured: {error}"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _folder(folder: Path) -> Iterator[Options]:
    _fill(folder)
    yield {"path": str(folder)}


@contextmanager
def _work_tree(folder: Path) -> Iterator[Options]:
    if shutil.which("git") is None:
        raise NotMeasured("no git")
    _fill(folder)
    name = ["-c", "user.name=bench", "-c", "user.email=bench@example.org"]
    for command in (["init", "-q"], ["add", "-A"], [*name, "commit", "-q", "-m", "all"]):
        subprocess.run(["git", "-C", str(folder), *command], check=True, capture_output=True)
    (folder / "00" / "0.txt").write_text("changed")
    (folder / "new.txt").write_text("new")
    yield {"path": str(folder)}


def _fill(folder: Path) -> None:
    for number in range(FILES):
        path = folder / f"{number % 40:02}" / f"{number}.txt"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"file {number}\n" * 40)


@contextmanager
def _sqlite(folder: Path) -> Iterator[Options]:
    path = folder / "rows.sqlite"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE ticket (id INTEGER, subject TEXT, price REAL)")
        rows = [(number, f"ticket {number}", number * 1.5) for number in range(ROWS)]
        connection.executemany("INSERT INTO ticket VALUES (?, ?, ?)", rows)
    yield {"url": f"sqlite://{path}", "query": "SELECT * FROM ticket"}


@contextmanager
def _postgres(_: Path) -> Iterator[Options]:
    with _database() as (name, connection):
        connection.execute(
            "CREATE TABLE ticket AS SELECT n AS id, 'ticket ' || n AS subject, n * 1.5 AS price"
            " FROM generate_series(1, %s) AS n",
            [ROWS],
        )
        yield {**_postgres_at(name), "query": "SELECT * FROM ticket"}


def _postgres_at(name: str) -> Options:
    return {"url": f"postgres://postgres@127.0.0.1:5432/{name}", "allow": "loopback"}


@contextmanager
def _database() -> Iterator[tuple[str, Any]]:
    """A database of its own and a connection to it."""
    try:
        import psycopg
        from psycopg.rows import dict_row
    except ImportError:
        raise NotMeasured("no psycopg") from None
    name = f"branchgate_bench_{uuid4().hex[:12]}"
    try:
        admin = psycopg.connect(f"{POSTGRES} dbname=postgres", autocommit=True)
    except psycopg.Error:
        raise NotMeasured("no PostgreSQL on 127.0.0.1:5432") from None
    with closing(admin):
        admin.execute(f"CREATE DATABASE {name}")
        try:
            with psycopg.connect(
                f"{POSTGRES} dbname={name}", autocommit=True, prepare_threshold=0, row_factory=dict_row
            ) as own:
                yield name, own
        finally:
            admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


@contextmanager
def _redis(fill: Callable[[Any, str], None]) -> Iterator[Options]:
    try:
        import redis
    except ImportError:
        raise NotMeasured("no redis package") from None
    name = f"branchgate:bench:{uuid4().hex}"
    with redis.Redis("127.0.0.1", 6379, db=REDIS_DATABASE, socket_timeout=5) as server:
        try:
            server.ping()
        except redis.ConnectionError:
            raise NotMeasured("no Redis on 127.0.0.1:6379") from None
        try:
            fill(server, name)
            yield {"url": f"redis://127.0.0.1/{REDIS_DATABASE}", "name": name, "allow": "loopback"}
        finally:
            server.delete(name)


def _list(_: Path) -> Any:
    return _redis(lambda server, name: server.rpush(name, *(f"task {number}" for number in range(ENTRIES))))


def _stream(_: Path) -> Any:
    def fill(server: Any, name: str) -> None:
        with server.pipeline() as commands:
            for number in range(1, ENTRIES + 1):
                commands.xadd(name, {"task": f"task {number}"}, id=f"{number}-0")
            commands.execute()
        server.xgroup_create(name, "workers", id="0")
        server.xreadgroup("workers", "first", {name: ">"}, count=ENTRIES // 2)

    return _redis(fill)


@contextmanager
def _credential(folder: Path) -> Iterator[Options]:
    (folder / "token").write_text(json.dumps({"access_token": "x" * 64, "scopes": ["read", "write"]}))
    yield {"file": str(folder / "token")}


@contextmanager
def _tools(folder: Path) -> Iterator[Options]:
    (folder / "tools.py").write_text(TOOLS)
    yield {"command": [sys.executable, str(folder / "tools.py")]}


@contextmanager
def _site() -> Iterator[str]:
    """A page of 8 kB on the loopback interface."""
    body = b"<title>x</title><main>Order 7: paid</main>" + b"<p>text</p>" * 700

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def _resource(_: Path) -> Iterator[Options]:
    with _site() as url:
        yield {"url": url, "allow": "loopback"}


@contextmanager
def _page(_: Path) -> Iterator[Options]:
    if shutil.which("chromium") is None:
        raise NotMeasured("no chromium")
    with _site() as url:
        yield {"url": f"{url}/", "record": "main", "allow": "loopback"}


@contextmanager
def _memory(folder: Path) -> Iterator[Options]:
    try:
        from langgraph.checkpoint.sqlite import SqliteSaver
    except ImportError:
        raise NotMeasured("no langgraph-checkpoint-sqlite") from None
    path = folder / "store.sqlite"
    with closing(sqlite3.connect(path, check_same_thread=False)) as connection:
        _talk(SqliteSaver(connection))
        yield {"store": str(path), "thread_id": "bench"}


@contextmanager
def _postgres_memory(_: Path) -> Iterator[Options]:
    try:
        from langgraph.checkpoint.postgres import PostgresSaver
    except ImportError:
        raise NotMeasured("no langgraph-checkpoint-postgres") from None
    with _database() as (name, connection):
        saver = PostgresSaver(connection)
        saver.setup()
        _talk(saver)
        yield {**_postgres_at(name), "thread_id": "bench"}


def _talk(saver: Any) -> None:
    """Write a thread of fifty messages, one a step."""
    from langchain_core.messages import HumanMessage
    from langgraph.graph import END, START, MessagesState, StateGraph

    graph: Any = StateGraph(MessagesState)
    graph.add_node("say", lambda _: {"messages": [HumanMessage("a message of some length " * 20)]})
    graph.add_edge(START, "say")
    graph.add_conditional_edges("say", lambda state: END if len(state["messages"]) >= MESSAGES else "say")
    compiled = graph.compile(checkpointer=saver)
    configuration = {"configurable": {"thread_id": "bench"}, "recursion_limit": MESSAGES + 5}
    compiled.invoke({"messages": []}, configuration, durability="sync")


PLACES: dict[str, tuple[str, Place, int]] = {
    f"git_workspace, {FILES:,} files": ("git_workspace", _work_tree, ROUNDS),
    f"files, {FILES:,} files": ("files", _folder, ROUNDS),
    f"sql, SQLite, {ROWS:,} rows": ("sql", _sqlite, ROUNDS),
    f"sql, PostgreSQL, {ROWS:,} rows": ("sql", _postgres, ROUNDS),
    f"queue, Redis list of {ENTRIES:,}": ("queue", _list, ROUNDS),
    f"queue, Redis stream of {ENTRIES:,}": ("queue", _stream, ROUNDS),
    "credential, in a file": ("credential", _credential, ROUNDS),
    "mcp_tools, stdio, 20 tools": ("mcp_tools", _tools, SLOW_ROUNDS),
    "http, 8 kB": ("http", _resource, ROUNDS),
    "browser": ("browser", _page, SLOW_ROUNDS),
    f"langgraph_memory, SQLite, {MESSAGES} messages": ("langgraph_memory", _memory, ROUNDS),
    f"langgraph_memory, PostgreSQL, {MESSAGES} messages": ("langgraph_memory", _postgres_memory, ROUNDS),
}
