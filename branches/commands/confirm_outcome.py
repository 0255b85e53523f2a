"""Takes a named person's word on an outcome that no code can check, where the workflow declares just that."""

from typing import Final

from django.db import transaction

from branches.commands.append_receipt import lock_families
from branches.commands.check_outcome import record_check
from branches.commands.guards import require_role
from branches.commands.refusal import Refused
from branches.evidence.kinds.product import PERSON_VERIFIER
from branches.models import Person, Role, Run
from branches.ports import Check, OutcomeCheck
from branches.queries.authority import barred_people
from branches.queries.branch_facts import branch_view
from branches.queries.declarations import declaration_of
from branches.rules.branch_facts import Resume

_CHECKS: Final = {"passed": Check.PASSED, "failed": Check.FAILED}


def confirm_outcome(*, person: Person, branch: Run, check: str) -> None:
    """Record that a reviewer looked for the outcome and found it, or did not. Raises Refused.

    Nobody confirms their own work: whoever forked, changed, settled, asked for or resumed it is barred.
    """
    require_role(person, branch, Role.REVIEWER)
    if check not in _CHECKS:
        raise Refused(rule="enum", field="check")
    declaration = declaration_of(branch)
    if declaration is None or declaration.outcome.verifier != PERSON_VERIFIER:
        raise Refused(rule="ask_the_verifier", field="check")
    with transaction.atomic():
        lock_families([branch.family_id])
        view = branch_view(branch)
        if view.facts.resume is not Resume.STARTED:
            raise Refused(rule="outcome_before_resume")
        barred = barred_people(branch, view.authority.request)
        if view.redemption is not None:
            barred.setdefault(view.redemption.permit.operator_id, "resumed")
        if person.pk in barred:
            raise Refused(rule=f"own_work:{barred[person.pk]}")
        found = OutcomeCheck(_CHECKS[check], fresh=_CHECKS[check] is Check.PASSED)
        record_check(run=branch, declaration=declaration, answer=found, by=person)
