"""Writes a reviewer's conclusion over sibling branches: which one is preferred, and what was learnt."""

from collections.abc import Iterable

from django.db import transaction

from branches.commands.append_receipt import Actor, append_receipt, lock_families
from branches.commands.guards import require_role
from branches.commands.refusal import Refused
from branches.commands.write_note import write_note
from branches.evidence import canonical
from branches.evidence.kinds.product import LESSONS
from branches.models import Person, Receipt, Role, Run
from branches.queries.branch_facts import branch_view
from branches.queries.chains import latest, link
from branches.queries.family import family_of
from branches.rules.verdicts import BranchStatus

CONCLUSIONS = ("supported", "refuted", "inconclusive")


def conclude(
    *,
    person: Person,
    root: Run,
    conclusion: str,
    chosen: Run | None,
    learnt: Iterable[str] = (),
    note: str = "",
    closes: bool = True,
) -> None:
    """Append the conclusion to the root's chain; it answers the chosen branch's hypothesis.

    `learnt` is of a closed list, `note` for the people of the workspace; `closes` ends the incident.

    A branch can be preferred whatever it came to, but *supported* needs one that its destination verified.
    """
    require_role(person, root, Role.REVIEWER)
    if conclusion not in CONCLUSIONS:
        raise Refused(rule="enum", field="conclusion")
    lessons = sorted(set(learnt))
    if not set(lessons) <= set(LESSONS):
        raise Refused(rule="enum", field="learnt")
    with transaction.atomic():
        lock_families([root.family_id])
        family = family_of(root)
        if chosen is not None and chosen.pk not in {branch.pk for branch in family.branches}:
            raise Refused(rule="not_a_sibling", field="chosen")
        if conclusion == "supported":
            if chosen is None:
                raise Refused(rule="required_if_supported", field="chosen")
            if branch_view(chosen, family=family).verdict.status is not BranchStatus.VERIFIED:
                raise Refused(rule="not_verified_at_destination", field="chosen")
        append_receipt(
            run=root,
            kind="concluded",
            body={
                "conclusion": conclusion,
                "hypothesis": _hypothesis(chosen),
                "siblings": [branch.uid for branch in family.branches[:32]],
                "chosen": chosen.uid if chosen is not None else None,
                "learnt": lessons,
                "note": write_note(person=person, run=root, domain=canonical.NOTE, text=note),
                "closes": closes,
            },
            actor=Actor.person(person),
            subject=chosen.uid if chosen is not None else None,
        )


def _hypothesis(chosen: Run | None) -> str | None:
    if chosen is None:
        return None
    row = Receipt.objects.filter(run=chosen, seq=1).first()
    forked = link(row) if row else latest(chosen.pk, "forked")
    return forked.body["hypothesis"] if forked else None
