"""Branches in rows: newest first, each with its two tracks; a page is small because every row is judged."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.db.models import QuerySet

from branches.models import Run, Workspace
from branches.queries.branch_facts import BranchView, branch_view
from branches.queries.family import Family, family_of
from branches.queries.words import Badge, outcome_badge, permission_badge

PAGE: Final = 20


@dataclass(frozen=True, slots=True)
class BranchRow:
    """One branch as a list shows it."""

    branch: Run
    root: Run
    permission: Badge
    outcome: Badge
    reasons: tuple[str, ...]
    forker: str
    edit_class: str
    checkpoint: str
    fork_seq: int
    change_class: str
    edits: int
    sealed_at: datetime | None
    at: datetime

    @property
    def name(self) -> str:
        return f"b{self.branch.number}"


@dataclass(frozen=True, slots=True)
class BranchList:
    """A page of branches, how many there are, and the branch after which the next page starts."""

    rows: list[BranchRow]
    total: int
    older: str | None


def branch_list(workspace: Workspace, *, before: str | None) -> BranchList:
    """Return twenty branches of a workspace, newest first, after the given one."""
    found = Run.objects.filter(workspace=workspace, parent__isnull=False)
    return _page(found, before)


def branches_of(run: Run, *, before: str | None = None) -> BranchList:
    """Return the branches of a run's whole family, or those that were forked from a branch."""
    found = Run.objects.filter(root=run) if run.parent_id is None else Run.objects.filter(parent=run)
    return _page(found, before)


def _page(rows: QuerySet[Run], before: str | None) -> BranchList:
    total = rows.count()
    if before is not None:
        rows = rows.filter(pk__lt=Run.objects.filter(uid=before).values("pk"))
    branches = list(rows.select_related("root__workflow", "parent").order_by("-id")[: PAGE + 1])
    older = branches[PAGE - 1].uid if len(branches) > PAGE else None
    return BranchList(branch_rows(branches[:PAGE]), total, older)


def branch_rows(branches: Iterable[Run]) -> list[BranchRow]:
    """Judge each branch, and read each family once; callers bound how many they give."""
    families: dict[int, Family] = {}
    rows = []
    for branch in branches:
        if branch.family_id not in families:
            families[branch.family_id] = family_of(branch)
        rows.append(_row(branch_view(branch, family=families[branch.family_id])))
    return rows


def _row(view: BranchView) -> BranchRow:
    return BranchRow(
        branch=view.branch,
        root=view.family.root,
        permission=permission_badge(view),
        outcome=outcome_badge(view),
        reasons=view.verdict.reasons,
        forker=view.fork.forker.get_username(),
        edit_class=view.fork.edit_class,
        checkpoint=view.fork.checkpoint,
        fork_seq=view.fork.seq,
        change_class=str(view.change_class),
        edits=len(view.edits),
        sealed_at=view.redemption.at if view.redemption else None,
        at=view.fork.at,
    )
