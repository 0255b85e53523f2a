"""What a declaration lowers here, against what is published: the versions before it and other workflows."""

from branches.models import Workflow, Workspace
from branches.queries.declarations import Declaration, read_workflow
from branches.rules.lowering import (
    DeclaredDestination,
    DeclaredReach,
    DeclaredTool,
    lowered,
    lowered_destinations,
)


def lowered_here(workspace: Workspace, declared: Declaration) -> tuple[str, ...]:
    """Return the fields, sorted, by which a declaration asks less for than what is published.

    Its own workflow's newest version counts whole; of the newest versions of others their destinations,
    for a destination is one, whoever writes to it.
    """
    after, found = _reach(declared), set[str]()
    newest = {row.name: row for row in Workflow.objects.filter(workspace=workspace).order_by("id")}
    for name, row in newest.items():
        before = _reach(read_workflow(row))
        found |= {*(lowered(before, after) if name == declared.name else lowered_destinations(before, after))}
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
