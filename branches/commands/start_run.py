"""Starts a root run in the record: what was declared before it is frozen for it."""

from collections.abc import Mapping
from typing import Any

from branches.models import Recorder, Run, Workflow
from branches.queries.clock import now
from branches.queries.contracts import contract_at_start


def start_run(*, recorder: Recorder, uid: str, body: Mapping[str, Any]) -> Run | None:
    """Make the run's row in the caller's transaction, or return None for a workflow nobody published."""
    workflow = None
    if body["workflow"] is not None:
        workflow = Workflow.objects.filter(
            uid=body["workflow"], version=body["workflow_version"], workspace_id=recorder.workspace_id
        ).first()
        if workflow is None:
            return None
    return Run.objects.create(
        uid=uid,
        workspace_id=recorder.workspace_id,
        workflow=workflow,
        recorder=recorder,
        contract=None if workflow is None else contract_at_start(workflow, body["contract_version"]),
        made_at=now(),
    )
