"""What the agents of a graph are, part by part: as a run's start declares it and as a permit pins it."""

from collections.abc import Mapping
from typing import Any, Final

from branches.evidence.canonical import CONFIGURATION, digest
from branches.evidence.domains import NAME, PROMPT, STATE
from branches.evidence.keys import HmacKey
from debugger.recorder.names import Declaration

PARTS: Final = ("role", "model", "prompt", "tools")
_MOST_AGENTS: Final = 24  # as many as a receipt holds


def described(
    configuration: Mapping[str, Any], declaration: Declaration, key: HmacKey, *, routing: str | None
) -> dict[str, Any]:
    """Return a configuration as the record carries it: `{"agents": [...], "routing": digest}`.

    Prompts, roles and lists of tools leave as keyed digests. An agent that the workflow declares and the
    configuration leaves out is there with nulls: nobody knows what it is. A `routing` of None is not known.
    """
    said = [_agent(each, key) for each in configuration.get("agents", ())]
    named = {each["agent"] for each in said}
    silent = [_agent({"agent": name}, key) for name in sorted(declaration.agents - named)]
    agents = [*said, *silent[: max(0, _MOST_AGENTS - len(said))]]
    body = {"configuration": {"agents": agents, "routing": routing}}
    covered = declaration.cover({"kind": "run_started", "body": body}, key)["body"]["configuration"]
    return dict(covered)


def parts_of(described_: Mapping[str, Any], declaration: Declaration) -> dict[str, str | None]:
    """Return the same flat: `AGENT.role`, `.model`, `.prompt`, `.tools`, `routing`, `workflow`."""
    parts: dict[str, str | None] = {
        f"{each['agent']}.{part}": each[part] for each in described_["agents"] for part in PARTS
    }
    return {**parts, "routing": described_["routing"], "workflow": declaration.digest}


def difference(
    pinned: Mapping[str, str | None] | None, pinned_digest: str | None, own: Mapping[str, str | None]
) -> str | None:
    """Return the rule by which a graph is not the one that was pinned, or None when every part is equal.

    A part that is null was never known, and a permit that pins no parts pins nothing.
    """
    if not pinned or None in pinned.values():
        return "configuration_unknown"
    if dict(pinned) != dict(own) or digest(CONFIGURATION, dict(pinned)) != pinned_digest:
        return "configuration_differs"
    return None


def _agent(agent: Mapping[str, Any], key: HmacKey) -> dict[str, Any]:
    prompt, tools, role = agent.get("prompt"), agent.get("tools"), agent.get("role")
    return {
        "agent": agent["agent"],
        "role": None if role is None else key.digest(NAME, f"role\0{role}"),
        "model": agent.get("model"),
        "prompt": None if prompt is None else key.digest(PROMPT, prompt),
        "tools": None if tools is None else key.digest(STATE, "tools\0" + "\0".join(sorted(tools))),
    }
