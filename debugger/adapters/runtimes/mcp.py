"""Imports saved tool lists of MCP servers: the files of one import, in order, are one run's tool registry."""

import hashlib
from collections.abc import Sequence
from typing import Any, Final

from branches.evidence.domains import CHECKPOINT, REF, THREAD
from branches.evidence.keys import HmacKey
from branches.ports import SourceFile, SourceRead, SourceReceipt, SourceRefusal, SourceRun
from debugger.adapters.runtimes.mcp_lists import Registry, Seen, read_registry, seen
from debugger.adapters.runtimes.source_json import Unfit, parsed

RUNTIME: Final = "mcp"
STATE_KEY: Final = "tool_registry"
NO_TIME: Final = "1970-01-01T00:00:00Z"
"""A tool list holds no time at all, and the epoch stands for that."""


class McpImporter:
    """Reads `tools/list` answers (whole, or their list of tools) and content-free probes of them.

    Both forms of one list have one fingerprint. An order of tools is no difference.
    """

    versions: tuple[str, ...] = ("2.3.0", "mcp-registry-probe/1")

    def read(self, files: Sequence[SourceFile], key: HmacKey) -> SourceRead:
        """Return one run with a checkpoint for each list; a file that is none is refused."""
        refused: list[SourceRefusal] = []
        found: list[tuple[str, Registry]] = []
        for file in files:
            try:
                found.append((file.label, read_registry(parsed(file.content))))
            except Unfit as error:
                refused.append(SourceRefusal(file.label, error.field, error.rule))
        if not found:
            return SourceRead((), tuple(refused))
        # Digests can be made of whole lists, not the other way: so one probe makes all of them digests.
        by_digest = any(registry.described is None for _, registry in found)
        looked = [(label, seen(registry, key, by_digest=by_digest)) for label, registry in found]
        return SourceRead((_run(looked, key),), tuple(refused))


def _run(looked: list[tuple[str, Seen]], key: HmacKey) -> SourceRun:
    """Return the run. Nothing in a list says of which run it is: the first one stands for it."""
    identity = hashlib.sha256(looked[0][1].fingerprint.encode()).hexdigest()
    external_ref = key.digest(THREAD, f"{RUNTIME}\0{identity}")
    receipts = [_receipt("run_started", "start", _started(external_ref), key)]
    parent: str | None = None
    for step, (_, each) in enumerate(looked):
        own = f"{identity}\0{step}\0{each.fingerprint}"
        checkpoint = key.digest(CHECKPOINT, f"{RUNTIME}\0{own}")
        body = {
            "checkpoint": checkpoint,
            "parent_checkpoint": parent,
            "step": step,
            "state": {STATE_KEY: {"fingerprint": each.fingerprint, "facts": each.facts}},
            # A list of tools is no state that a run could be continued from.
            "consistent": False,
        }
        receipts.append(_receipt("checkpoint", own, body, key))
        parent = checkpoint
    return SourceRun(external_ref, tuple(receipts), registry=tuple(_said(looked)))


def _said(looked: list[tuple[str, Seen]]) -> list[dict[str, Any]]:
    """Return for each list what changed since the one before, and every tool's effect class."""
    said: list[dict[str, Any]] = []
    before: Seen | None = None
    for label, each in looked:
        said.append(
            {
                "where": label,
                "fingerprint": each.fingerprint,
                "drift": [] if before is None else each.changes(before),
                "effect_classes": dict(each.classes),
            }
        )
        before = each
    return said


def _receipt(kind: str, own: str, body: dict[str, Any], key: HmacKey) -> SourceReceipt:
    place = key.digest(REF, f"place\0{RUNTIME}\0{kind}\0{own}")
    return SourceReceipt(kind=kind, at=NO_TIME, place=place, body=body)


def _started(external_ref: str) -> dict[str, Any]:
    return {
        "workflow": None,
        "workflow_version": None,
        "runtime": {"name": RUNTIME, "version": None},
        "external_ref": external_ref,
        "configuration": None,
        "contract_version": None,
        "phase": None,
        "recording": "imported",
    }
