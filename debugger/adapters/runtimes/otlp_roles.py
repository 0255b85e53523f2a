"""What part a span plays, by the conventions in use: GenAI (two generations), OpenInference and Traceloop."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from debugger.adapters.runtimes.otlp_attributes import CONVERSATION, NODE, SESSION, TASK, THREAD_ID
from debugger.adapters.runtimes.otlp_spans import OPENAI_AGENTS, Span


class Role(StrEnum):
    """A span's part in a run."""

    WORKFLOW = "workflow"
    AGENT = "agent"
    TOOL = "tool"
    CHAT = "chat"
    TURN = "turn"  # one round of a loop whose model calls have no spans of their own
    HANDOFF = "handoff"  # written like a tool call, and none
    OTHER = "other"
    FOREIGN = "foreign"  # of no convention that we know


_GENAI: Final[Mapping[str, Role]] = {
    "invoke_workflow": Role.WORKFLOW,
    "invoke_agent": Role.AGENT,
    "execute_tool": Role.TOOL,
    "chat": Role.CHAT,
    "generate_content": Role.CHAT,
    "text_completion": Role.CHAT,
}
_OPENINFERENCE: Final[Mapping[str, Role]] = {
    "AGENT": Role.AGENT,
    "TOOL": Role.TOOL,
    "LLM": Role.CHAT,
    "CHAIN": Role.WORKFLOW,
}
_TRACELOOP: Final[Mapping[str, Role]] = {
    "workflow": Role.WORKFLOW,
    "agent": Role.AGENT,
    "tool": Role.TOOL,
}
_OLD_MODEL_CALLS: Final = frozenset({"chat", "completion"})
_AGENT_NAMES: Final = (
    "gen_ai.agent.name",
    "agent.name",
    "graph.node.name",
    "graph.node.id",
    "gen_ai.agent.id",
)
_TOOL_NAMES: Final = ("gen_ai.tool.name", "tool.name")
_ENTITY: Final = "traceloop.entity.name"
_PREFIXES: Final = ("invoke_agent ", "execute_tool ")


def role_of(span: Span, parent: Span | None, *, outermost: bool) -> Role:
    """Return a span's part; `outermost`: nothing above it is an agent or workflow, and all above is known."""
    operation = span.text("gen_ai.operation.name")
    if operation is not None:
        return _GENAI.get(operation, Role.OTHER)
    kind = span.text("openinference.span.kind")
    if kind is not None:
        return _openinference(span, parent, kind, outermost=outermost)
    kind = span.text("traceloop.span.kind")
    if kind is not None:
        return _TRACELOOP.get(kind, Role.OTHER)
    return _older(span)


def _openinference(span: Span, parent: Span | None, kind: str, *, outermost: bool) -> Role:
    role = _OPENINFERENCE.get(kind, Role.OTHER)
    if role in {Role.AGENT, Role.WORKFLOW} and _is_node(span, parent):
        return Role.AGENT
    if role is Role.AGENT and outermost and span.text(*_AGENT_NAMES) is None:
        return Role.WORKFLOW
    if span.scope == OPENAI_AGENTS:
        if role is Role.TOOL and span.text(*_TOOL_NAMES) is None:
            return Role.HANDOFF
        if role is Role.WORKFLOW and span.name == "turn":
            return Role.TURN
    # A chain is a step of anything; only the outermost is the work as a whole.
    return Role.OTHER if role is Role.WORKFLOW and not outermost else role


def _is_node(span: Span, parent: Span | None) -> bool:
    """Whether it is a LangGraph node itself, and not one of the runnables inside it: those share its task."""
    node, task = span.text(NODE), span.text(TASK)
    return node is not None and node == span.name and (parent is None or parent.text(TASK) != task)


def _older(span: Span) -> Role:
    if span.text("gen_ai.system", "gen_ai.provider.name") is None:
        if span.text("llm.request.type") in _OLD_MODEL_CALLS:
            return Role.CHAT
        return Role.TOOL if span.text(*_TOOL_NAMES) is not None else Role.FOREIGN
    if span.text("gen_ai.tool.name") is not None:
        return Role.TOOL
    return Role.CHAT if span.text("gen_ai.request.model") is not None else Role.OTHER


def agent_of(span: Span) -> str | None:
    """Return the agent that a span names itself."""
    return span.text(*_AGENT_NAMES)


def agent_name(span: Span) -> str | None:
    """Return the name of the agent whose span this is."""
    return span.text(*_AGENT_NAMES, NODE, _ENTITY) or _bare(span.name) or None


def tool_name(span: Span) -> str:
    """Return the name of the tool whose call this is."""
    return span.text(*_TOOL_NAMES, _ENTITY) or _bare(span.name) or "unnamed"


def call_id(span: Span) -> str | None:
    """Return the runtime's own id of a tool call."""
    return span.text("gen_ai.tool.call.id", "tool_call.id", "tool.id")


def conversation(span: Span) -> str | None:
    """Return the conversation, session or thread that a span says it is of."""
    return span.text(
        CONVERSATION,
        SESSION,
        THREAD_ID,
        "traceloop.association.properties.session_id",
        "traceloop.association.properties.thread_id",
    )


def _bare(name: str) -> str:
    for prefix in _PREFIXES:
        name = name.removeprefix(prefix)
    return name
