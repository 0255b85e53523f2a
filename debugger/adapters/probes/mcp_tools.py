"""The tools an agent is told of: an MCP server's, asked anew page by page, or a list saved in a file."""

import json
from collections.abc import Mapping
from typing import Final

from branches.evidence import tool_classes
from branches.evidence.domains import PART, STATE
from branches.evidence.keys import HmacKey
from branches.ports import Fact, Moment, StateMeasurement, Target
from debugger.adapters.options import TargetUnfit, local_path
from debugger.adapters.outbound import Unreachable
from debugger.adapters.probes import mcp_session
from debugger.adapters.probes.no_journal import NoJournal
from debugger.adapters.probes.tool_lists import ListUnfit, Tool, tools_in_file, tools_of, written
from debugger.adapters.runtimes.mcp_classes import class_of

MOST_NAMED: Final = 20
"""With more tools than this only the aspects are parts: too many to be looked at one by one."""


class McpToolsProbe(NoJournal):
    """Options: one of `command`, `url` and `file`.

    `command` (list: program and arguments of a stdio server) with `env` (what it needs besides) and
    `pass_env` (names of variables it gets from our environment); `url` (streamable HTTP) with `allow`,
    `auth_env` and `most_bytes` of one answer; `file` (a saved `tools/list` answer, or a list of functions).
    """

    part_names = ("names", "schemas", "descriptions", "annotations")
    limits = (
        "Names, descriptions, schemas and annotations of the tools are compared; what the server does behind"
        " them can change unseen, even under the same version."
    )
    remedy = "Start the server version that was recorded, or fork anew under today's tools."

    def measure(self, target: Target, moment: Moment) -> StateMeasurement:
        """List the tools past any cache, and hash them."""
        del moment
        try:
            tools, version = _tools(target)
        except TargetUnfit:
            return StateMeasurement(None, reachable=False, problem="target_unfit")
        except Unreachable as error:
            return StateMeasurement(None, reachable=False, problem=error.problem)
        except ListUnfit as error:
            return StateMeasurement(None, reachable=False, problem=str(error))
        facts: dict[str, Fact] = {"tools": len(tools)}
        if version is not None:
            facts["server_version"] = version
        whole = b"\n\n".join(tool.whole for tool in tools)
        parts = parts_of(target.key, tools)
        if (classes := _classes(target.key, tools, parts)) is not None:
            facts[tool_classes.FACT] = classes
        return StateMeasurement(target.key.digest(STATE, b"tools\0" + whole), facts, parts=parts)


def _tools(target: Target) -> tuple[list[Tool], str | None]:
    ways = [name for name in ("command", "url", "file") if name in target.options]
    if len(ways) != 1:
        raise TargetUnfit("command", "one_of:command,url,file")
    if ways == ["file"]:
        return tools_in_file(local_path(target, "file")), None
    listed = mcp_session.over_stdio(target) if ways == ["command"] else mcp_session.over_http(target)
    return tools_of(listed.tools), listed.version


def _classes(key: HmacKey, tools: list[Tool], parts: Mapping[str, str]) -> int | None:
    """Return what the annotations say of the tools that are parts of their own; None where they are not."""
    if len(tools) > MOST_NAMED:
        return None
    said = {key.digest(PART, tool.name): class_of(json.loads(tool.annotations)) for tool in tools}
    aspects = {key.digest(PART, name) for name in McpToolsProbe.part_names}
    return tool_classes.packed({part: word for part, word in said.items() if part in parts.keys() - aspects})


def parts_of(key: HmacKey, tools: list[Tool]) -> dict[str, str]:
    """Return the digests of the four aspects and, unless there are many, of every tool."""
    aspects: Mapping[str, list[bytes]] = {
        "names": [written(tool.name) for tool in tools],
        "schemas": [written(tool.name) + tool.schemas for tool in tools],
        "descriptions": [written(tool.name) + tool.descriptions for tool in tools],
        "annotations": [written(tool.name) + tool.annotations for tool in tools],
    }
    contents = {name: b"aspect\0" + b"\n".join(lines) for name, lines in aspects.items()}
    if len(tools) <= MOST_NAMED:
        # A tool that is called like an aspect would take its place.
        contents |= {tool.name: b"tool\0" + tool.whole for tool in tools if tool.name not in aspects}
    return {
        key.digest(PART, name): key.digest(STATE, b"tools\0" + content) for name, content in contents.items()
    }
