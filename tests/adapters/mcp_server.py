"""A real MCP server whose tools, pages and version are read from a file; over stdio, or HTTP on a port."""

import asyncio
import json
import sys
from pathlib import Path

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

SETTINGS = json.loads(Path(sys.argv[1]).read_text())
PORT = int(sys.argv[2]) if len(sys.argv) > 2 else None
print("CONTENT-MARKER-7f3a on the error stream", file=sys.stderr)


async def list_tools(context, params):
    start = int(params.cursor) if params is not None and params.cursor else 0
    end = start + SETTINGS["page"]
    if SETTINGS.get("hang"):
        await asyncio.sleep(120)
    if SETTINGS.get("noise"):
        print("CONTENT-MARKER-7f3a is no JSON", flush=True)
    if start >= SETTINGS.get("breaks_at", start + 1):
        raise RuntimeError("CONTENT-MARKER-7f3a broke")
    tools = [types.Tool.model_validate(each) for each in SETTINGS["tools"][start:end]]
    more = str(end) if end < len(SETTINGS["tools"]) or SETTINGS.get("endless") else None
    return types.ListToolsResult(tools=tools, next_cursor=SETTINGS.get("cursor", more))


async def main():
    server = Server("tools", version=SETTINGS["version"], on_list_tools=list_tools)
    if PORT is not None:
        import uvicorn

        app = server.streamable_http_app(json_response=SETTINGS.get("json", False))
        await uvicorn.Server(uvicorn.Config(app, "127.0.0.1", PORT, log_level="critical")).serve()
        return
    async with stdio_server() as (reader, writer):
        await server.run(reader, writer, server.create_initialization_options())


asyncio.run(main())
