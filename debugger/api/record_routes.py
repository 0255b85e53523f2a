"""The record for machines: receipts in and out, runs, checkpoints, branches, workflows."""

import json
from collections.abc import Iterator
from typing import Any

from django.http import HttpRequest, StreamingHttpResponse
from ninja import Router, Status

from branches.commands.check_outcome import check_outcome
from branches.commands.ingest_receipts import IngestReport, ingest_receipts
from branches.commands.publish_workflow import publish_workflow
from branches.evidence.schema import SCHEMAS
from branches.queries.api_views import (
    branch_json,
    checkpoints_json,
    effects_json,
    evidence_json,
    exported,
    outcome_json,
    run_json,
    runs_json,
)
from branches.queries.lookups import branch_named, run_named, workflow_named
from debugger.api import forms
from debugger.api.bodies import ndjson_lines
from debugger.api.errors import Problem
from debugger.api.tokens import TokenAuth, machine_of

router = Router(tags=["record"])


@router.post(
    "/receipts",
    auth=TokenAuth("ingest"),
    response={200: forms.BatchOut, 207: forms.BatchOut, 422: forms.BatchOut},
    openapi_extra={"requestBody": {"content": {"application/x-ndjson": {"schema": {"type": "string"}}}}},
)
def post_receipts(request: HttpRequest, atomic: bool = False) -> Status[Any]:
    """Take up to 1 000 receipts, one a line; the good ones are stored, the others named by line."""
    lines = ndjson_lines(request)
    report = ingest_receipts(recorder=machine_of(request).paired(), lines=lines, atomic=atomic)
    return Status(_status(report), _batch(report))


def _status(report: IngestReport) -> int:
    if not report.refused:
        return 200
    return 207 if report.accepted or report.duplicates else 422


def _batch(report: IngestReport) -> dict[str, Any]:
    return {
        "accepted": report.accepted,
        "duplicates": report.duplicates,
        "refused": [{"line": line.line, "field": line.field, "rule": line.rule} for line in report.refused],
        "heads": {run: {"seq": seq, "digest": digest} for run, (seq, digest) in report.heads.items()},
    }


@router.get("/runs", auth=TokenAuth("read"), response=forms.RunsOut)
def runs(request: HttpRequest, after: str | None = None) -> dict[str, Any]:
    """Return the workspace's root runs, newest first, fifty at a time."""
    return {"runs": runs_json(machine_of(request).workspace, after)}


@router.get("/runs/{run}", auth=TokenAuth("read"), response=forms.RunOut)
def run(request: HttpRequest, run: str) -> dict[str, Any]:
    """Return one run or branch with its head."""
    return run_json(run_named(machine_of(request).workspace, run))


@router.get("/runs/{run}/receipts", auth=TokenAuth("read"))
def receipts(request: HttpRequest, run: str, from_seq: int = 1) -> StreamingHttpResponse:
    """Stream a run's receipts as NDJSON, exact bytes, digests included."""
    row = run_named(machine_of(request).workspace, run)
    lines: Iterator[bytes] = exported(row, from_seq=max(1, from_seq))
    return StreamingHttpResponse(lines, content_type="application/x-ndjson")


@router.get("/runs/{run}/checkpoints", auth=TokenAuth("read"), response=forms.CheckpointsOut)
def checkpoints(request: HttpRequest, run: str, from_seq: int = 1) -> dict[str, Any]:
    """Return a run's checkpoints from a seq on, two hundred at a time."""
    row = run_named(machine_of(request).workspace, run)
    return {"checkpoints": checkpoints_json(row, from_seq=from_seq)}


@router.get("/branches/{branch}", auth=TokenAuth("read"), response=forms.BranchOut)
def branch(request: HttpRequest, branch: str) -> dict[str, Any]:
    """Return a branch with its six gates, judged now."""
    return branch_json(branch_named(machine_of(request).workspace, branch))


@router.get("/branches/{branch}/evidence", auth=TokenAuth("read"), response=forms.EvidenceOut)
def evidence(request: HttpRequest, branch: str) -> dict[str, Any]:
    """Return what was measured of each required state key."""
    return {"keys": evidence_json(branch_named(machine_of(request).workspace, branch))}


@router.get("/branches/{branch}/effects", auth=TokenAuth("read"), response=forms.EffectsOut)
def effects(request: HttpRequest, branch: str) -> dict[str, Any]:
    """Return the effect ledger with the destinations' answers and the reconciliations."""
    return {"effects": effects_json(branch_named(machine_of(request).workspace, branch))}


@router.get("/branches/{branch}/outcome", auth=TokenAuth("read"), response=forms.OutcomeOut)
def outcome(request: HttpRequest, branch: str) -> dict[str, Any]:
    """Return the loop's claim beside the newest check."""
    return outcome_json(branch_named(machine_of(request).workspace, branch))


@router.post("/branches/{branch}/outcome", auth=TokenAuth("outcome"), response=forms.OutcomeOut)
def ask_outcome(request: HttpRequest, branch: str) -> dict[str, Any]:
    """Have the declared verifier asked now; what is posted here is never itself an outcome."""
    row = branch_named(machine_of(request).workspace, branch)
    check_outcome(run=row)
    return outcome_json(row)


@router.get("/workflows/{name}/{version}", auth=TokenAuth("ingest"), response=forms.WorkflowOut)
def workflow(request: HttpRequest, name: str, version: str) -> dict[str, Any]:
    """Return a published declaration."""
    row = workflow_named(machine_of(request).workspace, name, version)
    return {"workflow": row.uid, "digest": row.digest, "declaration": json.loads(row.declaration)}


@router.post("/workflows", auth=TokenAuth("ingest"), response={201: forms.WorkflowOut})
def publish(request: HttpRequest, body: forms.WorkflowIn) -> Status[Any]:
    """Publish one version of a declaration; the same again is the same, another under its name is refused."""
    machine = machine_of(request)
    row = publish_workflow(
        workspace=machine.workspace, publisher=machine.token.uid, declaration=body.declaration
    )
    answer = {"workflow": row.uid, "digest": row.digest, "declaration": json.loads(row.declaration)}
    return Status(201, answer)


@router.get("/schemas/{kind}", auth=None)
def schema(request: HttpRequest, kind: str) -> Any:
    """Return the JSON Schema of one kind of receipt."""
    if kind not in SCHEMAS:
        raise Problem(404, "not_found")
    return SCHEMAS[kind]


@router.get("/schemas", auth=None)
def schemas(request: HttpRequest) -> dict[str, list[str]]:
    """Return the kinds a receipt may have."""
    return {"kinds": sorted(SCHEMAS)}
