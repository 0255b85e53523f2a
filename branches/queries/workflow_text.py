"""A workflow's declaration as an engineer writes it, in YAML or JSON, and a text to begin with."""

from collections.abc import Mapping
from typing import Any, Final

import yaml

from branches.queries.yaml_text import TextProblem, read_yaml

MAX_BYTES: Final = 256 * 1024
_MEMORY: Final[Mapping[str, tuple[str, str]]] = {
    "langgraph": ("langgraph_memory", "memory"),
    "openai-agents": ("openai_agents_memory", "memory"),
    "autogen": ("autogen_team", "team"),
}
"""The probe of the agents' memory and how its target ends, by runtime; else the files are state."""


def read_workflow_text(text: str) -> Mapping[str, Any]:
    """Return the declaration; whether it is one the command says. Raises TextProblem."""
    document, _ = read_yaml(text, MAX_BYTES)
    if not isinstance(document, dict):
        raise TextProblem(1, "declaration", "type:object")
    return document


def starter(answers: Mapping[str, str]) -> str:
    """Return a declaration to begin with, made of a few answers of a form; empty ones are filled in.

    `tools` has a tool a line: its name, its destination (or -), and read, reversible or irreversible.
    """
    name = answers.get("workflow", "").strip() or "my-workflow"
    runtime = answers.get("runtime", "").strip() or "langgraph"
    probe, target = _MEMORY.get(runtime, ("git_workspace", "workspace"))
    state_key = "agent_memory" if runtime in _MEMORY else "workspace"
    agents = answers.get("agents", "").replace(",", " ").split() or ["agent"]
    tools = dict(filter(None, map(_tool, answers.get("tools", "").splitlines())))
    destinations = {str(tool["destination"]) for tool in tools.values() if tool["destination"]}
    document = {
        "workflow": name,
        "version": "1.0.0",
        "runtime": runtime,
        "agents": agents,
        "models": ["model-name"],
        "kinds": ["delegate"],
        "state_keys": {state_key: {"probe": probe, "target": f"{name}-{target}"}},
        "tools": tools,
        "destinations": {
            each: {"query": "http_json", "target": each} for each in sorted(map(str, destinations))
        },
        "outcome": {"expected": "done", "verifier": "http_json", "target": "outcome"},
        "limits": {"max_age_s": 900, "start_s": 60},
    }
    text: str = yaml.safe_dump(document, sort_keys=False, width=100)
    return text


def _tool(line: str) -> tuple[str, dict[str, Any]] | None:
    parts = line.split()
    if not parts:
        return None
    destination = parts[1] if len(parts) > 1 and parts[1] != "-" else None
    effect_class = parts[2] if len(parts) > 2 else ("read" if destination is None else "unknown")
    return parts[0], {"destination": destination, "effect_class": effect_class, "key_fields": []}
