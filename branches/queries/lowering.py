"""What a declaration lowers here, against what is published: the versions before it and other workflows."""

import json
from dataclasses import dataclass

from branches.models import Workflow, Workspace
from branches.queries.declarations import Declaration, read_declaration
from branches.rules.lowering import (
    DeclaredDestination,
    DeclaredReach,
    DeclaredTool,
    lowered,
    lowered_beside,
    lowered_places,
)


@dataclass(frozen=True, slots=True, order=True)
class Lowered:
    """A field in which a declaration asks less than the newest version of a workflow: its own or another."""

    workflow: str
    field: str


def lowered_here(workspace: Workspace, declared: Declaration) -> tuple[Lowered, ...]:
    """Return in what a declaration asks less for than what is published.

    Of each workflow the newest version counts, and of each place the newest one that names it: what is
    declared no more is still known.
    """
    after, found = _reach(declared), set[Lowered]()
    newest: dict[str, DeclaredReach] = {}
    places: dict[str, dict[tuple[str, str], DeclaredDestination]] = {}
    # Every version is read here and once: one by one through the cache they would push each other out.
    for row in Workflow.objects.filter(workspace=workspace).order_by("id").iterator():
        version = read_declaration(json.loads(row.declaration), uid=row.uid, digest=row.digest)
        newest[row.name] = reach = _reach(version)
        known = places.setdefault(row.name, {})
        known.update({each.place: each for each in reach.destinations.values() if not each.is_fixture})
    for name, before in newest.items():
        fields = lowered(before, after) if name == declared.name else lowered_beside(before, after)
        found |= {Lowered(name, field) for field in (*fields, *lowered_places(places[name].values(), after))}
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
