"""Issues the one-time, signed permit with which a recorder may start a branch."""

import json
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import transaction

from branches.commands.append_receipt import Actor, append_receipt
from branches.commands.guards import open_branch, require_role
from branches.commands.refusal import Refused
from branches.evidence import ids
from branches.evidence.signing import envelope_bytes, sign_permit
from branches.models import Person, ResumePermit, Role, Run
from branches.queries.branch_facts import BranchView, branch_view
from branches.queries.chains import latest
from branches.queries.clock import stamp
from branches.queries.secrets import signer
from branches.queries.state_evidence import KeyEvidence
from branches.queries.subject import differences, subject_digest, subject_of
from branches.rules.branch_facts import EffectStatus, Restore
from branches.rules.verdicts import BranchStatus


def issue_permit(*, person: Person, branch: Run, digest: str | None = None) -> ResumePermit:
    """Return the permit; only a branch that is ready gets one, and one at a time.

    `digest` is the one the page displayed; another one is refused with the difference.
    """
    require_role(person, branch, Role.ENGINEER)
    with transaction.atomic():
        open_branch(branch)
        view = branch_view(branch)
        _check(view, digest)
        assert branch.recorder is not None  # noqa: S101 - _check has looked
        uid = ids.mint("prm")
        subject = current_subject(view)
        life = timedelta(seconds=settings.BRANCHGATE_PERMIT_S)
        bound_to = subject_digest(subject)
        claims = {
            "permit": uid,
            "branch": branch.uid,
            "audience": branch.recorder.uid,
            "subject_digest": bound_to,
            "issued_at": stamp(view.at),
            "expires_at": stamp(view.at + life),
            "bound": bound_values(view),
        }
        permit = ResumePermit.objects.create(
            uid=uid,
            branch=branch,
            recorder=branch.recorder,
            subject_digest=bound_to,
            approvals_needed=view.asked.people,
            facts=json.dumps(view.facts.as_json(), sort_keys=True),
            envelope=envelope_bytes(sign_permit(claims, signer())).decode(),
            operator=person,
            at=view.at,
            expires_at=view.at + life,
        )
        append_receipt(
            run=branch,
            kind="permit_issued",
            body={
                "permit": uid,
                "recorder": branch.recorder.uid,
                "subject_digest": permit.subject_digest,
                "expires_at": stamp(permit.expires_at),
            },
            actor=Actor.person(person),
            subject=uid,
        )
    return permit


def current_subject(view: BranchView) -> dict[str, Any]:
    """Return what is bound now: under the name of who asked, or of who forked where nobody had to."""
    request = view.authority.request
    return subject_of(view, request.requester if request is not None else view.fork.forker)


def _check(view: BranchView, digest: str | None) -> None:
    if view.verdict.status is not BranchStatus.READY_TO_RESUME:
        raise Refused(rule=f"not_ready:{view.verdict.status}")
    subject = current_subject(view)
    if digest is not None and digest != subject_digest(subject):
        request = view.authority.request
        before = json.loads(request.subject) if request is not None else {}
        raise Refused(rule="digest_changed", field="digest", difference=differences(before, subject))
    if view.branch.recorder is None:
        raise Refused(rule="no_recorder")
    # One for what the branch no longer is cannot be redeemed, and need not be waited for.
    usable = ResumePermit.objects.filter(
        branch=view.branch,
        end__isnull=True,
        expires_at__gt=view.at,
        subject_digest=subject_digest(subject),
    )
    if usable.exists():
        raise Refused(rule="permit_already_issued")


def bound_values(view: BranchView) -> dict[str, Any]:
    """Return what the recorder compares, applies and honours."""
    started = latest(view.fork.parent_id, "run_started")
    root_started = latest(view.family.root.pk, "run_started")
    routing = root_started.body["configuration"] if root_started else None
    newest = {edit.target: edit for edit in view.edits}
    return {
        "parent": view.facts.parent_id,
        "root": view.family.root.uid,
        "checkpoint": view.fork.checkpoint,
        "external_ref": started.body["external_ref"] if started else None,
        "workflow": view.declaration.name if view.declaration else None,
        "workflow_version": view.declaration.version if view.declaration else None,
        "topology": routing["routing"] if routing else None,
        "configuration": view.pin.digest if view.pin else None,
        "configuration_parts": json.loads(view.pin.parts) if view.pin else {},
        "state": {item.key.name: _promised(item) for item in view.keys},
        "edits": [
            {
                "edit": edit.digest,
                "edit_class": edit.edit_class,
                "target": edit.target,
                "state_key": edit.state_key,
            }
            for edit in newest.values()
        ],
        "operations": _operations(view),
    }


def _promised(item: KeyEvidence) -> str | None:
    """Return what the recorder must find: the state at the checkpoint, or the drift that was acknowledged."""
    state = item.state
    if state is not None and state.restore is Restore.DRIFT_ACKNOWLEDGED and item.measured is not None:
        accepted: str | None = item.measured.body["fingerprint"]
        return accepted
    return item.at_checkpoint


def _operations(view: BranchView) -> dict[str, Any]:
    """Return what the branch does with each operation that happened already."""
    found: dict[str, Any] = {}
    for line in view.effects:
        if line.is_unaccounted:
            continue  # it is no call that the branch could make again
        if line.status is EffectStatus.RECONCILED:
            found[line.operation_key] = {"do": "reuse", "payload": line.payload}
        elif line.status is EffectStatus.IRREVERSIBLE and line.decision is not None:
            found[line.operation_key] = {"do": str(line.decision), "payload": line.payload}
    return found
