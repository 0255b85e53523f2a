"""The closed list of what is read of a span's attributes, events and links; content is not in it."""

import json
from collections.abc import Mapping
from enum import Enum, StrEnum
from typing import Final

from debugger.adapters.runtimes.otlp_sampling import Gap, keeps_some

type Kept = str | int | tuple[str, ...]

MAX_TEXT: Final = 512
MAX_METADATA: Final = 16 * 1024
MAX_INTEGER: Final = 2**53 - 1
MAX_MEMBERS: Final = 1000
"""Attributes, events or links of one span."""


class OtlpRefused(ValueError):
    """A body, or one of its spans, that cannot be taken: its field and a rule, never what stood there."""

    def __init__(self, field: str, rule: str) -> None:
        super().__init__(f"{field}: {rule}")
        self.field = field
        self.rule = rule


class Failure(StrEnum):
    """The coarse class of an exception; its own name and words are never kept."""

    INTERRUPT = "interrupt"  # the graph waits for a person
    STEP_LIMIT = "step_limit"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    OTHER = "other"


class Form(Enum):
    """What is done with an attribute of the list."""

    TEXT = "text"
    TEXTS = "texts"
    COUNT = "count"
    METADATA = "metadata"
    ERROR = "error"
    PRESENT = "present"  # that it is there, and nothing of what it says


CONVERSATION: Final = "gen_ai.conversation.id"
SESSION: Final = "session.id"
THREAD_ID: Final = "langgraph.thread_id"
NODE: Final = "langgraph.node"
STEP: Final = "langgraph.step"
TASK: Final = "langgraph.checkpoint_ns"
FINISH: Final = "gen_ai.response.finish_reasons"
ERROR_TYPE: Final = "error.type"
WORKFLOW: Final = "branchgate.workflow"
"""Of a resource, and the only one that is read there: the workflow that the program's runs are of."""
INPUT: Final = "input.value"
OUTPUT: Final = "output.value"

_TEXTS: Final = (
    # OpenTelemetry's GenAI conventions, both generations
    "gen_ai.operation.name",
    "gen_ai.provider.name",
    "gen_ai.system",
    CONVERSATION,
    "gen_ai.agent.id",
    "gen_ai.agent.name",
    "gen_ai.tool.name",
    "gen_ai.tool.call.id",
    "gen_ai.request.model",
    SESSION,
    # OpenInference
    "openinference.span.kind",
    "agent.name",
    "graph.node.id",
    "graph.node.name",
    "graph.node.parent_id",
    "tool.name",
    "tool.id",
    "tool_call.id",
    # Traceloop
    "traceloop.span.kind",
    "traceloop.entity.name",
    "traceloop.association.properties.session_id",
    "traceloop.association.properties.thread_id",
    "llm.request.type",
    "gen_ai.completion.0.finish_reason",
)
_COUNTS: Final = (
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.output_tokens",
    "gen_ai.usage.prompt_tokens",
    "gen_ai.usage.completion_tokens",
    "llm.token_count.prompt",
    "llm.token_count.completion",
    "llm.usage.prompt_tokens",
    "llm.usage.completion_tokens",
)
ALLOWED: Final[Mapping[str, Form]] = {
    **dict.fromkeys(_TEXTS, Form.TEXT),
    **dict.fromkeys(_COUNTS, Form.COUNT),
    FINISH: Form.TEXTS,
    "metadata": Form.METADATA,
    ERROR_TYPE: Form.ERROR,
    INPUT: Form.PRESENT,
    OUTPUT: Form.PRESENT,
}
EVENTS: Final[Mapping[str, str]] = {"exception": "exception.type", "gen_ai.choice": "finish_reason"}
"""The events that are looked at, each with the one attribute that is read of it."""
LINK_KIND: Final = "app.link.kind"

_METADATA: Final[Mapping[str, str]] = {
    "langgraph_node": NODE,
    "langgraph_checkpoint_ns": TASK,
    "thread_id": THREAD_ID,
}
_LINK_KINDS: Final = frozenset(
    {"handoff", "delegate", "return", "evidence", "branch_of", "forked_from", "resume_of", "retry_of"}
)


class Gathered:
    """What is kept of one span while its attributes and events are read."""

    __slots__ = ("attributes", "failures", "finished", "gaps", "present")

    def __init__(self) -> None:
        self.attributes: dict[str, Kept] = {}
        self.present: set[str] = set()
        self.failures: set[Failure] = set()
        self.finished: list[str] = []
        self.gaps: set[Gap] = set()

    def missing(self, trace_state: str, attributes: int, events: int, links: int) -> None:
        """Note what is not there, by the span's own word: its tracestate, and how much of it was dropped."""
        dropped = {Gap.ATTRIBUTES: attributes, Gap.EVENTS: events, Gap.LINKS: links}
        self.gaps |= {gap for gap, count in dropped.items() if count}
        if keeps_some(trace_state):
            self.gaps.add(Gap.SAMPLED)

    def attribute(self, key: str, form: Form, raw: object) -> None:
        """Keep an attribute of the list. Raises OtlpRefused where it is there twice."""
        if key in self.attributes or key in self.present:
            raise OtlpRefused("attributes", "duplicate_key")
        if form is Form.TEXT:
            if type(raw) is str and is_text(raw):
                self.attributes[key] = raw
        elif form is Form.PRESENT:
            self.present.add(key)
        elif form is Form.COUNT:
            if type(raw) is int and 0 <= raw <= MAX_INTEGER:
                self.attributes[key] = raw
        elif form is Form.TEXTS:
            if type(raw) is tuple and (texts := tuple(each for each in raw if is_text(each))):
                self.attributes[key] = texts
        elif form is Form.METADATA:
            self.attributes.update(_metadata(raw))
        elif type(raw) is str and raw and (failure := failure_of(raw)) is not None:
            self.present.add(key)
            self.failures.add(failure)

    def event(self, name: str, value: object, dropped: int) -> None:
        """Keep what one of the events says: an exception's class, or why the model finished.

        `dropped`: how many attributes of the event are not there.
        """
        if value is None and dropped:
            self.gaps.add(Gap.EVENTS)
        if name == "exception":
            if (failure := failure_of(value if type(value) is str else "")) is not None:
                self.failures.add(failure)
        elif type(value) is str and is_text(value):
            self.finished.append(value)

    def link_kind(self, raw: object, dropped: int) -> str:
        """Return a link's kind as a word of the closed list; `dropped` attributes may have held it."""
        if raw is None and dropped:
            self.gaps.add(Gap.LINKS)
        return raw if type(raw) is str and raw in _LINK_KINDS else "link"

    def kept(self) -> dict[str, Kept]:
        """Return the attributes, with the older events' reasons where no attribute says them."""
        if self.finished and FINISH not in self.attributes:
            self.attributes[FINISH] = tuple(self.finished)
        return self.attributes


def is_text(raw: str) -> bool:
    """Whether a text is short and can be written: a lone surrogate cannot."""
    if not 0 < len(raw) <= MAX_TEXT:
        return False
    return raw.isascii() or not any("\ud800" <= each <= "\udfff" for each in raw)


_INTERRUPTS: Final = frozenset({"GraphInterrupt", "NodeInterrupt"})
_LIMITS: Final = frozenset({"MaxTurnsExceeded", "GraphRecursionError"})
_CONTROL: Final = frozenset({"ParentCommand", "GraphBubbleUp"})  # how a graph passes on, and no failure
_TIMED_OUT: Final = ("timeout", "timeouterror", "timeoutexception", "deadline_exceeded", "timed_out")
_CANCELLED: Final = ("cancelled", "canceled", "cancellederror", "aborterror", "aborted", "keyboardinterrupt")


def failure_of(raw: str) -> Failure | None:
    """Return the coarse class of an exception's or error's name; None where it is no failure."""
    name = raw[-MAX_TEXT:].rpartition(".")[2]
    if name in _CONTROL:
        return None
    if name in _INTERRUPTS:
        return Failure.INTERRUPT
    if name in _LIMITS:
        return Failure.STEP_LIMIT
    lowered = name.lower()
    if lowered.endswith(_TIMED_OUT):
        return Failure.TIMEOUT
    return Failure.CANCELLED if lowered.endswith(_CANCELLED) else Failure.OTHER


def _metadata(raw: object) -> dict[str, Kept]:
    """Return the LangGraph words of OpenInference's metadata: JSON in a text, mostly other people's."""
    if type(raw) is not str or not 0 < len(raw) <= MAX_METADATA or "langgraph" not in raw:
        return {}
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        return {}
    if type(found) is not dict:
        return {}
    texts = {key: found.get(word) for word, key in _METADATA.items()}
    kept: dict[str, Kept] = {
        key: value for key, value in texts.items() if type(value) is str and is_text(value)
    }
    step = found.get("langgraph_step")
    if type(step) is int and 0 <= step <= MAX_INTEGER:
        kept[STEP] = step
    return kept
