"""Forks a branch from a checkpoint: a new chain that names one link of its parent's; no copy is made."""

from collections.abc import Iterable

from django.db import transaction
from django.db.models import Max

from branches.commands.append_receipt import Actor, append_receipt, lock_families
from branches.commands.ask_for_job import ask_for_job
from branches.commands.expected_at_fork import expected_at_fork
from branches.commands.guards import require_role
from branches.commands.pin_configuration import pin_configuration
from branches.commands.refusal import Refused
from branches.commands.write_note import write_note
from branches.evidence import canonical, ids
from branches.evidence.kinds.product import CHANGE_KINDS, REASON_CODES
from branches.models import ForkPoint, JobKind, Person, Receipt, Role, Run
from branches.queries.chains import Link, link
from branches.queries.clock import now
from branches.queries.declarations import ExpectedOutcome, declaration_of
from branches.queries.secrets import workspace_key

EDIT_CLASSES = ("add_detail", "simplify_task", "change_plan", "configuration", "other")


def fork_branch(
    *,
    person: Person,
    parent: Run,
    checkpoint: str,
    reason_code: str,
    edit_class: str,
    hypothesis: str = "",
    outcome: ExpectedOutcome | None = None,
    kinds: Iterable[str] = (),
) -> Run:
    """Return the new branch, pinned to its parent's configuration in the same transaction.

    `hypothesis` is a note of the workspace; its digest alone is in the record. `outcome` takes the place of
    the one the workflow declares, or the parent branch has. `kinds` is what the change touches, as far as
    whoever forks knows: it can only raise the change class. Costs the same wherever the checkpoint lies.
    """
    require_role(person, parent, Role.ENGINEER)
    if reason_code not in REASON_CODES:
        raise Refused(rule="enum", field="reason_code")
    if edit_class not in EDIT_CLASSES:
        raise Refused(rule="enum", field="edit_class")
    touched = sorted(set(kinds))
    if not set(touched) <= set(CHANGE_KINDS):
        raise Refused(rule="enum", field="kinds")
    expected = parent.outcome if outcome is None else expected_at_fork(parent.workspace, outcome)
    with transaction.atomic():
        lock_families([parent.family_id])
        point = _checkpoint(parent, checkpoint)
        branch = _make_branch(parent, expected)
        append_receipt(
            run=branch,
            kind="forked",
            body={
                "parent": parent.uid,
                "checkpoint": checkpoint,
                "seq": point.seq,
                "digest": point.digest,
                "reason_code": reason_code,
                "edit_class": edit_class,
                "hypothesis": write_note(
                    person=person, run=branch, domain=canonical.HYPOTHESIS, text=hypothesis
                ),
                "outcome": _covered(parent, canonical.OUTCOME, expected or ""),
                "kinds": touched,
            },
            actor=Actor.person(person),
            subject=checkpoint,
        )
        ForkPoint.objects.create(
            branch=branch,
            parent=parent,
            checkpoint=checkpoint,
            seq=point.seq,
            digest=point.digest,
            edit_class=edit_class,
            kinds=touched,
            forker=person,
            at=now(),
        )
        pin_configuration(branch=branch, actor=Actor.person(person))
        _probe_what_was_captured(branch, point, person)
    return branch


def _probe_what_was_captured(branch: Run, point: Link, person: Person) -> None:
    """Ask for a measurement of every key the checkpoint holds; the others wait for a person's word."""
    declaration = declaration_of(branch)
    for key in declaration.state_keys if declaration else ():
        if key in point.body["state"]:
            ask_for_job(
                workspace=branch.workspace,
                kind=JobKind.PROBE_STATE,
                run=branch,
                subject=key,
                asked_by=person.uid,
            )


def _checkpoint(parent: Run, checkpoint: str) -> Link:
    row = Receipt.objects.filter(run=parent, kind="checkpoint", subject=checkpoint).order_by("-seq").first()
    if row is None:
        raise Refused(rule="checkpoint_not_in_parent", field="checkpoint")
    point = link(row)
    if not point.body["consistent"]:
        raise Refused(rule="checkpoint_inconsistent", field="checkpoint")
    return point


def _make_branch(parent: Run, expected: str | None) -> Run:
    root_id = parent.family_id
    last = Run.objects.filter(root_id=root_id).aggregate(Max("number"))["number__max"] or 0
    return Run.objects.create(
        uid=ids.mint("br"),
        workspace=parent.workspace,
        workflow=parent.workflow,
        recorder=parent.recorder,
        root_id=root_id,
        parent=parent,
        number=last + 1,
        made_at=now(),
        outcome=expected,
    )


def _covered(parent: Run, domain: str, text: str) -> str | None:
    return workspace_key(parent.workspace).digest(domain, text) if text else None
