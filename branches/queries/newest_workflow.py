"""The workflow that whoever sends runs means by its name: the version published last."""

from branches.models import Workflow, Workspace


def newest_workflow(workspace: Workspace, name: str) -> Workflow | None:
    """Return the newest version of a workflow, or None where none of this name is published here."""
    if "\0" in name:
        return None  # no database takes one
    return Workflow.objects.filter(workspace=workspace, name=name).order_by("-id").first()


def is_published(workspace: Workspace, name: str) -> bool:
    """Whether any version of a workflow is published here."""
    return newest_workflow(workspace, name) is not None
