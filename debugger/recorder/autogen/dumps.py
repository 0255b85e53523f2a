"""What a team is made of, part by part: configuration, routing and limits, as its components dump themselves.

`load_state` takes a state into a team that lost an agent or has another prompt, tool or model, and says
nothing: these parts are what has to be compared first.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from branches.evidence.canonical import TOPOLOGY
from branches.evidence.keys import HmacKey
from debugger.recorder.autogen.tools import original_of
from debugger.recorder.sight import Sight
from debugger.recorder.stops import check_count, check_seconds

LIBRARIES: Final = ("autogen_agentchat", "autogen_core", "autogen_ext")
"""What is of a tested version: of its functions and classes the name is enough."""

_APART: Final = ("model_client", "system_message", "workbench", "tools")


def participants(team: Any) -> list[Any]:
    """Return the agents and teams that take part, in their order."""
    return list(team._participants)  # noqa: SLF001 - the library offers no other way, see `check_team`


def configuration(team: Any, declared: Mapping[str, Any]) -> dict[str, Any]:
    """Return a team's configuration as `Recorder.declare` takes it.

    The role is everything of an agent that is neither model, prompt nor tools. Tools count with their
    schema and their code, not only by name. What does not dump itself, and tools whose code encloses what
    cannot be seen, are taken from what was declared, and left out where nobody said it.
    """
    said = {each["agent"]: each for each in declared.get("agents", ())}
    return {"agents": [{**said.get(each.name, {}), **_agent(each)} for each in participants(team)]}


def _choosers(team: Any) -> list[Any]:
    """Return the program's own functions that choose the next speaker: a dump says nothing of them."""
    nodes = getattr(getattr(team, "_graph", None), "nodes", {})
    found = [edge.condition_function for name in sorted(nodes) for edge in nodes[name].edges]
    return [getattr(team, "_selector_func", None), getattr(team, "_candidate_func", None), *found]


def routing(team: Any, key: HmacKey, declared: Mapping[str, Any]) -> str | None:
    """Return the keyed digest of who takes part, how the next speaker is chosen and what ends the team.

    None where a part of that cannot be seen and no `routing` is declared that speaks for it.
    """
    sight, said, dumped = Sight(libraries=LIBRARIES), declared.get("routing"), _dump(team)
    chosen = [sight.of(each) for each in _choosers(team)]
    if said is None and (dumped is None or not sight.is_whole):
        return None
    config = dict(dumped or {})
    config.pop("participants", None)
    described = {
        "team": f"{type(team).__module__}.{type(team).__qualname__}",
        "participants": [each.name for each in participants(team)],
        "handoffs": {each.name: sorted(handoff_tools([each]).items()) for each in participants(team)},
        "conditions": [dict(each) for each in conditions(team)],
        "config": config,
        "chosen_by": chosen,
        "said": said,
    }
    return key.digest(TOPOLOGY, _json(described))


def handoff_tools(agents: list[Any]) -> dict[str, str]:
    """Return the tools by which agents hand over: name of the tool → target."""
    found: dict[str, str] = {}
    for agent in agents:
        for handoff in dict(getattr(agent, "_handoffs", None) or {}).values():
            found[str(handoff.name)] = str(handoff.target)
    return found


def plain_tools(agents: list[Any]) -> list[Any] | None:
    """Return the tools that agents hold, or None where one holds tools that cannot be seen."""
    found: list[Any] = []
    for agent in agents:
        benches = getattr(agent, "_workbench", None)
        if benches is None:
            return None
        for bench in benches:
            tools = getattr(bench, "_tools", None)
            if not isinstance(tools, list):
                return None
            found += tools
    return found


def conditions(team: Any) -> Iterator[Mapping[str, Any]]:
    """Yield what ends a team, in the words of receipts; one of a program's own making has none."""
    found = list(_conditions(team._termination_condition))  # noqa: SLF001 - see `participants`
    if (turns := team._max_turns) is not None:  # noqa: SLF001
        found.append({"type": "step_count", "n": turns})
    for each in found:
        if (told := _told(each)) is not None:
            yield told


def _told(condition: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return a condition in the form that a receipt can carry; a limit that never comes has none."""
    if None in condition.values():  # one that only bears the name of the library's
        return None
    try:
        if condition["type"] == "deadline":
            check_seconds("timeout_seconds", condition["s"])
            return {"type": "deadline", "ms": int(condition["s"] * 1000)}
        if condition["type"] in {"step_count", "token_budget"}:
            check_count("n", condition["n"])
    except ValueError:
        return None
    return condition


def _conditions(condition: Any) -> Iterator[Mapping[str, Any]]:
    if condition is None:
        return
    parts = getattr(condition, "_conditions", None)
    if parts is not None:
        for part in parts:
            yield from _conditions(part)
        return
    config = _dump(condition) or {}
    match type(condition).__name__:
        case "MaxMessageTermination":
            yield {"type": "step_count", "n": config.get("max_messages")}
        case "TokenUsageTermination":
            for name in ("max_total_token", "max_prompt_token", "max_completion_token"):
                if config.get(name) is not None:
                    yield {"type": "token_budget", "n": config.get(name)}
        case "TimeoutTermination":
            yield {"type": "deadline", "s": config.get("timeout_seconds")}
        case "FunctionCallTermination":
            yield {"type": "tool_call", "tool": str(config.get("function_name"))}
        case (
            "TextMentionTermination"
            | "TextMessageTermination"
            | "StopMessageTermination"
            | "SourceMatchTermination"
        ):
            yield {"type": "loop_finished"}


def _agent(agent: Any) -> dict[str, Any]:
    config = _dump(agent)
    if config is None:
        return {"agent": agent.name}
    model = (config.get("model_client") or {}).get("config", {})
    rest = {name: value for name, value in config.items() if name not in _APART}
    sight = Sight(libraries=LIBRARIES)
    tools = [config.get("tools") or [], config.get("workbench") or [], _code(sight, agent)]
    found = {
        "agent": agent.name,
        "role": _json([rest, _dump_provider(agent), config.get("model_client")]),
        "model": model.get("model") if isinstance(model.get("model"), str) else None,
        "prompt": config.get("system_message") or "",
        "tools": [_json(tools)],
    }
    hidden = set() if sight.is_whole else {"tools"}
    return {part: value for part, value in found.items() if value is not None and part not in hidden}


def _code(sight: Sight, agent: Any) -> list[Any]:
    """Look at the code that an agent calls: a dump has a tool's source, and nothing of what it encloses."""
    # A bench that cannot be listed dumps itself, or nothing is known.
    held = [original_of(each) for each in plain_tools([agent]) or []]
    tools = [[sight.of(type(each)), sight.of(getattr(each, "_func", None))] for each in held]
    return [*tools, sight.of(getattr(agent, "_tool_call_summary_formatter", None))]


def _dump(component: Any) -> dict[str, Any] | None:
    try:
        dumped = component.dump_component().config
    except Exception:  # noqa: BLE001 - a component is anybody's code, and not knowing is an answer
        return None
    return dict(dumped)


def _dump_provider(component: Any) -> str:
    return f"{type(component).__module__}.{type(component).__qualname__}"


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, default=_shown)


def _shown(value: Any) -> Any:
    dump = getattr(value, "model_dump", None)
    return dump(mode="json") if callable(dump) else str(value)
