"""Publishes one version of a workflow's declaration: made before a run, frozen from then on."""

from collections.abc import Collection, Mapping
from functools import partial
from typing import Any, Final

from django.db import transaction

from branches.commands.append_receipt import Actor, lock_names
from branches.commands.append_to_workspace import append_to_workspace
from branches.commands.refusal import Refused
from branches.commands.supersede_requests import supersede_by_workflow
from branches.evidence import canonical, ids
from branches.models import Workflow, Workspace
from branches.queries.clock import now
from branches.queries.declarations import read_declaration
from branches.queries.lowering import Lowered, lowered_here
from branches.queries.workflow_form import problem_of
from branches.rules.change_class import ChangeClass

LOWERS: Final = f"class:{ChangeClass.CP}"
"""The rule that refuses a declaration which asks less for than what is published, until others agree."""


def publish_workflow(*, workspace: Workspace, publisher: str, declaration: Mapping[str, Any]) -> Workflow:
    """Publish a declaration; the same bytes again return the same row, other bytes are refused.

    One that lowers what is published is a change of class CP (`propose_workflow`): only the operator's own
    command, whose `publisher` is the workspace itself, needs nobody's word. Raises Refused.
    """
    exact, digest = checked_declaration(declaration)
    with transaction.atomic():
        # Each declaration is compared with what the one before it leaves, also of another workflow.
        lock_names([f"workflows {workspace.uid}"])
        known = _known(workspace, declaration, digest)
        if known is not None:
            return known
        found = () if publisher == workspace.uid else lowered_by(workspace, declaration)
        if found:
            raise Refused(rule=LOWERS, field=found[0].field)
        return _published(workspace, publisher, declaration, exact, digest)


def publish_agreed(
    *, workspace: Workspace, publisher: str, declaration: Mapping[str, Any], agreed: Collection[Lowered]
) -> Workflow:
    """Publish a declaration that others agreed to, in the caller's transaction and under its locks.

    What it lowers by now has to be among what was agreed to lower: others may have been published since.
    Raises Refused.
    """
    exact, digest = checked_declaration(declaration)
    known = _known(workspace, declaration, digest)
    if known is not None:
        return known
    more = [each for each in lowered_by(workspace, declaration) if each not in agreed]
    if more:
        raise Refused(rule=LOWERS, field=more[0].field)
    return _published(workspace, publisher, declaration, exact, digest)


def checked_declaration(declaration: Mapping[str, Any]) -> tuple[str, str]:
    """Return a declaration's exact text and digest. Raises Refused where it is none."""
    if problem := problem_of(declaration):
        raise Refused(rule=problem.rule, field=problem.field)
    exact = canonical.canonical_bytes(dict(declaration)).decode()
    return exact, canonical.digest(canonical.DECLARATION, dict(declaration))


def _known(workspace: Workspace, declaration: Mapping[str, Any], digest: str) -> Workflow | None:
    rows = Workflow.objects.filter(workspace=workspace, name=declaration["workflow"])
    known = rows.filter(version=declaration["version"]).first()
    if known is not None and known.digest != digest:
        raise Refused(rule="version_already_published", field="version")
    return known


def lowered_by(workspace: Workspace, declaration: Mapping[str, Any]) -> tuple[Lowered, ...]:
    """Return in what a declaration that was checked asks less for than what is published."""
    return lowered_here(workspace, read_declaration(declaration, uid="", digest=""))


def _published(
    workspace: Workspace, publisher: str, declaration: Mapping[str, Any], exact: str, digest: str
) -> Workflow:
    row = Workflow.objects.create(
        uid=ids.mint("wf"),
        workspace=workspace,
        name=declaration["workflow"],
        version=declaration["version"],
        digest=digest,
        declaration=exact,
        published_at=now(),
        publisher=publisher,
    )
    append_to_workspace(
        workspace=workspace,
        kind="workflow_declared",
        body={"workflow": row.uid, "version": row.version, "declaration": digest},
        actor=_actor(publisher),
        subject=row.uid,
    )
    # What its tools are worth counts at once; the locks of families come before those that are held here.
    transaction.on_commit(partial(supersede_by_workflow, workspace, row.name))
    return row


def _actor(publisher: str) -> Actor:
    return Actor("person" if ids.is_id(publisher, "per") else "machine", publisher)
