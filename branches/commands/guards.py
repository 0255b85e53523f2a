"""What several commands ask before they write: the role, the lock, and that the branch is not sealed."""

from collections.abc import Callable

from branches.commands.append_receipt import lock_families
from branches.commands.refusal import Refused
from branches.models import Person, Redemption, Role, Run
from branches.queries.authority import roles_of
from branches.queries.branch_facts import branch_view, late_effects
from branches.queries.clock import now
from branches.queries.ledger import EffectLine, effect_line

type Wanted = Callable[[], bool]
"""Asked under the lock before an answer is recorded: whether somebody still wants it."""


def always() -> bool:
    """Whoever calls a command themselves wants its answer."""
    return True


def require_shown(shown: str, now: str) -> None:
    """Refuse a word that was given on something else than what is there now."""
    if shown != now:
        raise Refused(rule="changed_since_shown", field="shown")


def require_role(person: Person, run: Run, role: Role) -> None:
    """Refuse a person who does not hold the role in the run's workspace now."""
    if role not in roles_of(person, run.workspace):
        raise Refused(rule=f"role:{role}")


def open_effect(branch: Run, operation_key: str) -> EffectLine | None:
    """Lock the branch's family and return one of its effects, or None where there is no such effect.

    A sealed branch is open for its late effects alone. Raises Refused.
    """
    if branch.parent_id is None:
        raise Refused(rule="not_a_branch")
    lock_families([branch.family_id])
    is_sealed = Redemption.objects.filter(branch=branch).exists()
    if is_sealed and operation_key not in late_effects(branch_view(branch)):
        raise Refused(rule="sealed")
    return effect_line(branch, operation_key, now())


def open_branch(branch: Run) -> None:
    """Lock the branch's family and refuse a sealed branch: a changed mind is a sibling."""
    if branch.parent_id is None:
        raise Refused(rule="not_a_branch")
    lock_families([branch.family_id])
    if Redemption.objects.filter(branch=branch).exists():
        raise Refused(rule="sealed")
