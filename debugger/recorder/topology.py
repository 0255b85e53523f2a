"""What the graph is, as one keyed digest, and which of its nodes hide something the digest cannot see."""

import functools
import inspect
import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from branches.evidence.canonical import TOPOLOGY
from branches.evidence.keys import HmacKey
from debugger.recorder.sight import Sight, cells_of


@dataclass(frozen=True, slots=True)
class Topology:
    """The digest to compare before a resume, and the nodes of which a part is unknown."""

    digest: str
    unknown: tuple[str, ...]


def describe(graph: Any, key: HmacKey) -> Topology:
    """Describe a compiled graph: nodes and edges, channel classes, node sources, input schema.

    A node is unknown where its function is a closure over more than functions, a partial, a callable
    object, a subgraph or has no source: prompts and tools may sit there. The workflow's declared
    configuration is then the only word on them.
    """
    nodes = _nodes(graph)
    described = {
        "graph": graph.get_graph(xray=False).to_json(),
        "channels": {name: _channel(channel) for name, channel in sorted(graph.channels.items())},
        "nodes": {name: source_of(function) for name, function in sorted(nodes.items())},
        "input": graph.get_input_jsonschema(),
    }
    text = json.dumps(
        described, sort_keys=True, separators=(",", ":"), default=lambda value: type(value).__qualname__
    )
    unknown = tuple(sorted(name for name, function in nodes.items() if _hides(function)))
    return Topology(key.digest(TOPOLOGY, text), unknown)


def _nodes(graph: Any) -> dict[str, Any]:
    builder = getattr(graph, "builder", None)
    specs: Mapping[str, Any] = getattr(builder, "nodes", {}) if builder is not None else {}
    found = {name: _function(spec.runnable) for name, spec in specs.items()}
    for source, branches in (getattr(builder, "branches", {}) or {}).items():
        for name, branch in branches.items():
            found[f"{source}?{name}"] = _function(branch.path)
    return found


def _function(runnable: Any) -> Any:
    """Return the function behind a runnable, or the runnable itself."""
    for name in ("func", "afunc"):
        function = getattr(runnable, name, None)
        if callable(function):
            return function
    return runnable


def _channel(channel: Any) -> list[str]:
    reducer = getattr(channel, "operator", None) or getattr(channel, "reducer", None)
    name = "" if reducer is None else getattr(_unpartial(reducer), "__qualname__", type(reducer).__qualname__)
    return [type(channel).__qualname__, name]


def source_of(function: Any) -> Any:
    """Return what can be seen of a function: its source, plain globals it names, what it encloses."""
    return Sight().of(function)


def _hides(function: Any) -> bool:
    if isinstance(function, functools.partial):
        return True
    function = inspect.unwrap(function) if callable(function) else function
    method = getattr(function, "__func__", function)
    if not isinstance(method, FunctionType):
        return True
    hidden = any(not isinstance(value, FunctionType) for value in cells_of(method).values())
    return hidden or hasattr(function, "__self__")


def _unpartial(function: Any) -> Any:
    while isinstance(function, functools.partial):
        function = function.func
    return function
