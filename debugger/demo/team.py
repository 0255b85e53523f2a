"""The team on LangGraph: an orchestrator, a researcher, a verifier and a publisher with the desk's tools."""

import json
import os
import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, NotRequired, TypedDict

from langchain_core.messages import AnyMessage, SystemMessage, ToolMessage
from langchain_core.tools import BaseTool, tool
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph, add_messages

from debugger.demo.desk_client import DeskClient, DeskRefused
from debugger.demo.layout import FOLDER_ENV, DemoWorld
from debugger.demo.script import BYLINE, MARKER, MODEL, PROMPTS, ScriptedModel
from debugger.recorder import DestinationRefused, Recorder, current_operation

TOOLS_OF: Final[Mapping[str, tuple[str, ...]]] = {
    "orchestrator": (),
    "researcher": ("search_notes",),
    "verifier": ("create_ticket",),
    "publisher": ("send_mail", "create_draft", "publish_draft"),
}
REQUEST: Final = f"Please publish the third quarter's figures. {MARKER}"


class State(TypedDict):
    """The team's memory: its messages, and how what it publishes is signed."""

    messages: Annotated[list[AnyMessage], add_messages]
    byline: NotRequired[str]


def build(recorder: Recorder, world: DemoWorld | None = None) -> Any:
    """Return the compiled graph with recorded tools; without a world the environment names the folder."""
    world = world or DemoWorld.load(Path(os.environ[FOLDER_ENV]))
    recorder.declare(configuration())
    tools = {each.name: recorder.wrap(each) for each in desk_tools(world)}
    return compiled(tools, world.checkpoints)


def compiled(tools: Mapping[str, BaseTool], checkpoints: Path) -> Any:
    """Return the compiled graph over these tools, with its checkpoints in this file."""
    checkpoints.parent.mkdir(parents=True, exist_ok=True)
    graph = StateGraph(State)
    for agent in PROMPTS:
        graph.add_node(agent, _turn_of(agent, [tools[name] for name in TOOLS_OF[agent]]))
    graph.add_edge(START, "orchestrator")
    graph.add_conditional_edges("orchestrator", after_orchestrator, ["researcher", END])
    graph.add_edge("researcher", "verifier")
    graph.add_edge("verifier", "publisher")
    graph.add_edge("publisher", "orchestrator")
    saver = SqliteSaver(sqlite3.connect(checkpoints, check_same_thread=False))
    saver.setup()
    return graph.compile(checkpointer=saver)


def after_orchestrator(state: State) -> str:
    """Go on until the publisher has said its word."""
    is_over = any(each.name == "publisher" for each in state["messages"])
    return END if is_over else "researcher"


def configuration() -> dict[str, Any]:
    """Return what each agent is, every part of it; prompts are hashed by the recorder."""
    return {
        "agents": [
            {"agent": agent, "role": agent, "model": MODEL, "prompt": prompt, "tools": list(TOOLS_OF[agent])}
            for agent, prompt in PROMPTS.items()
        ]
    }


def desk_tools(world: DemoWorld) -> list[BaseTool]:
    """Return the five tools; each write carries the operation's key, under which the desk keeps it once."""
    desk = DeskClient(world.desk_url)

    def write(path: str, **content: str) -> dict[str, Any]:
        operation = current_operation()
        return _acknowledged(lambda: desk.write(path, operation.key, content))

    @tool
    def search_notes(query: str) -> str:
        """Search the notes in the workspace."""
        return json.dumps({"text": _found(world.workspace / "notes", query)})

    @tool
    def create_ticket(subject: str, body: str) -> str:
        """Open a ticket at the desk."""
        return json.dumps({"ticket": write("/tickets", subject=subject, body=body)["number"]})

    @tool
    def send_mail(recipient: str, subject: str, body: str) -> str:
        """Send a mail from the desk. It cannot be taken back."""
        kept = write("/mail", recipient=recipient, subject=subject, body=body)
        return json.dumps({"mail": kept["number"]})

    @tool
    def create_draft(title: str, section: str, body: str) -> str:
        """Keep a draft at the desk; nobody reads it yet."""
        return json.dumps({"draft": write("/drafts", title=title, section=section, body=body)["key"]})

    @tool
    def publish_draft(draft: str) -> str:
        """Ask the desk to publish a draft in its section."""
        operation = current_operation()
        kept = _acknowledged(lambda: desk.ask_to_publish(draft, operation.key))
        return json.dumps({"asked": kept["number"]})

    return [search_notes, create_ticket, send_mail, create_draft, publish_draft]


def _acknowledged(write: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Write, and say under which number and version the desk keeps it. Raises DestinationRefused."""
    try:
        kept = write()
    except DeskRefused as error:
        raise DestinationRefused(str(error)) from None
    current_operation().acknowledged(ref=str(kept["number"]), version=kept["version"])
    return kept


def _found(notes: Path, query: str) -> str:
    """Return the first line of the notes that holds every word of the query."""
    words = query.lower().split()
    for path in sorted(notes.glob("*.md")):
        for line in path.read_text().splitlines():
            if all(word in line.lower() for word in words):
                return line
    return f"nothing was found {MARKER}"


def _turn_of(agent: str, tools: list[BaseTool]) -> Any:
    """Return an agent's node: it speaks and calls tools until it has no further call."""
    named = {each.name: each for each in tools}
    model = ScriptedModel().bind_tools(tools)

    def turn(state: State) -> dict[str, Any]:
        said: list[AnyMessage] = []
        byline = state.get("byline", BYLINE)
        system = SystemMessage(f"{PROMPTS[agent]}\nSign as: {byline}")
        while True:
            answer = model.invoke([system, *state["messages"], *said])
            answer.name = agent
            said.append(answer)
            if not answer.tool_calls:
                return {"messages": said, "byline": byline}
            said += [_called(named[call["name"]], call) for call in answer.tool_calls]

    return turn


def _called(called: BaseTool, call: Any) -> ToolMessage:
    try:
        text, status = str(called.invoke(call["args"])), "success"
    except DestinationRefused as error:
        text, status = json.dumps({"error": str(error)}), "error"
    shown = json.dumps({**json.loads(text), "marker": MARKER})
    return ToolMessage(shown, name=called.name, tool_call_id=call["id"], status=status)
