"""Publishes one version of a topology contract: for runs that start after it, and never for others."""

from collections.abc import Mapping
from typing import Any, Final

from django.db import transaction

from branches.commands.append_receipt import lock_names
from branches.commands.refusal import Refused
from branches.evidence import canonical, ids
from branches.evidence.canonical import ProfileError
from branches.models import Contract, Person, Role, Workflow, Workspace
from branches.queries.authority import roles_of
from branches.queries.clock import now
from branches.queries.contract_form import contract_problems

_MOST_BYTES: Final = 64 * 1024


def publish_contract(
    *,
    workspace: Workspace,
    publisher: Person | str,
    workflow: str,
    contract: Mapping[str, Any],
    is_draft: bool = False,
) -> Contract:
    """Publish a contract; the same bytes again return the same row, other bytes are refused.

    `publisher`: an engineer of the workspace, or the id of whatever else was let in. A draft stays one: what
    is to count is published under a version of its own. Raises Refused.
    """
    uid = _publisher(workspace, publisher)
    _require_workflow(workspace, workflow)
    exact = _checked(contract)
    version, digest = str(contract["version"]), canonical.digest(canonical.CONTRACT, exact)
    with transaction.atomic():
        lock_names([f"{workspace.uid} contract {workflow} {version}"])
        known = Contract.objects.filter(workspace=workspace, workflow=workflow, version=version).first()
        if known is not None:
            if (known.digest, known.is_draft) != (digest, is_draft):
                raise Refused(rule="version_already_published", field="contract.version")
            return known
        return Contract.objects.create(
            uid=ids.mint("con"),
            workspace=workspace,
            workflow=workflow,
            version=version,
            digest=digest,
            declaration=exact.decode(),
            is_draft=is_draft,
            published_at=now(),
            publisher=uid,
        )


def _publisher(workspace: Workspace, publisher: Person | str) -> str:
    if isinstance(publisher, str):
        return publisher
    if Role.ENGINEER not in roles_of(publisher, workspace):
        raise Refused(rule=f"role:{Role.ENGINEER}")
    return publisher.uid


def _checked(contract: Mapping[str, Any]) -> bytes:
    """Return a contract's exact bytes, or refuse the first problem found."""
    try:
        exact = canonical.canonical_bytes(dict(contract))
    except ProfileError as error:
        # Its path may hold the names that the rules below would refuse.
        raise Refused(rule=error.rule, field="contract") from None
    if len(exact) > _MOST_BYTES:
        raise Refused(rule="max_bytes", field="contract")
    problem = next(contract_problems(dict(contract), "contract"), None)
    if problem is not None:
        raise Refused(rule=problem.rule, field=problem.field)
    return exact


def _require_workflow(workspace: Workspace, name: str) -> None:
    if "\0" in name or not Workflow.objects.filter(workspace=workspace, name=name).exists():
        raise Refused(rule="workflow_unknown", field="workflow")
