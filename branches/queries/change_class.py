"""The facts behind a branch's change class, read from rows and receipts, and the verdict on them."""

from collections.abc import Sequence

from branches.models import ForkPoint, Run
from branches.queries.chains import Link, links
from branches.queries.declarations import Declaration, read_workflow
from branches.queries.family import Family
from branches.queries.ledger import EffectLine
from branches.queries.newest_workflow import newest_workflow
from branches.rules.change_class import ClassFacts, ClassVerdict, Reach, Settled, judge_class

_CHANGES = ("configuration_changed", "effect_reconciled")


def class_of_branch(
    family: Family, branch: Run, declaration: Declaration | None, lines: Sequence[EffectLine]
) -> ClassVerdict:
    """Return the class of a branch as it is now, with every fact that made it so."""
    path = [run for run in family.path(branch) if run.parent_id is not None]
    found = links([run.pk for run in path], _CHANGES)
    facts = ClassFacts(
        is_declared=declaration is not None,
        reaches=_reaches_now(family, branch, declaration),
        settled=tuple(
            Settled(line.operation_key, str(line.status), line.decision is not None) for line in lines
        ),
        changed_keys=_changed(branch, found),
        kinds=tuple(family.forks[branch.pk].kinds),
        has_own_outcome=branch.outcome is not None,
    )
    return judge_class(facts, [_of_ancestor(run, family.forks[run.pk], found) for run in path[:-1]])


def class_of_fork(family: Family, parent: Run, declaration: Declaration | None) -> ClassVerdict:
    """Return the least class that a branch forked from this run will have."""
    path = [run for run in family.path(parent) if run.parent_id is not None]
    found = links([run.pk for run in path], _CHANGES)
    facts = ClassFacts(
        is_declared=declaration is not None,
        reaches=_reaches_now(family, parent, declaration),
        settled=(),
        changed_keys=(),
        kinds=(),
        has_own_outcome=parent.outcome is not None,
    )
    return judge_class(facts, [_of_ancestor(run, family.forks[run.pk], found) for run in path])


def destinations_to_own(declaration: Declaration | None, lines: Sequence[EffectLine]) -> tuple[str, ...]:
    """Return the destinations whose owners have a say: where a branch may write, or an effect was settled."""
    if declaration is None:
        return ()
    fixtures = {name for name, rule in declaration.destinations.items() if rule.fixture}
    found = {tool.destination for tool in declaration.tools.values() if tool.effect_class != "read"}
    found |= {
        line.destination for line in lines if line.decision is not None or str(line.status) != "pending"
    }
    return tuple(sorted(name for name in found if name is not None and name not in fixtures))


def _reaches_now(family: Family, run: Run, declaration: Declaration | None) -> tuple[Reach, ...]:
    """Return what a run declared of its tools at its start, and what its workflow's newest version says.

    The worse counts: whoever begins runs under an older version asks no less for what is known by now.
    """
    if declaration is None:
        return ()
    newest = family.once("newest", lambda: newest_workflow(run.workspace, declaration.name))
    now = None if newest is None or newest.uid == declaration.uid else read_workflow(newest)
    known = (each for each in _reaches(now) if each.tool in declaration.tools)
    return tuple(dict.fromkeys((*_reaches(declaration), *known)))


def _reaches(declaration: Declaration | None) -> tuple[Reach, ...]:
    if declaration is None:
        return ()
    return tuple(
        Reach(
            tool.name,
            tool.effect_class,
            tool.destination,
            is_fixture=tool.destination is not None and declaration.destinations[tool.destination].fixture,
        )
        for tool in declaration.tools.values()
    )


def _of_ancestor(run: Run, fork: ForkPoint, found: Sequence[Link]) -> ClassFacts:
    """What was done on an ancestor; what it can do is what the branch can do, and stands there."""
    newest = {
        each.subject: each for each in found if each.run_id == run.pk and each.kind == "effect_reconciled"
    }
    settled = tuple(
        Settled(str(key), each.body["status"], each.body["decision"] is not None)
        for key, each in newest.items()
    )
    return ClassFacts(True, (), settled, _changed(run, found), tuple(fork.kinds), False)


def _changed(run: Run, found: Sequence[Link]) -> tuple[str, ...]:
    of_run = (each for each in found if each.run_id == run.pk and each.kind == "configuration_changed")
    return tuple(sorted({str(each.body["key"]) for each in of_run}))
