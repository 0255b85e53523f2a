"""Publishes one version of a workflow's declaration: made before a run, frozen from then on."""

from collections.abc import Mapping
from typing import Any

from django.db import transaction

from branches.commands.append_receipt import lock_names
from branches.commands.refusal import Refused
from branches.evidence import canonical, ids
from branches.models import Workflow, Workspace
from branches.queries.clock import now
from branches.queries.workflow_form import problem_of


def publish_workflow(*, workspace: Workspace, publisher: str, declaration: Mapping[str, Any]) -> Workflow:
    """Publish a declaration; the same bytes again return the same row, other bytes are refused."""
    if problem := problem_of(declaration):
        raise Refused(rule=problem.rule, field=problem.field)
    exact = canonical.canonical_bytes(dict(declaration)).decode()
    digest = canonical.digest(canonical.DECLARATION, dict(declaration))
    with transaction.atomic():
        lock_names([f"{workspace.uid} {declaration['workflow']} {declaration['version']}"])
        existing = Workflow.objects.filter(
            workspace=workspace, name=declaration["workflow"], version=declaration["version"]
        ).first()
        if existing is not None:
            if existing.digest != digest:
                raise Refused(rule="version_already_published", field="version")
            return existing
        return Workflow.objects.create(
            uid=ids.mint("wf"),
            workspace=workspace,
            name=declaration["workflow"],
            version=declaration["version"],
            digest=digest,
            declaration=exact,
            published_at=now(),
            publisher=publisher,
        )
