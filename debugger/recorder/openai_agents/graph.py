"""The agents that a run may reach from its first one, and the tools that they hold."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from types import FunctionType
from typing import Any, Final

from debugger.recorder.sight import cells_of

_MADE_BY_HANDOFF: Final = "handoff.<locals>._invoke_handoff_impl"


class AgentsAmbiguous(ValueError):
    """Two agents of a run have one name: nothing that is recorded of them could be told apart."""


@dataclass(frozen=True, slots=True)
class Graph:
    """The agents by name, the first one first; `is_whole`: no hand-over leads where we cannot look."""

    agents: dict[str, Any]
    is_whole: bool

    @property
    def first(self) -> Any:
        """The agent that begins."""
        return next(iter(self.agents.values()))

    def tools(self) -> Iterator[tuple[Any, Any]]:
        """Yield (agent, tool) of everything that an agent can call beside handing over."""
        for agent in self.agents.values():
            for tool in agent.tools:
                yield agent, tool

    @property
    def handoff_tools(self) -> frozenset[str]:
        """The names by which models ask to hand over."""
        found = (handoff_name(each) for agent in self.agents.values() for each in agent.handoffs)
        return frozenset(found)

    @property
    def has_servers(self) -> bool:
        """Whether an agent gets tools from an MCP server, which no one can list beforehand."""
        return any(agent.mcp_servers for agent in self.agents.values())


def graph_of(first: Any) -> Graph:
    """Walk from an agent over hand-overs and agents used as tools. Raises AgentsAmbiguous."""
    agents: dict[str, Any] = {}
    waiting, is_whole = [first], True
    while waiting:
        agent = waiting.pop(0)
        known = agents.setdefault(agent.name, agent)
        if known is not agent:
            raise AgentsAmbiguous("agents: two of one name")
        for handoff in agent.handoffs:
            target = target_of(handoff)
            if target is None:
                is_whole = False
            elif target is not agents.get(target.name):
                waiting.append(target)
        inner = [inner_agent(tool) for tool in agent.tools]
        waiting += [each for each in inner if each is not None and each is not agents.get(each.name)]
    return Graph(agents, is_whole)


def target_of(handoff: Any) -> Any:
    """Return the agent that a hand-over leads to, or None where it does not say."""
    from agents import Agent

    if isinstance(handoff, Agent):
        return handoff
    reference = getattr(handoff, "_agent_ref", None)
    return None if reference is None else reference()


def callback_of(handoff: Any) -> Any:
    """Return the program's own code that a hand-over calls: its `on_handoff`, or None where it has none.

    For a hand-over that the SDK's `handoff` did not make it is whatever stands in its place.
    """
    invoke = getattr(handoff, "on_invoke_handoff", None)
    made = invoke.args[0] if isinstance(invoke, partial) and len(invoke.args) == 1 else None
    if isinstance(made, FunctionType) and (made.__module__, made.__qualname__) == (
        "agents.handoffs",
        _MADE_BY_HANDOFF,
    ):
        held = cells_of(made)
        if "on_handoff" in held and held.get("agent") is target_of(handoff):
            return held["on_handoff"]
    return invoke


def handoff_name(handoff: Any) -> str:
    """Return the name of the tool by which a model asks for a hand-over."""
    from agents import Agent, Handoff

    return str(Handoff.default_tool_name(handoff) if isinstance(handoff, Agent) else handoff.tool_name)


def inner_agent(tool: Any) -> Any:
    """Return the agent that a tool is, or None."""
    return getattr(tool, "_agent_instance", None) if getattr(tool, "_is_agent_tool", False) else None
