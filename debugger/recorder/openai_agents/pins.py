"""What agents are made of, part by part: as a run's start declares it and as a permit pins it.

`RunState.from_json` takes a saved state into agents with other instructions or swapped tools and says
nothing: these parts are what has to be compared first.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from branches.evidence.canonical import TOPOLOGY
from branches.evidence.keys import HmacKey
from debugger.recorder import configuration as configurations
from debugger.recorder.openai_agents import looks
from debugger.recorder.openai_agents.graph import (
    AgentsAmbiguous,
    Graph,
    callback_of,
    graph_of,
    handoff_name,
    inner_agent,
)
from debugger.recorder.openai_agents.tools import is_recorded
from debugger.recorder.recorder import Recorder
from debugger.recorder.sight import Sight

_PROMPT: Final = {"instructions", "prompt"}
_APART: Final = {"name", "handoff_description", "model", "tools", "handoffs", "mcp_servers", *_PROMPT}
# What an agent calls beside its tools and hand-overs; the rest of its settings is its role.
_OF_TOOLS: Final = {"hooks", "tool_use_behavior", "mcp_config"}


@dataclass(frozen=True, slots=True)
class _Seen:
    """What was seen of an agent, and the parts of which something could not be."""

    rules: dict[str, Any]
    unseen: frozenset[str]


def described(recorder: Recorder, graph: Graph, run_config: Any) -> dict[str, Any]:
    """Return the configuration of a graph as the record carries it, its routing digest with it.

    What cannot be seen (instructions that are a function, a model that is an object, a tool that closes over
    one, the program's own code behind a hand-over) is taken from `recorder.declare`, and null where nobody
    said it: no branch goes on from that.
    """
    said = {each["agent"]: each for each in recorder.configuration.get("agents", ())}
    seen = {name: _see(graph, agent, run_config) for name, agent in graph.agents.items()}
    agents = [
        _agent(agent, run_config, said.get(name, {}), seen[name].unseen)
        for name, agent in graph.agents.items()
    ]
    key, word = recorder.identity.key, recorder.configuration.get("routing")
    run, is_whole = _see_run(graph, run_config)
    routing = _digest(key, graph, seen, [run, word]) if is_whole or word is not None else None
    return configurations.described({"agents": agents}, recorder.declaration, key, routing=routing)


def parts_of(recorder: Recorder, graph: Graph, run_config: Any) -> dict[str, str | None]:
    """Return the same flat, as a permit pins it."""
    return configurations.parts_of(described(recorder, graph, run_config), recorder.declaration)


def routing_of(graph: Graph, run_config: Any, key: HmacKey) -> str:
    """Return the keyed digest of all that can be seen: who may hand over to whom, code, and settings."""
    seen = {name: _see(graph, agent, run_config) for name, agent in graph.agents.items()}
    return _digest(key, graph, seen, [_see_run(graph, run_config)[0], None])


def is_full(recorder: Recorder, graph: Graph) -> bool:
    """Whether every call that may have an effect goes through this recorder.

    The program's own code behind a hand-over counts as a tool of the hand-over's name that is not wrapped.
    """
    if not graph.is_whole or graph.has_servers:
        return False
    rule = recorder.declaration.tool
    bare = [
        tool.name
        for _, tool in graph.tools()
        if not is_recorded(tool, recorder) and inner_agent(tool) is None
    ]
    bare += [
        handoff_name(each)
        for agent in graph.agents.values()
        for each in agent.handoffs
        if callback_of(each) is not None
    ]
    return all(rule(name).effect_class == "read" for name in bare)


def is_still_full(recorder: Recorder, graph: Graph) -> bool:
    """Whether the same holds for the agents as they are by now; a program may change them while they run."""
    try:
        return is_full(recorder, graph_of(graph.first))
    except AgentsAmbiguous:
        return False


def recorded_tools(recorder: Recorder, graph: Graph) -> frozenset[str]:
    """Return the names of the tools that are wrapped wherever an agent holds them."""
    bare = {tool.name for _, tool in graph.tools() if not is_recorded(tool, recorder)}
    return frozenset({tool.name for _, tool in graph.tools()} - bare)


def _agent(agent: Any, run_config: Any, said: Mapping[str, Any], unseen: frozenset[str]) -> dict[str, Any]:
    instructions = agent.instructions or ""
    is_known = isinstance(instructions, str) and agent.prompt is None
    own = {
        "role": agent.handoff_description or agent.name,
        "model": _model(_model_of(agent, run_config)),
        "prompt": instructions if is_known else None,
        "tools": None if agent.mcp_servers else sorted(tool.name for tool in agent.tools),
    }
    found = {
        part: said.get(part) if value is None or part in unseen else value for part, value in own.items()
    }
    if "model" in unseen and own["model"] not in {None, found["model"]}:
        found["model"] = None  # said to be another one than it says itself
    return {"agent": agent.name, **found}


def _model_of(agent: Any, run_config: Any) -> Any:
    return getattr(run_config, "model", None) or agent.model


def _model(model: Any) -> str | None:
    from agents.models import get_default_model

    if model is None:
        return get_default_model()
    name = model if isinstance(model, str) else getattr(model, "model", None)
    return name if isinstance(name, str) else None


def _see(graph: Graph, agent: Any, run_config: Any) -> _Seen:
    """Look at an agent, one sight for each part; a prompt that is no text is not known anyhow."""
    sights = {part: _sight(graph) for part in ("tools", "model", "role", "prompt")}
    rest = [each.name for each in fields(agent) if each.name not in _APART]
    answers = _model_of(agent, run_config)
    rules = {
        "handoffs": sorted(
            (looks.at_handoff(sights["tools"], each) for each in agent.handoffs), key=lambda each: each[:2]
        ),
        "tools": [looks.at_tool(sights["tools"], tool) for tool in sorted(agent.tools, key=_name)],
        "servers": [type(each).__qualname__ for each in agent.mcp_servers],
        "instructions": None
        if isinstance(agent.instructions, str)
        else sights["prompt"].of(agent.instructions),
        "model": looks.at_model(sights["model"], answers, _run(run_config).model_provider),
        "settings": [[name, sights[_part(name)].of(getattr(agent, name))] for name in rest],
    }
    return _Seen(rules, frozenset(part for part, sight in sights.items() if not sight.is_whole))


def _see_run(graph: Graph, run_config: Any) -> tuple[Any, bool]:
    sight = _sight(graph)
    return looks.at_run(sight, _run(run_config)), sight.is_whole


def _run(run_config: Any) -> Any:
    from agents import RunConfig

    return RunConfig() if run_config is None else run_config


def _part(name: str) -> str:
    return "model" if name == "model_settings" else "tools" if name in _OF_TOOLS else "role"


def _name(tool: Any) -> str:
    return str(tool.name)


def _sight(graph: Graph) -> Sight:
    def known(value: Any) -> str | None:
        return next((name for name, agent in graph.agents.items() if agent is value), None)

    return Sight(known, looks.LIBRARIES)


def _digest(key: HmacKey, graph: Graph, seen: Mapping[str, _Seen], run: list[Any]) -> str:
    agents = {name: each.rules for name, each in sorted(seen.items())}
    return key.digest(TOPOLOGY, _json({"first": graph.first.name, "agents": agents, "run": run}))


def _json(value: Any) -> str:
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), default=lambda each: type(each).__qualname__
    )
