"""The workflow that whoever sends runs means by its name: the version published last."""

from branches.models import Workflow, Workspace


def newest_workflow(workspace: Workspace, name: str) -> Workflow | None:
    """Return the newest version of a workflow, or None where none of this name is published here."""
    if "\0" in name:
        return None  # no database takes one
    return Workflow.objects.filter(workspace=workspace, name=name).order_by("-id").first()


def version_before(workspace: Workspace, name: str, version: str) -> Workflow | None:
    """Return what a version is compared with: the newest other one that was there before it."""
    rows = Workflow.objects.filter(workspace=workspace, name=name).order_by("-id")
    known = rows.filter(version=version).first()
    return rows.first() if known is None else rows.filter(pk__lt=known.pk).first()


def is_published(workspace: Workspace, name: str) -> bool:
    """Whether any version of a workflow is published here."""
    return newest_workflow(workspace, name) is not None
