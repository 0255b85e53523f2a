"""Lists of tools in the one form they are compared in, whichever program described them.

Read are MCP's tools, OpenAI's functions (`{"type": "function", "function": {...}}` or flat), and plain
`{name, description, parameters}`. The same tool has the same bytes from all of them.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

from debugger.adapters.plain_files import read_plain

MOST_TOOLS: Final = 2_000
MOST_BYTES: Final = 4 * 1024 * 1024
_MOST_DEEP: Final = 64
_SCHEMAS: Final = ("inputSchema", "parameters", "input_schema")
_FORMS: Final[Mapping[str, type]] = {
    "title": str,
    "description": str,
    "inputSchema": dict,
    "outputSchema": dict,
    "annotations": dict,
    "strict": bool,
}


class ListUnfit(Exception):
    """This is no whole list of tools; the message is a closed word."""


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool: its name, and the bytes of what an agent is told of it, by aspect."""

    name: str
    schemas: bytes
    descriptions: bytes
    annotations: bytes

    @property
    def whole(self) -> bytes:
        """The bytes of everything; no aspect holds a line end."""
        return b"\n".join((written(self.name), self.schemas, self.descriptions, self.annotations))


def tools_of(described: Iterable[Any]) -> list[Tool]:
    """Return the tools in the order of their names. Raises ListUnfit."""
    try:
        tools = sorted((_tool(each) for each in described), key=lambda tool: tool.name)
    except (ValueError, RecursionError):  # a number that is none, or a schema without a bottom
        raise ListUnfit("tools_malformed") from None
    if len(tools) > MOST_TOOLS or sum(len(tool.whole) for tool in tools) > MOST_BYTES:
        raise ListUnfit("too_large")
    if len({tool.name for tool in tools}) != len(tools):
        raise ListUnfit("tools_ambiguous")
    return tools


def tools_in_file(path: Path) -> list[Tool]:
    """Return the tools of a saved answer or list. Raises ListUnfit."""
    try:
        content = read_plain(path, MOST_BYTES)
    except FileNotFoundError:
        raise ListUnfit("file_absent") from None
    except OSError:
        raise ListUnfit("file_unreadable") from None
    if len(content) > MOST_BYTES:
        raise ListUnfit("too_large")
    try:
        saved = json.loads(content, object_pairs_hook=_object, parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise ListUnfit("file_form") from None
    return tools_of(_listed(saved))


def written(value: Any) -> bytes:
    """Return JSON in one form: sorted keys, no spaces, ASCII, whole numbers whole. Raises ValueError."""
    plain = _plain(value, 0)
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def _listed(saved: Any) -> list[Any]:
    """Return the tools of a `tools/list` answer, in or out of its envelope, or of a bare list."""
    if isinstance(saved, dict) and isinstance(saved.get("result"), dict):
        saved = saved["result"]
    if isinstance(saved, dict):
        if saved.get("nextCursor"):
            raise ListUnfit("half_answer")
        saved = saved.get("tools")
    if not isinstance(saved, list):
        raise ListUnfit("file_form")
    return saved


def _tool(described: Any) -> Tool:
    given = _given(described)
    for field, form in _FORMS.items():
        if not isinstance(given.get(field, form()), form):
            raise ListUnfit("tools_malformed")
    return Tool(
        given["name"],
        written([given.get("inputSchema"), given.get("outputSchema"), given.get("strict")]),
        written([given.get("title"), given.get("description")]),
        written(given.get("annotations") or {}),
    )


def _given(described: Any) -> dict[str, Any]:
    """Return what a description says, under MCP's words; null says nothing."""
    if isinstance(described, dict) and isinstance(described.get("function"), dict):
        described = described["function"]
    if not isinstance(described, dict):
        raise ListUnfit("tools_malformed")
    given = {name: value for name, value in described.items() if value is not None}
    schemas = [given.pop(name) for name in _SCHEMAS if name in given]
    if not isinstance(given.get("name"), str) or not given["name"] or len(schemas) > 1:
        raise ListUnfit("tools_malformed")
    return given | ({"inputSchema": schemas[0]} if schemas else {})


def _plain(value: Any, depth: int) -> Any:
    if depth > _MOST_DEEP:
        raise ValueError("depth")
    if isinstance(value, dict):
        return {key: _plain(member, depth + 1) for key, member in value.items()}
    if isinstance(value, list):
        return [_plain(member, depth + 1) for member in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)  # 10.0 and 10 are one number in JSON
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("duplicate_key")
    return found


def _refuse(_constant: str) -> NoReturn:
    raise ValueError("no_number")
