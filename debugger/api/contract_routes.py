"""Topology contracts for machines: publish a version, read it back."""

import json
from typing import Annotated, Any

from django.http import HttpRequest
from ninja import Router, Schema, Status
from pydantic import Field

from branches.commands.publish_contract import publish_contract
from branches.evidence.kinds.forms import NAME_PATTERN
from branches.queries.contracts import ContractRow, contract_named
from debugger.api.forms import Closed
from debugger.api.tokens import TokenAuth, machine_of

router = Router(tags=["contracts"])


class ContractIn(Closed):
    """A contract for a workflow; as a draft it blesses nothing."""

    workflow: Annotated[str, Field(max_length=96, pattern=f"^(?:{NAME_PATTERN})$")]
    contract: dict[str, Any]
    draft: Annotated[bool, Field(strict=True)] = False


class ContractOut(Schema):
    contract: str
    workflow: str
    version: str
    digest: str
    draft: bool
    declaration: dict[str, Any]


@router.post("/contracts", auth=TokenAuth("ingest"), response={201: ContractOut})
def publish(request: HttpRequest, body: ContractIn) -> Status[Any]:
    """Publish one version of a contract; the same again is the same, another under its version is refused."""
    machine = machine_of(request)
    row = publish_contract(
        workspace=machine.workspace,
        publisher=machine.token.uid,
        workflow=body.workflow,
        contract=body.contract,
        is_draft=body.draft,
    )
    return Status(201, _json(row))


@router.get("/contracts/{workflow}/{version}", auth=TokenAuth("ingest"), response=ContractOut)
def contract(request: HttpRequest, workflow: str, version: str) -> dict[str, Any]:
    """Return a published contract, a draft too."""
    return _json(contract_named(machine_of(request).workspace, workflow, version))


def _json(row: ContractRow) -> dict[str, Any]:
    return {
        "contract": row.uid,
        "workflow": row.workflow,
        "version": row.version,
        "digest": row.digest,
        "draft": row.is_draft,
        "declaration": json.loads(row.declaration),
    }
