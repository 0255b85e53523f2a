"""Accepts what a destination's answer supports where the workflow's dated policy says nobody need look."""

from django.db.models import Q

from branches.commands.append_receipt import Actor, append_receipt
from branches.models import Redemption, Run
from branches.queries.chains import links
from branches.queries.clock import now
from branches.queries.declarations import DestinationRule
from branches.queries.ledger import EffectLine, effect_line, proposal
from branches.rules.branch_facts import EffectStatus


def accept_by_policy(*, branch: Run, operation_key: str, rule: DestinationRule, policy: str) -> bool:
    """Record the proposed status in the name of the policy; returns whether it did.

    Only what is known to be reversible is the policy's, of one payload, and on which nobody has spoken: a
    person's word is answered by a person, also where a later answer overtook it. After a redemption a late
    effect is always a person's. The caller holds the family's lock.
    """
    at = now()
    line = effect_line(branch, operation_key, at)
    if rule.acceptance is None or line is None or line.asked is None or not _is_the_policys(branch, line):
        return False
    supported = proposal(line)
    if supported is None or not rule.acceptance.covers(line.asked.body["answer"], at):
        return False
    status, basis = supported
    append_receipt(
        run=branch,
        kind="effect_reconciled",
        body={
            "operation_key": operation_key,
            "status": str(status),
            "decision": None,
            "basis": basis,
            "reason": None,
            "policy": policy,
        },
        actor=Actor.product(branch.workspace),
        subject=operation_key,
    )
    return True


def _is_the_policys(branch: Run, line: EffectLine) -> bool:
    if line.status is not EffectStatus.PENDING or line.effect_class != "reversible" or line.payload_differs:
        return False
    if Redemption.objects.filter(branch=branch).exists():
        return False
    spoken = links([branch.pk], ("effect_reconciled",), where=Q(subject=line.operation_key))
    return all(each.body["policy"] is not None for each in spoken)
