"""Which operation a tool call is: a stable key over what is declared, and a digest of what is sent."""

import dataclasses
import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any, Final, get_type_hints
from uuid import UUID

from branches.evidence.domains import OPERATION, PAYLOAD
from branches.evidence.keys import HmacKey
from debugger.recorder.names import ToolRule

# What the runtime injects: it differs between a run and its branch and says nothing of the effect.
_INJECTED_NAMES: Final = frozenset({"self", "cls", "config", "run_manager", "callbacks", "runtime"})
_INJECTED_MODULES: Final = ("langgraph.", "langchain_core.", "agents.run_context", "agents.tool_context")


@dataclass(frozen=True, slots=True)
class Place:
    """Where in the runtime a call came from; the ids are the runtime's own and stay in this home."""

    checkpoint: str
    thread: str | None
    execution: tuple[Any, ...]
    """Task id, attempt and time of the first attempt: one execution of one node."""
    path: str


@dataclass(frozen=True, slots=True)
class Identified:
    """A call before its ordinal is known."""

    tool: str
    rule: ToolRule
    base: str
    strength: str
    fields: str
    payload: str
    comparable: bool
    """Whether equal payload digests mean equal arguments."""

    def operation_key(self, key: HmacKey, root: str, ordinal: int) -> str:
        """Return the key that survives retry, resume, fork and edit: it names the root, never a branch."""
        return key.digest(OPERATION, _json([root, self.tool, self.fields, ordinal]))


def identify(
    tool: str, rule: ToolRule, arguments: Mapping[str, Any], *, key: HmacKey, root: str, path: str
) -> Identified:
    """Say which operation a call is.

    With declared key fields only these count, so that an edited text is the same operation with another
    payload. Without them all arguments and the place in the graph count, and the key is weak.
    """
    plain, comparable = _plain_arguments(arguments)
    declared = bool(rule.key_fields) and all(name in plain for name in rule.key_fields)
    chosen: list[Any] = [{name: plain[name] for name in rule.key_fields}] if declared else [plain, path]
    fields = _json(chosen)
    return Identified(
        tool=tool,
        rule=rule,
        base=key.digest(OPERATION, _json([root, tool, fields])),
        strength="declared" if declared else "weak",
        fields=fields,
        payload=key.digest(PAYLOAD, tool + "\0" + _json(plain)),
        comparable=comparable,
    )


def here() -> Place | None:
    """Return the place of the code that runs, or None outside a graph (a raw thread, for instance)."""
    try:
        from langgraph.config import get_config
        from langgraph.runtime import get_runtime

        config = get_config()
        runtime = get_runtime()
    except (ImportError, RuntimeError):
        return None
    if runtime is None or (execution := runtime.execution_info) is None:
        return None
    configurable = config.get("configurable", {})
    root = configurable.get("checkpoint_map", {}).get("") or execution.checkpoint_id
    return Place(
        checkpoint=root,
        thread=execution.thread_id,
        execution=(execution.task_id, execution.node_attempt, execution.node_first_attempt_time),
        path=_json(_plain(list(config.get("metadata", {}).get("langgraph_path", ())))),
    )


def own_arguments(call: Callable[..., Any]) -> Callable[..., dict[str, Any]]:
    """Return a function that names a call's arguments, defaults filled in, without what is injected."""
    signature = inspect.signature(call)
    injected = _INJECTED_NAMES | _injected(call)

    def named(*args: Any, **kwargs: Any) -> dict[str, Any]:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        arguments: dict[str, Any] = {}
        for name, value in bound.arguments.items():
            if signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
                arguments.update(value)
            else:
                arguments[name] = value
        return {
            name: value
            for name, value in arguments.items()
            if name not in injected and not type(value).__module__.startswith(_INJECTED_MODULES)
        }

    return named


def _injected(call: Callable[..., Any]) -> frozenset[str]:
    """Return parameters that are annotated as injected, such as the id of the model's tool call."""
    try:
        hints = get_type_hints(getattr(call, "func", call), include_extras=True)
    except (NameError, TypeError):
        return frozenset()
    return frozenset(
        name
        for name, hint in hints.items()
        if any("Injected" in _class_of(mark).__name__ for mark in getattr(hint, "__metadata__", ()))
    )


def _class_of(mark: Any) -> type:
    return mark if isinstance(mark, type) else type(mark)


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _plain_arguments(arguments: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    plain: dict[str, Any] = {}
    comparable = True
    for name, value in arguments.items():
        try:
            plain[name] = _plain(value)
        except TypeError:
            # Its own type is all that can be said; two such calls are never taken for the same payload.
            plain[name] = {"opaque": type(value).__qualname__}
            comparable = False
    return plain, comparable


def _plain(value: Any) -> Any:
    """Return a value as JSON; equal values give equal JSON. Raises TypeError for what has no such form."""
    if isinstance(value, Enum):
        return _plain(value.value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Mapping):
        return {str(name): _plain(member) for name, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(member) for member in value]
    if isinstance(value, (set, frozenset)):
        return sorted((_plain(member) for member in value), key=_json)
    if isinstance(value, (bytes, bytearray)):
        return {"bytes": bytes(value).hex()}
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, (UUID, Decimal, PurePath)):
        return str(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if callable(dump := getattr(value, "model_dump", None)):
        return _plain(dump(mode="json"))
    raise TypeError("no plain form")
