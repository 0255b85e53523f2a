"""Accepts what a destination's answer supports, or proposes skip or repeat of what cannot be undone."""

from collections.abc import Mapping
from typing import Final

from django.db import transaction

from branches.commands.append_receipt import Actor, append_receipt
from branches.commands.guards import open_branch, open_effect, require_role, require_shown
from branches.commands.refusal import Refused
from branches.commands.supersede_requests import supersede_requests
from branches.evidence.kinds.product import ATTEST_REASONS, JUDGEMENT_REASONS
from branches.models import Person, Receipt, Role, Run
from branches.queries.branch_facts import branch_view
from branches.queries.ledger import EffectLine, needs_judgement, proposal
from branches.rules.branch_facts import EffectStatus


def reconcile_effect(
    *, person: Person, branch: Run, operation_key: str, shown: str, decision: str | None = None
) -> EffectStatus:
    """Write the status that the answer which was shown supports; an irreversible effect needs a decision."""
    require_role(person, branch, Role.ENGINEER)
    with transaction.atomic():
        line = _open_line(branch, operation_key)
        require_shown(shown, line.shown)
        supported = proposal(line)
        if supported is None:
            raise Refused(rule="no_answer_supports_it", field="operation_key")
        _record(person, branch, operation_key, *supported, decision)
    return supported[0]


# What a person may say of an effect that no answer settles, and what that rests on.
JUDGEMENTS: Final[Mapping[str, tuple[EffectStatus, str, str | None]]] = {
    "mine": (EffectStatus.RECONCILED, "person", None),
    "compensated": (EffectStatus.REVERTED, "compensated", None),
    "skip": (EffectStatus.IRREVERSIBLE, "person", "skip"),
    "repeat": (EffectStatus.IRREVERSIBLE, "person", "repeat"),
}


# Nothing of what no receipt accounts for can be skipped or repeated: the branch would never call it.
OF_UNACCOUNTED: Final = frozenset({"mine", "compensated"})


def judge_effect(
    *, person: Person, branch: Run, operation_key: str, shown: str, judgement: str, reason: str
) -> EffectStatus:
    """Take a named person's word on an effect that its destination cannot settle.

    Possible where the destination says that something else is there, or where nobody can be asked; silence
    is neither. The page and every export say that it is a judgement.
    """
    require_role(person, branch, Role.ENGINEER)
    if judgement not in JUDGEMENTS:
        raise Refused(rule="enum", field="judgement")
    if reason not in JUDGEMENT_REASONS:
        raise Refused(rule="enum", field="reason")
    with transaction.atomic():
        line = _open_line(branch, operation_key)
        require_shown(shown, line.shown)
        if not needs_judgement(line):
            raise Refused(rule="ask_the_destination", field="operation_key")
        if line.is_unaccounted and judgement not in OF_UNACCOUNTED:
            raise Refused(rule="not_of_unaccounted", field="judgement")
        status, basis, decision = JUDGEMENTS[judgement]
        _record(person, branch, operation_key, status, basis, decision, reason)
    return status


def _open_line(branch: Run, operation_key: str) -> EffectLine:
    line = open_effect(branch, operation_key)
    if line is None:
        raise Refused(rule="unknown", field="operation_key")
    return line


def _record(
    person: Person,
    branch: Run,
    operation_key: str,
    status: EffectStatus,
    basis: str,
    decision: str | None,
    reason: str | None = None,
) -> None:
    if decision not in (None, "skip", "repeat"):
        raise Refused(rule="enum", field="decision")
    if (status is EffectStatus.IRREVERSIBLE) != (decision is not None):
        rule = "required_if_irreversible" if decision is None else "only_if_irreversible"
        raise Refused(rule=rule, field="decision")
    append_receipt(
        run=branch,
        kind="effect_reconciled",
        body={
            "operation_key": operation_key,
            "status": str(status),
            "decision": decision,
            "basis": basis,
            "reason": reason,
            "policy": None,
        },
        actor=Actor.person(person),
        subject=operation_key,
    )
    supersede_requests(root_ids=[branch.family_id])


def attest_ledger(*, person: Person, branch: Run, run: Run, through: int, reason: str) -> None:
    """Let a named person vouch that what a run did after the checkpoint was recorded, and say why.

    `through` is the run's last receipt that they were shown: what came after it nobody vouched for.
    """
    require_role(person, branch, Role.ENGINEER)
    if reason not in ATTEST_REASONS:
        raise Refused(rule="enum", field="reason")
    with transaction.atomic():
        open_branch(branch)
        view = branch_view(branch)
        if run.pk not in view.family.after(branch):
            raise Refused(rule="not_after_checkpoint", field="run")
        shown = Receipt.objects.filter(run=run, seq=through).first()
        if shown is None:
            raise Refused(rule="unknown", field="through")
        append_receipt(
            run=branch,
            kind="ledger_attested",
            body={"run": run.uid, "through_seq": through, "digest": shown.digest, "reason": reason},
            actor=Actor.person(person),
            subject=run.uid,
        )
        supersede_requests(root_ids=[branch.family_id])
