"""What a declaration lowers here, against what is published: the versions before it and other workflows."""

from dataclasses import dataclass

from branches.models import Workflow, Workspace
from branches.queries.declarations import Declaration, read_workflow
from branches.rules.lowering import (
    DeclaredDestination,
    DeclaredReach,
    DeclaredTool,
    lowered,
    lowered_beside,
)


@dataclass(frozen=True, slots=True, order=True)
class Lowered:
    """A field in which a declaration asks less than the newest version of a workflow: its own or another."""

    workflow: str
    field: str


def lowered_here(workspace: Workspace, declared: Declaration) -> tuple[Lowered, ...]:
    """Return in what a declaration asks less for than what is published: the newest version of each."""
    after, found = _reach(declared), list[Lowered]()
    newest = {row.name: row for row in Workflow.objects.filter(workspace=workspace).order_by("id")}
    for name, row in newest.items():
        before = _reach(read_workflow(row))
        fields = lowered(before, after) if name == declared.name else lowered_beside(before, after)
        found += [Lowered(name, field) for field in fields]
    return tuple(sorted(found))


def _reach(declared: Declaration) -> DeclaredReach:
    return DeclaredReach(
        tools={
            name: DeclaredTool(tool.effect_class, tool.destination) for name, tool in declared.tools.items()
        },
        destinations={
            name: DeclaredDestination(
                rule.query,
                rule.target,
                rule.fixture,
                frozenset() if rule.acceptance is None else rule.acceptance.answers,
                None if rule.acceptance is None else rule.acceptance.until,
            )
            for name, rule in declared.destinations.items()
        },
    )
