"""Takes one approver's decision on the digest they were shown."""

import json

from django.db import transaction

from branches.commands.append_receipt import Actor, append_receipt, lock_families
from branches.commands.guards import require_role
from branches.commands.refusal import Refused
from branches.commands.supersede_requests import end_request
from branches.evidence import ids
from branches.models import ApprovalRequest, Decision, Person, Redemption, Revocation, Role, Run
from branches.queries.authority import POLICY_DIGEST, barred_people
from branches.queries.branch_facts import branch_view
from branches.queries.clock import now
from branches.queries.subject import differences, subject_digest, subject_of

APPROVE_REASONS = ("reviewed_delta", "effects_settled", "fix_is_safe", "accepted_risk")
REJECT_REASONS = ("too_risky", "effects_unclear", "wrong_fix", "needs_other_owner", "not_now")


def decide(*, person: Person, request: ApprovalRequest, word: str, reason: str, digest: str) -> Decision:
    """Record a vote; raises Refused, with the difference where the digest shown is no longer the branch's."""
    # Said first, because no role changes it.
    if (barred := barred_people(request.branch, request).get(person.pk)) is not None:
        raise Refused(rule=f"own_work:{barred}")
    require_role(person, request.branch, Role.APPROVER)
    if word not in ("approved", "rejected"):
        raise Refused(rule="enum", field="decision")
    if reason not in (APPROVE_REASONS if word == "approved" else REJECT_REASONS):
        raise Refused(rule="enum", field="reason")
    with transaction.atomic():
        lock_families([request.branch.family_id])
        _check(person, request, digest)
        append_receipt(
            run=request.branch,
            kind="decided",
            body={
                "request": request.uid,
                "decision": ids.mint("dec"),
                "verdict": word,
                "subject_digest": request.subject_digest,
                "policy": POLICY_DIGEST,
            },
            actor=Actor.person(person),
            subject=request.uid,
        )
        return Decision.objects.create(
            request=request,
            approver=person,
            word=word,
            reason=reason,
            subject_digest=request.subject_digest,
            at=now(),
        )


def _check(person: Person, request: ApprovalRequest, digest: str) -> None:
    branch = request.branch
    if Redemption.objects.filter(branch=branch).exists():
        raise Refused(rule="sealed")
    if (barred := barred_people(branch, request).get(person.pk)) is not None:
        raise Refused(rule=f"own_work:{barred}")
    view = branch_view(branch)
    subject = subject_of(view, request.requester)
    if digest != subject_digest(subject) or digest != request.subject_digest:
        raise Refused(
            rule="digest_changed",
            field="digest",
            difference=differences(json.loads(request.subject), subject),
        )
    if view.authority.request is None or view.authority.request.pk != request.pk:
        raise Refused(rule="newer_request")
    if view.authority.ended is not None:
        raise Refused(rule=f"request_{view.authority.ended}")
    if view.authority.decisions:
        raise Refused(rule="already_decided")
    if view.at > request.expires_at:
        raise Refused(rule="request_expired")


def revoke_authority(*, person: Person, branch: Run, reason: str) -> None:
    """Take authority back for good; a running branch stops at its next step."""
    require_role(person, branch, Role.APPROVER)
    if reason not in REJECT_REASONS:
        raise Refused(rule="enum", field="reason")
    with transaction.atomic():
        lock_families([branch.family_id])
        if Revocation.objects.filter(branch=branch).exists():
            raise Refused(rule="already_revoked")
        view = branch_view(branch)
        request = view.authority.request
        if request is None:
            raise Refused(rule="nothing_to_revoke")
        if view.authority.ended is None:
            end_request(request=request, word="revoked", actor=Actor.person(person))
        else:
            # The request had its one end already; that the branch may not go on is recorded all the same.
            append_receipt(
                run=branch,
                kind="request_ended",
                body={"request": request.uid, "end": "revoked"},
                actor=Actor.person(person),
                subject=request.uid,
            )
        Revocation.objects.create(branch=branch, person=person, reason=reason, at=now())
