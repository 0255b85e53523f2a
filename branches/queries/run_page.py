"""Where a run's page opens, and which runs a search finds."""

from dataclasses import dataclass
from typing import Final

from django.db.models import Q

from branches.models import Run, Workspace
from branches.queries.chains import Link, head
from branches.queries.timeline import WINDOW, jump

BEFORE: Final = 5
FOUND: Final = 20


@dataclass(frozen=True, slots=True)
class Opening:
    """The first seq of the window, and the seq that the eye should find; None where nothing stands out."""

    at: int
    mark: int | None


def opening(run: Run, stopped: Link | None) -> Opening:
    """Return a few receipts before the first failure, else before the stop, else the newest receipts."""
    mark = jump(run, "failure", 0)
    if mark is None and stopped is not None:
        mark = stopped.seq
    if mark is not None:
        return Opening(max(1, mark - BEFORE), mark)
    last, _ = head(run.pk)
    return Opening(max(1, last - WINDOW + 1), None)


def found_runs(workspace: Workspace, text: str) -> list[Run]:
    """Return up to twenty runs and branches: by id, by the part of it that pages print, or by workflow."""
    start, _, end = text.replace("...", "…").partition("…")
    if not start:
        return []
    match = Q(uid__startswith=start)
    for prefix in ("run_", "br_"):
        match |= Q(uid__startswith=prefix + start, uid__endswith=end)
    match |= Q(workflow__name__istartswith=start, parent__isnull=True)
    rows = Run.objects.filter(match, workspace=workspace)
    return list(rows.select_related("workflow", "root").order_by("-id")[:FOUND])
