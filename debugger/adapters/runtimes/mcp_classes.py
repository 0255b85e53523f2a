"""The effect class of an MCP tool by its annotations, under the defaults of the protocol's specification.

A server that says nothing of a tool leaves its class unknown. Where it says anything, what it leaves out has
the specification's default: not read-only, destructive, not idempotent, in an open world. A hint is a hint: a
workflow's own declaration stands above it, and nothing here is ever better than what was said.

| the server says | class |
| --- | --- |
| nothing, or hints that are no flags, or read-only *and* destructive | `unknown` |
| read-only | `read` |
| not destructive, and a closed world | `reversible`: it only adds, where it can be taken away again |
| not destructive, in an open world | `unknown`: a mail that was sent only adds, too |
| anything else | `irreversible`; an idempotent tool can be called twice, not undone |
"""

import hashlib
from collections.abc import Mapping
from functools import cache
from itertools import product
from typing import Any, Final

from debugger.adapters.probes.tool_lists import written

UNKNOWN: Final = "unknown"
READ_ONLY: Final = "readOnlyHint"
DESTRUCTIVE: Final = "destructiveHint"
OPEN_WORLD: Final = "openWorldHint"
HINTS: Final = (READ_ONLY, DESTRUCTIVE, "idempotentHint", OPEN_WORLD)


def class_of(annotations: Any) -> str:
    """Return the effect class that a tool's annotations speak for."""
    said = annotations if isinstance(annotations, Mapping) else {}
    hints = {name: said[name] for name in HINTS if said.get(name) is not None}
    if not hints or not all(isinstance(each, bool) for each in hints.values()):
        return UNKNOWN
    if hints.get(READ_ONLY, False):
        return UNKNOWN if hints.get(DESTRUCTIVE, False) else "read"
    if hints.get(DESTRUCTIVE, True):
        return "irreversible"
    return UNKNOWN if hints.get(OPEN_WORLD, True) else "reversible"


def class_of_digest(digest: str) -> str:
    """Return the class by a probe's digest of the annotations: few sets of hints are possible."""
    return _by_digest().get(digest, UNKNOWN)


@cache
def _by_digest() -> dict[str, str]:
    found = {}
    for values in product((None, False, True), repeat=len(HINTS)):
        hints = {name: value for name, value in zip(HINTS, values, strict=True) if value is not None}
        found["sha256:" + hashlib.sha256(written(hints)).hexdigest()] = class_of(hints)
    return found
