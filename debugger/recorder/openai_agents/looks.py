"""Looks at the parts of agents of the OpenAI Agents SDK: tools, hand-overs, models, a run's settings."""

import os
from dataclasses import fields
from types import FunctionType
from typing import Any, Final

from debugger.recorder.openai_agents.graph import callback_of, handoff_name, inner_agent, target_of
from debugger.recorder.openai_agents.tools import body_of
from debugger.recorder.sight import Sight, cells_of

LIBRARIES: Final = ("agents", "openai")
"""What is of a tested version: of its functions and classes the name is enough."""
# Of a tool the first is looked at by itself, the second is an agent of the graph, the rest is in the schema.
_OF_TOOLS: Final = {"on_invoke_tool", "_agent_instance", "_output_type_adapter", "_mcp_annotations"}
_OF_HANDOFFS: Final = {"on_invoke_handoff", "_agent_ref"}
_OF_TRACES: Final = {
    "tracing_disabled", "tracing", "trace_include_sensitive_data", "workflow_name", "trace_id", "group_id",
    "trace_metadata",
}  # fmt: skip
AGENT_TOOL_PARTS: Final = (
    "conversation_id", "custom_output_extractor", "hooks", "input_builder", "max_turns", "on_stream",
    "previous_response_id", "session",
)  # fmt: skip
"""What `Agent.as_tool` was given and only encloses, beside the `run_config`; see the self-test."""


def at_tool(sight: Sight, tool: Any) -> Any:
    """Describe a tool: what the model sees of it, when it asks a person, and the code behind it."""
    from agents import FunctionTool

    if not isinstance(tool, FunctionTool):
        return sight.of(tool)
    settings = {
        each.name: sight.of(getattr(tool, each.name)) for each in fields(tool) if each.name not in _OF_TOOLS
    }
    inner = inner_agent(tool)
    code = sight.of(body_of(tool)) if inner is None else _agent_tool(sight, tool)
    return [sight.of(type(tool)), settings, None if inner is None else inner.name, code]


def at_handoff(sight: Sight, handoff: Any) -> list[Any]:
    """Describe a hand-over: where it leads, its settings, and the program's code that it calls."""
    from agents import Agent

    target = target_of(handoff)
    named = [handoff_name(handoff), "" if target is None else str(target.name)]
    if isinstance(handoff, Agent):
        return named
    settings = [
        [each.name, sight.of(getattr(handoff, each.name))]
        for each in fields(handoff)
        if each.name not in _OF_HANDOFFS
    ]
    return [*named, settings, sight.of(callback_of(handoff))]


def at_model(sight: Sight, model: Any, provider: Any) -> Any:
    """Describe what answers for an agent, apart from the model's name: where it is asked, and by whom."""
    from agents import OpenAIChatCompletionsModel, OpenAIResponsesModel

    if model is None or isinstance(model, str):
        return _provider(sight, provider)
    named = isinstance(getattr(model, "model", None), str)
    if type(model) not in {OpenAIChatCompletionsModel, OpenAIResponsesModel}:
        return [sight.unseen(model), named]
    settings = [
        [name, sight.of(value)]
        for name, value in sorted(vars(model).items())
        if name not in {"model", "_client"} and not name.startswith("_has_warned")
    ]
    return [sight.of(type(model)), named, settings, _client(sight, model._client)]  # noqa: SLF001


def at_run(sight: Sight, run_config: Any) -> Any:
    """Describe a run's configuration without its model and its provider; a trace is each run's own."""
    apart = {"model", "model_provider", *_OF_TRACES}
    return [
        [each.name, sight.of(getattr(run_config, each.name))]
        for each in fields(run_config)
        if each.name not in apart
    ]


def is_readable(tool: Any) -> bool:
    """Whether a tool that is an agent still holds what `Agent.as_tool` was given where it is looked for."""
    held = _held_by(tool)
    return held.keys() >= {*AGENT_TOOL_PARTS, "run_config"} and held.get("self") is inner_agent(tool)


def _held_by(tool: Any) -> dict[str, Any]:
    made = getattr(tool.on_invoke_tool, "_invoke_tool_impl", None)
    return cells_of(made) if isinstance(made, FunctionType) else {}


def _agent_tool(sight: Sight, tool: Any) -> Any:
    from agents import RunConfig

    if not is_readable(tool):
        return sight.unseen(tool.on_invoke_tool)
    held = _held_by(tool)
    config = held["run_config"]
    if not isinstance(config, RunConfig):
        run = sight.of(config)
    else:
        name = config.model if isinstance(config.model, str) else getattr(config.model, "model", None)
        answers = at_model(sight, config.model, config.model_provider)
        run = [at_run(sight, config), sight.of(name), answers]
    return [run, [[name, sight.of(held[name])] for name in AGENT_TOOL_PARTS]]


def _provider(sight: Sight, provider: Any) -> Any:
    """Describe what makes a model of a name; the SDK's own makes its client late, so its settings count."""
    from agents import MultiProvider, OpenAIProvider
    from agents.models._openai_shared import get_default_openai_client

    if type(provider) is not MultiProvider or provider.provider_map is not None:
        return sight.unseen(provider)
    own = provider.openai_provider
    if type(own) is not OpenAIProvider:
        return sight.unseen(own)
    modes = [
        sight.of(value) for name, value in sorted(vars(provider).items()) if name.endswith("_prefix_mode")
    ]
    stored = {name: value for name, value in vars(own).items() if name.startswith("_stored_")}
    if not stored:
        return [modes, _client(sight, own._client)]  # noqa: SLF001
    given = {name: sight.of(value) for name, value in stored.items() if name != "_stored_api_key"}
    default = get_default_openai_client()
    usual = os.environ.get("OPENAI_BASE_URL") if default is None else _client(sight, default)
    return [modes, given, usual, sight.of(getattr(own, "_use_responses", None))]


def _client(sight: Sight, client: Any) -> Any:
    """Describe where a client of the provider's library asks; its key is not what it is."""
    from openai import AsyncAzureOpenAI, AsyncOpenAI

    inner = getattr(client, "_client", None)
    is_usual = (
        type(inner).__module__.partition(".")[0] == "openai" and getattr(client, "_provider", None) is None
    )
    if type(client) not in {AsyncOpenAI, AsyncAzureOpenAI} or not is_usual:
        return sight.unseen(client)
    names = (
        "organization",
        "project",
        "_custom_headers",
        "_custom_query",
        "_api_version",
        "_azure_deployment",
    )
    return [str(client.base_url), [[name, sight.of(getattr(client, name, None))] for name in names]]
