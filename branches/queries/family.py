"""A run's family: its root, every branch, and what of it lies before a branch's fork point."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

from branches.models import ForkPoint, Redemption, Run


@dataclass(frozen=True)
class Family:
    """Every run with one root, with their fork points and redemptions, read in three queries."""

    root: Run
    branches: tuple[Run, ...]
    forks: Mapping[int, ForkPoint]
    redemptions: Mapping[int, Redemption]
    known: dict[Hashable, Any] = field(default_factory=dict, compare=False)
    """What was found of the family's runs already, for as long as this is looked at: siblings share it."""

    def once[Found](self, name: Hashable, find: Callable[[], Found]) -> Found:
        """Return what is known under a name, and find it only the first time."""
        if name not in self.known:
            self.known[name] = find()
        found: Found = self.known[name]
        return found

    @cached_property
    def runs(self) -> dict[int, Run]:
        return {run.pk: run for run in (self.root, *self.branches)}

    def path(self, branch: Run) -> list[Run]:
        """Return the runs from the root down to a branch."""
        path = [branch]
        while path[-1].parent_id is not None:
            path.append(self.runs[path[-1].parent_id])
        return path[::-1]

    def after(self, branch: Run) -> dict[int, int]:
        """Return run id -> last seq that still lies before the branch, for every run that acted after it.

        Those are the branch's ancestors past the link where its line leaves them, and every resumed
        branch elsewhere in the family from its first receipt: what one branch did in the world, the
        next one finds there.
        """
        path = self.path(branch)
        bounds = {parent.pk: self.forks[child.pk].seq for parent, child in pairwise(path)}
        on_path = {run.pk for run in path}
        for other in self.branches:
            if other.pk not in on_path and other.pk in self.redemptions:
                bounds[other.pk] = 0
        return bounds


def family_of(run: Run) -> Family:
    """Return the family that a run belongs to."""
    root = run.root if run.root_id is not None and run.root is not None else run
    branches = tuple(
        Run.objects.filter(root=root).select_related("workflow", "recorder", "workspace").order_by("number")
    )
    ids = [branch.pk for branch in branches]
    forks = ForkPoint.objects.filter(branch_id__in=ids).select_related("forker")
    redemptions = Redemption.objects.filter(branch_id__in=ids).select_related("permit")
    return Family(
        root=root,
        branches=branches,
        forks={fork.branch_id: fork for fork in forks},
        redemptions={redemption.branch_id: redemption for redemption in redemptions},
    )
