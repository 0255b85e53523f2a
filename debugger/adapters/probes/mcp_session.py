"""One conversation with an MCP server: started or connected to, asked for every page of its tools, ended."""

import logging
import os
import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

from branches.evidence.kinds.forms import VERSION_PATTERN
from branches.ports import Target
from debugger.adapters.addresses import Allowed
from debugger.adapters.bearer import bearer
from debugger.adapters.options import TargetUnfit, text, text_table, texts
from debugger.adapters.outbound import MOST_BYTES, READ_S, Unreachable, checked_address, place_of
from debugger.adapters.probes.mcp_answers import NO_TOOLS, PROTOCOLS, UNKNOWN_PROTOCOL, page_of, problem_of
from debugger.adapters.probes.tool_lists import MOST_TOOLS

TIMEOUT_S: Final = 20.0
MOST_PAGES: Final = 64
_MOST_ANSWER: Final = 1024 * 1024
_VERSION: Final = re.compile(VERSION_PATTERN)
_LIBRARIES: Final = frozenset({"client", "mcp", "httpx2", "httpcore2", "anyio", "asyncio"})
_is_asking: ContextVar[bool] = ContextVar("branchgate_mcp_asking", default=False)


@dataclass(frozen=True, slots=True)
class Listed:
    """What a server listed, as it came, and the version it gives itself."""

    tools: list[Any]
    version: str | None = None
    problem: str | None = None
    """Why this is no whole list; the tools are then not to be looked at."""


def over_stdio(target: Target) -> Listed:
    """Start the server and ask it. Raises TargetUnfit, Unreachable."""
    command = texts(target.options.get("command"), "command")
    env = text_table(target, "env")
    for name in texts(target.options.get("pass_env", []), "pass_env"):
        if name not in os.environ:
            raise Unreachable("secret_missing")
        env[name] = os.environ[name]
    if not command:
        raise TargetUnfit("command", "not_empty")
    return _run(_ask_program, command, env)


def over_http(target: Target) -> Listed:
    """Ask the server at the target's `url`, and at no other address. Raises TargetUnfit, Unreachable."""
    try:
        allowed = Allowed.of(target.options.get("allow"))
    except ValueError:
        raise TargetUnfit("allow", "networks") from None
    most = target.options.get("most_bytes", MOST_BYTES)
    if not isinstance(most, int) or isinstance(most, bool) or not 0 < most <= _MOST_ANSWER:
        raise TargetUnfit("most_bytes", "bytes")
    url = text(target, "url")
    place = place_of(url)
    headers = bearer(target, place)
    address = checked_address(place, allowed)
    try:
        from debugger.adapters.probes.mcp_http import PinnedTransport
    except ImportError:
        raise Unreachable("mcp_missing") from None
    transport = PinnedTransport(place, address, most)
    try:
        return _run(_ask_address, url, transport, headers)
    except Unreachable as error:
        raise Unreachable(transport.problem or error.problem) from None


def _run(ask: Callable[..., Awaitable[Listed]], *arguments: Any) -> Listed:
    try:
        import anyio

        import_module("mcp.client.client")  # its loggers must be there before they are hushed
    except ImportError:
        raise Unreachable("mcp_missing") from None
    with _quiet():
        try:
            listed = anyio.run(ask, *arguments)
        except TimeoutError:
            raise Unreachable("timeout") from None
        except Exception as error:  # noqa: BLE001 - a foreign server may break in any way, and its words are content
            raise Unreachable(problem_of(error)) from None
    if listed.problem is not None:
        raise Unreachable(listed.problem)
    return listed


async def _ask_program(command: list[str], env: dict[str, str]) -> Listed:
    import anyio
    from mcp.client.client import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    server = StdioServerParameters(command=command[0], args=command[1:], env=env)
    # What a server writes on its error stream is content: it goes nowhere.
    with anyio.fail_after(TIMEOUT_S), open(os.devnull, "w") as nowhere:  # noqa: ASYNC230, PTH123
        async with Client(stdio_client(server, errlog=nowhere), cache=None) as client:
            return await _checked(client)


async def _ask_address(url: str, transport: Any, headers: dict[str, str]) -> Listed:
    import anyio
    from mcp.client.client import Client
    from mcp.client.streamable_http import streamable_http_client

    from debugger.adapters.probes.mcp_http import client_for

    with anyio.fail_after(READ_S):
        async with (
            client_for(transport, headers) as http,
            Client(streamable_http_client(url, http_client=http), cache=None) as client,
        ):
            return await _checked(client)


async def _checked(client: Any) -> Listed:
    """Return all tools of a server that speaks a version of the protocol that is known, and offers some."""
    if client.protocol_version not in PROTOCOLS:
        return Listed([], problem=UNKNOWN_PROTOCOL)
    if client.server_capabilities.tools is None:
        return Listed([], problem=NO_TOOLS)
    return await _every_page(client)


async def _every_page(client: Any) -> Listed:
    """Return all tools as they came. The client's own list would leave out tools that it takes for unfit."""
    from mcp_types import ListToolsRequest, PaginatedRequestParams
    from pydantic import TypeAdapter

    whole: TypeAdapter[dict[str, Any]] = TypeAdapter(dict[str, Any])
    tools: list[Any] = []
    asked: set[str | None] = set()
    cursor: str | None = None
    while cursor not in asked and len(asked) < MOST_PAGES:
        asked.add(cursor)
        request = ListToolsRequest(params=PaginatedRequestParams(cursor=cursor))
        page, after = page_of(await client.session.send_request(request, whole))
        tools += page
        if len(tools) > MOST_TOOLS:
            return Listed([], problem="too_large")
        cursor = after
        if cursor is None:
            return Listed(tools, _version(client.server_info))
    return Listed([], problem="pages_without_end")


def _version(server: Any) -> str | None:
    found = getattr(server, "version", None)
    return found if isinstance(found, str) and _VERSION.fullmatch(found) else None


class _Hush(logging.Filter):
    """Drops what the client's libraries log while we ask: they quote addresses and lines of the server."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a record may pass."""
        del record
        return not _is_asking.get()


@contextmanager
def _quiet() -> Iterator[None]:
    hush = _Hush()
    known = [name for name in logging.root.manager.loggerDict if name.partition(".")[0] in _LIBRARIES]
    loggers = [logging.getLogger(name) for name in known]
    for logger in loggers:
        logger.addFilter(hush)
    token = _is_asking.set(True)
    try:
        yield
    finally:
        _is_asking.reset(token)
        for logger in loggers:
            logger.removeFilter(hush)
