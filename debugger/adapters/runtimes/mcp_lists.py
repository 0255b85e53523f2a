"""A list of MCP tools as it is compared: from the list itself, or from the digests that a probe kept."""

import hashlib
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from branches.evidence import tool_classes
from branches.evidence.domains import PART, STATE
from branches.evidence.drift import MOST_PARTS, changes
from branches.evidence.keys import HmacKey, is_digest
from branches.evidence.kinds.forms import VERSION_PATTERN, Declared
from branches.evidence.names import cover_name
from debugger.adapters.probes.mcp_answers import COMPLETE, PROTOCOLS
from debugger.adapters.probes.mcp_tools import parts_of as probed_parts
from debugger.adapters.probes.tool_lists import MOST_TOOLS, ListUnfit, Tool, tools_of, written
from debugger.adapters.runtimes.mcp_classes import class_of, class_of_digest
from debugger.adapters.runtimes.source_json import Fields, Unfit, check_bounds

PROBE: Final = "mcp-registry-probe/1"
ASPECTS: Final[Mapping[str, tuple[str, ...]]] = {
    "schemas": ("schema", "output_schema"),
    "descriptions": ("description",),
    "annotations": ("annotations",),
}
_FIELDS: Final = ("schema", "output_schema", "description", "annotations", "whole")
_OF_TOOL: Final = ("inputSchema", "outputSchema", "description", "annotations")
_WORDS: Final = """
    schema label protocol_version server name version pages tool_count tools output_schema description
    annotations whole registry_hash contract_hash result nextCursor inputSchema outputSchema title
    readOnlyHint destructiveHint idempotentHint openWorldHint jsonrpc id error protocolVersion resultType
"""
KNOWN: Final = frozenset(_WORDS.split())
_VERSION: Final = re.compile(VERSION_PATTERN)


@dataclass(frozen=True, slots=True)
class Registry:
    """One list: the digests of each tool by field, the tools themselves where the file has them."""

    digests: Mapping[str, Mapping[str, str]]
    classes: Mapping[str, str]
    described: list[Tool] | None
    version: str | None


@dataclass(frozen=True, slots=True)
class Seen:
    """One list as it is recorded; tools are named by their covered names."""

    fingerprint: str
    facts: dict[str, Any]
    parts: Mapping[str, str]
    shown: Mapping[str, str]
    """Part → the tool's covered name, or the aspect's word."""
    classes: Mapping[str, str]

    def changes(self, before: "Seen") -> list[dict[str, str]]:
        """Return what differs from an earlier list: `[{"part", "change"}]`."""
        shown = {**before.shown, **self.shown}
        return [
            {"part": shown[each["part"]], "change": each["change"]}
            for each in changes(before.parts, self.parts)
        ]


def read_registry(value: Any) -> Registry:
    """Return the list in a parsed file. Raises Unfit."""
    check_bounds(value, "", KNOWN)
    if isinstance(value, dict) and "schema" in value:
        return _probed(Fields(value))
    listed = _listed(value)
    try:
        described = tools_of(listed)
    except ListUnfit as error:
        raise Unfit("tools", str(error)) from None
    by_name = {str(each["name"]): each for each in listed if isinstance(each, dict) and "name" in each}
    if len(by_name) != len(described):
        raise Unfit("tools", "not_mcp")  # a list of functions in another program's form
    return Registry(
        {name: _digests(each) for name, each in by_name.items()},
        {name: class_of(each.get("annotations")) for name, each in by_name.items()},
        described,
        None,
    )


def _listed(value: Any) -> list[Any]:
    """Return the tools of a `tools/list` answer, in or out of its envelope, or of a bare list."""
    if isinstance(value, list):
        return value
    answer = Fields(value)
    if "jsonrpc" in answer:
        answer = _answered(answer)
    elif "result" in answer:
        answer = answer.fields("result")
    _check_protocol(answer, "protocolVersion")
    if "resultType" in answer and answer.value("resultType") != COMPLETE:
        raise Unfit(answer.at("resultType"), "half_answer")
    cursor = answer.value("nextCursor")
    if cursor is not None and not isinstance(cursor, str):
        raise Unfit(answer.at("nextCursor"), "string")
    if cursor:
        raise Unfit(answer.at("nextCursor"), "half_answer")
    found = answer.required("tools")
    if not isinstance(found, list):
        raise Unfit(answer.at("tools"), "list")
    return found


def _answered(envelope: Fields) -> Fields:
    """Return what a JSON-RPC answer holds; one that says an error holds no list."""
    if envelope.value("jsonrpc") != "2.0":
        raise Unfit("jsonrpc", "version_unknown")
    if "error" in envelope:
        raise Unfit("error", "error_answer")
    return envelope.fields("result")


def _check_protocol(found: Fields, name: str) -> None:
    """Refuse what says that it was asked by a version of the protocol that is not known here."""
    if name in found and found.value(name) not in PROTOCOLS:
        raise Unfit(found.at(name), "version_unknown")


def seen(registry: Registry, key: HmacKey, *, by_digest: bool) -> Seen:
    """Return a list as it is recorded.

    From whole lists fingerprint and parts are those that the `mcp_tools` probe measures; `by_digest`: those
    that a probe's digests give too.
    """
    if by_digest or registry.described is None:
        whole = written({name: each["whole"] for name, each in registry.digests.items()})
        fingerprint = key.digest(STATE, b"tools-digests\0" + whole)
    else:
        fingerprint = key.digest(STATE, b"tools\0" + b"\n\n".join(tool.whole for tool in registry.described))
    parts, shown = _parts(registry, key)
    if not by_digest and registry.described is not None:
        parts = probed_parts(key, registry.described)
    counts = Counter(registry.classes.values())
    facts: dict[str, Any] = {"tools": len(registry.digests), **counts}
    if registry.version is not None:
        facts["server_version"] = registry.version
    carried = parts if len(parts) <= MOST_PARTS else {part: parts[part] for part in _aspects(key)}
    if (number := _packed(registry.classes, carried, key)) is not None:
        facts[tool_classes.FACT] = number
    classes = {cover_name(key, Declared.TOOL, name): word for name, word in registry.classes.items()}
    return Seen(fingerprint, {**facts, **carried}, parts, shown, classes)


def _packed(classes: Mapping[str, str], carried: Mapping[str, str], key: HmacKey) -> int | None:
    """Return the classes of the tools that are parts of their own; None where not every part has one."""
    tools = carried.keys() - set(_aspects(key))
    by_part = {key.digest(PART, name): word for name, word in classes.items()}
    return tool_classes.packed({part: by_part[part] for part in tools}) if tools <= by_part.keys() else None


def _parts(registry: Registry, key: HmacKey) -> tuple[dict[str, str], dict[str, str]]:
    """Return the digests of the aspects and of every tool, and what stands for each where it is shown."""
    tools = sorted(registry.digests.items())
    contents = {"names": written([name for name, _ in tools])}
    for aspect, fields in ASPECTS.items():
        contents[aspect] = written([[name, *(each[field] for field in fields)] for name, each in tools])
    parts = {key.digest(PART, name): _digest(key, content) for name, content in contents.items()}
    shown = {key.digest(PART, name): name for name in contents}
    for name, each in tools:
        if name not in contents:  # a tool that is called like an aspect would take its place
            parts[key.digest(PART, name)] = _digest(key, written(each["whole"]))
            shown[key.digest(PART, name)] = cover_name(key, Declared.TOOL, name)
    return parts, shown


def _aspects(key: HmacKey) -> list[str]:
    return [key.digest(PART, name) for name in ("names", *ASPECTS)]


def _digest(key: HmacKey, content: bytes) -> str:
    return key.digest(STATE, b"tools\0aspect\0" + content)


def _digests(tool: Mapping[str, Any]) -> dict[str, str]:
    """Return what a probe keeps of a tool."""
    found = {field: _sha256(tool.get(of)) for field, of in zip(_FIELDS, _OF_TOOL, strict=False)}
    return {**found, "whole": _sha256(dict(tool))}


def _sha256(value: Any) -> str:
    try:
        return "sha256:" + hashlib.sha256(written(value)).hexdigest()
    except (ValueError, RecursionError):
        raise Unfit("tools", "tools_malformed") from None


def _probed(file: Fields) -> Registry:
    """Return what a probe kept; its own sums must be right."""
    if file.text("schema") != PROBE:
        raise Unfit("schema", "unknown")
    _check_protocol(file, "protocol_version")
    tools = file.fields("tools")
    if len(tools.whole) > MOST_TOOLS:
        raise Unfit("tools", "too_large")
    digests = {name: _kept(Fields(each, "tools.*")) for name, each in tools.whole.items()}
    if file.count("tool_count") != len(digests):
        raise Unfit("tool_count", "differs")
    if file.text("registry_hash") != _sha256({name: each["whole"] for name, each in digests.items()}):
        raise Unfit("registry_hash", "differs")
    server = file.maybe_fields("server")
    version = None if server is None else server.maybe_text("version")
    return Registry(
        digests,
        {name: class_of_digest(each["annotations"]) for name, each in digests.items()},
        None,
        version if version is not None and _VERSION.fullmatch(version) else None,
    )


def _kept(tool: Fields) -> dict[str, str]:
    found = {field: tool.text(field) for field in _FIELDS}
    for field, text in found.items():
        if not is_digest(text):
            raise Unfit(tool.at(field), "digest")
    return found
