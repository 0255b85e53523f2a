"""The demo's MCP server, held against the SDK's own client."""

import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import anyio
import httpx
import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.shared.exceptions import MCPError

from debugger.demo.desk import Desk
from debugger.demo.tools_server import TOOLS, answers
from tests.patience import PATIENCE_S


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(0, tmp_path / "desk.sqlite", 60)
    Thread(target=made.serve_forever, args=(0.05,), daemon=True).start()
    yield made
    made.shutdown()
    made.server_close()


def asked(url: str, ask: Any, mode: str = "auto") -> Any:
    server = StdioServerParameters(command=sys.executable, args=["-m", "debugger.demo.tools_server", url])

    async def run() -> Any:
        with anyio.fail_after(PATIENCE_S):
            async with Client(stdio_client(server), mode=mode, cache=None) as client:
                return await ask(client)

    return anyio.run(run)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_it_describes_its_tools_to_the_sdk(mode: str) -> None:
    async def ask(client: Client) -> Any:
        return (await client.list_tools()).tools, client.server_info

    tools, server = asked("http://127.0.0.1:9", ask, mode)
    assert [each.name for each in tools] == list(TOOLS)
    hints = {
        each.name: (each.annotations.read_only_hint, each.annotations.destructive_hint) for each in tools
    }
    assert hints["search_notes"] == (True, False)
    assert hints["send_mail"] == (False, True)
    assert (server.name, server.version) == ("desk-tools", "1.0.0")


def test_it_writes_at_the_desk_once_a_key_and_passes_its_no_on(desk: Desk) -> None:
    draft = {"title": "t", "section": "front-page", "body": "b", "operation_key": "k-1"}

    async def ask(client: Client) -> Any:
        first = await client.call_tool("create_draft", draft)
        again = await client.call_tool("create_draft", draft)
        refused = await client.call_tool("publish_draft", {"draft": "k-1", "operation_key": "k-2"})
        with pytest.raises(MCPError):
            await client.call_tool("create_draft", {"title": "t"})
        return first, again, refused

    first, again, refused = asked(desk.url, ask)
    assert first.content[0].text == again.content[0].text == "1"
    assert (refused.is_error, refused.content[0].text) == (True, "section_unknown")
    assert httpx.get(f"{desk.url}/drafts/by-key/k-1", trust_env=False).json()["title"] == "t"


def test_it_answers_requests_and_nothing_else() -> None:
    lines = [
        "no json\n",
        "[]\n",
        '{"jsonrpc": "2.0", "method": "notifications/initialized"}\n',
        '{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n',
        '{"jsonrpc": "2.0", "id": 2, "method": "server/discover"}\n',
        '{"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "no"}}\n',
    ]
    said = list(answers(iter(lines), "http://127.0.0.1:9"))
    assert [each.get("error", {}).get("code", each.get("result")) for each in said] == [
        -32700, -32700, {}, -32601, -32602,
    ]  # fmt: skip
