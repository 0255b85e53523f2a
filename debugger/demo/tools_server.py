"""The desk's tools as an MCP server on standard input and output: `python -m debugger.demo.tools_server URL`.

It speaks the protocol itself: a probe starts it at every checkpoint, and the SDK takes more than a second
to import. The tests hold it against the SDK's own client.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

NAME: Final = "desk-tools"
VERSION: Final = "1.0.0"
PROTOCOLS: Final = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
_PARSE_ERROR: Final = -32700
_NO_SUCH_METHOD: Final = -32601
_UNFIT_PARAMETERS: Final = -32602


@dataclass(frozen=True, slots=True)
class Described:
    """A tool as the server describes it; `path` is where the desk keeps what it writes."""

    description: str
    fields: tuple[str, ...]
    path: str | None
    destroys: bool = False

    @property
    def arguments(self) -> tuple[str, ...]:
        """What a call must give; a write carries the key under which the desk keeps it once."""
        return self.fields if self.path is None else (*self.fields, "operation_key")


TOOLS: Final[Mapping[str, Described]] = {
    "search_notes": Described("Search the notes in the workspace.", ("query",), None),
    "create_ticket": Described("Open a ticket at the desk.", ("subject", "body"), "/tickets"),
    "send_mail": Described(
        "Send a mail from the desk. It cannot be taken back.",
        ("recipient", "subject", "body"),
        "/mail",
        destroys=True,
    ),
    "create_draft": Described(
        "Keep a draft at the desk; nobody reads it yet.", ("title", "section", "body"), "/drafts"
    ),
    "publish_draft": Described("Ask the desk to publish a draft in its section.", ("draft",), "/publish"),
}


class Refusal(Exception):
    """A request that gets an error; `code` is JSON-RPC's."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def listed() -> list[dict[str, Any]]:
    """Return the tools as `tools/list` gives them."""
    return [
        {
            "name": name,
            "description": tool.description,
            "inputSchema": {
                "type": "object",
                "properties": {field: {"type": "string"} for field in tool.arguments},
                "required": list(tool.arguments),
                "additionalProperties": False,
            },
            "annotations": {
                "readOnlyHint": tool.path is None,
                "destructiveHint": tool.destroys,
                "idempotentHint": True,
                "openWorldHint": tool.path is not None,
            },
        }
        for name, tool in TOOLS.items()
    ]


def answers(lines: Iterator[str], url: str) -> Iterator[dict[str, Any]]:
    """Yield an answer to each request; a notification gets none."""
    for line in lines:
        try:
            request = json.loads(line)
            method, own = request["method"], request.get("id")
        except (ValueError, TypeError, KeyError):
            yield _error(None, Refusal(_PARSE_ERROR, "parse error"))
            continue
        if own is None:
            continue
        try:
            result = _result(method, request.get("params") or {}, url)
        except Refusal as refusal:
            yield _error(own, refusal)
        else:
            yield {"jsonrpc": "2.0", "id": own, "result": result}


def _result(method: str, params: Mapping[str, Any], url: str) -> dict[str, Any]:
    match method:
        case "initialize":
            asked = params.get("protocolVersion")
            return {
                "protocolVersion": asked if asked in PROTOCOLS else PROTOCOLS[0],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": NAME, "version": VERSION},
            }
        case "ping":
            return {}
        case "tools/list":
            return {"tools": listed()}
        case "tools/call":
            return _called(params, url)
    raise Refusal(_NO_SUCH_METHOD, "method not found")


def _called(params: Mapping[str, Any], url: str) -> dict[str, Any]:
    tool, given = TOOLS.get(params.get("name", "")), params.get("arguments") or {}
    if tool is None or set(given) != set(tool.arguments):
        raise Refusal(_UNFIT_PARAMETERS, "invalid params")
    if tool.path is None:
        return _said("The team searches its notes in the workspace itself.")
    from debugger.demo.desk_client import DeskClient, DeskRefused

    desk = DeskClient(url)
    try:
        if tool.path == "/publish":
            kept = desk.ask_to_publish(given["draft"], given["operation_key"])
        else:
            content = {field: given[field] for field in tool.fields}
            kept = desk.write(tool.path, given["operation_key"], content)
    except DeskRefused as error:
        return _said(str(error), is_error=True)
    finally:
        desk.close()
    return _said(str(kept["number"]))


def _said(text: str, *, is_error: bool = False) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], "isError": is_error}


def _error(own: Any, refusal: Refusal) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": own, "error": {"code": refusal.code, "message": str(refusal)}}


def main() -> None:
    """Serve until the other side hangs up."""
    for answer in answers(iter(sys.stdin.readline, ""), sys.argv[1]):
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
