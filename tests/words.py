"""What people say on a branch, each time about just what a page would show them at that moment."""

from branches.commands.acknowledge_drift import acknowledge_drift
from branches.commands.reconcile_effect import attest_ledger, judge_effect, reconcile_effect
from branches.models import Person, Run
from branches.queries.branch_facts import branch_view
from branches.queries.chains import head
from branches.queries.clock import now
from branches.queries.ledger import effect_line


def shown_effect(branch: Run, operation_key: str) -> str:
    """Return what binds a word to an effect as it is shown now; an unknown one is shown as nothing."""
    line = effect_line(branch, operation_key, now())
    return "" if line is None else line.shown


def shown_key(branch: Run, key: str) -> str:
    """Return what binds a word to a state key as it is shown now."""
    return next(each.shown for each in branch_view(branch).keys if each.key.name == key)


def reconcile(*, person: Person, branch: Run, operation_key: str, decision: str | None = None) -> None:
    shown = shown_effect(branch, operation_key)
    reconcile_effect(
        person=person, branch=branch, operation_key=operation_key, shown=shown, decision=decision
    )


def judge(*, person: Person, branch: Run, operation_key: str, judgement: str, reason: str) -> None:
    judge_effect(
        person=person,
        branch=branch,
        operation_key=operation_key,
        shown=shown_effect(branch, operation_key),
        judgement=judgement,
        reason=reason,
    )


def attest(*, person: Person, branch: Run, run: Run, reason: str) -> None:
    attest_ledger(person=person, branch=branch, run=run, through=head(run.pk)[0], reason=reason)


def acknowledge(*, person: Person, branch: Run, key: str, reason: str) -> None:
    acknowledge_drift(person=person, branch=branch, key=key, shown=shown_key(branch, key), reason=reason)
