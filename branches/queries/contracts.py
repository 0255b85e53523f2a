"""Topology contracts: those that were published, and the one that a run was frozen with at its start."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from branches.models import Contract, Run, Workflow, Workspace
from branches.queries.declarations import Quorum, declaration_of, quorums_of, rules_of
from branches.queries.lookups import NotHere

type ContractRow = Contract


@dataclass(frozen=True, slots=True)
class _Frozen:
    """A published contract, as the rules take it, and its quorums, which stand beside the verdict."""

    contract: Mapping[str, Any] | None
    quorums: tuple[Quorum, ...]


def contract_of(run: Run) -> Mapping[str, Any] | None:
    """Return the topology contract that a run was frozen with, or None where there is none.

    It is what its root named at the start; a branch never has another.
    """
    published = _published(run)
    if published is not None:
        return published.contract
    declaration = declaration_of(run)
    return None if declaration is None else declaration.contract


def quorums_for(run: Run) -> tuple[Quorum, ...]:
    """Return the quorums of the contract that a run was frozen with."""
    published = _published(run)
    if published is not None:
        return published.quorums
    declaration = declaration_of(run)
    return () if declaration is None else declaration.quorums


def _published(run: Run) -> _Frozen | None:
    root = run if run.root is None else run.root
    return None if root.contract_id is None else _read(root.contract_id)


@lru_cache(maxsize=64)
def _read(uid: str) -> _Frozen:
    declared = json.loads(Contract.objects.get(uid=uid).declaration)
    return _Frozen(rules_of(declared), quorums_of(declared))


def contract_at_start(workflow: Workflow, version: str | None) -> Contract | None:
    """Return the published contract that a run names at its start, or None where the workflow's own counts.

    A version nobody published leaves the workflow's own too, and the rules then call it stale. So does a
    draft: it blesses nothing.
    """
    own = rules_of(json.loads(workflow.declaration).get("contract"))
    if version is None or (own is not None and own["version"] == version):
        return None
    return Contract.objects.filter(
        workspace_id=workflow.workspace_id, workflow=workflow.name, version=version, is_draft=False
    ).first()


def contract_named(workspace: Workspace, workflow: str, version: str) -> Contract:
    """Return a published contract, a draft too; raises NotHere."""
    if "\0" in workflow + version:
        raise NotHere
    row = Contract.objects.filter(workspace=workspace, workflow=workflow, version=version).first()
    if row is None:
        raise NotHere(workflow)
    return row
