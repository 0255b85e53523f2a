"""Takes one approver's decision on the digest they were shown."""

import json

from django.db import transaction

from branches.commands.announce import announce_decision, announce_end
from branches.commands.append_receipt import Actor, append_receipt, lock_families
from branches.commands.guards import require_role
from branches.commands.refusal import Refused
from branches.commands.supersede_requests import end_request
from branches.evidence import ids
from branches.models import ApprovalRequest, Decision, Grant, Person, Revocation, Role, Run
from branches.queries.authority import barred_people, may_decide
from branches.queries.branch_facts import BranchView, branch_view
from branches.queries.clock import now
from branches.queries.subject import differences, subject_digest, subject_of
from branches.rules.branch_facts import Decision as Word
from branches.rules.change_class import ChangeClass

APPROVE_REASONS = ("reviewed_delta", "effects_settled", "fix_is_safe", "accepted_risk")
REJECT_REASONS = ("too_risky", "effects_unclear", "wrong_fix", "needs_other_owner", "not_now")


def decide(*, person: Person, request: ApprovalRequest, word: str, reason: str, digest: str) -> Decision:
    """Record a vote; raises Refused, with the difference where the digest shown is no longer the branch's."""
    # Said first, because no role changes it.
    if barred_people(request.branch, request).get(person.pk) is not None:
        _bar_own_work(person, branch_view(request.branch), request)
    if word not in ("approved", "rejected"):
        raise Refused(rule="enum", field="decision")
    if reason not in (APPROVE_REASONS if word == "approved" else REJECT_REASONS):
        raise Refused(rule="enum", field="reason")
    with transaction.atomic():
        lock_families([request.branch.family_id])
        view = branch_view(request.branch)
        by_requester = _check(person, view, request, digest)
        append_receipt(
            run=request.branch,
            kind="decided",
            body={
                "request": request.uid,
                "decision": ids.mint("dec"),
                "verdict": word,
                "subject_digest": request.subject_digest,
                "policy": view.asked.policy.digest,
                "by_requester": by_requester,
            },
            actor=Actor.person(person),
            subject=request.uid,
        )
        vote = Decision.objects.create(
            request=request,
            approver=person,
            word=word,
            reason=reason,
            subject_digest=request.subject_digest,
            by_requester=by_requester,
            at=now(),
        )
        after = branch_view(request.branch)
        if word == "approved" and after.authority.quorum.granted:
            Grant.objects.get_or_create(request=request, defaults={"at": vote.at})
            after = branch_view(request.branch)
        announce_decision(request=request, view=after)
    return vote


def _bar_own_work(person: Person, view: BranchView, request: ApprovalRequest) -> bool:
    """Refuse whoever worked on the branch; return whether a dated policy lets the only person here do so."""
    barred = barred_people(view.branch, request).get(person.pk)
    if barred is None:
        return False
    if view.asked.allows_self_approval:
        return True
    raise Refused(rule=f"own_work:{barred}")


def _check(person: Person, view: BranchView, request: ApprovalRequest, digest: str) -> bool:
    """Refuse what may not be decided, or not by this person; return whether they decide their own work."""
    if view.redemption is not None:
        raise Refused(rule="sealed")
    by_requester = _bar_own_work(person, view, request)
    if not may_decide(view.asked, person.uid, ChangeClass(request.change_class), by_requester):
        raise Refused(rule=f"role:{Role.APPROVER}")
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
    if any(vote.approver_id == person.pk for vote in view.authority.decisions):
        raise Refused(rule="already_decided")
    if not view.authority.is_open:
        rule = (
            "already_decided" if view.authority.word in (Word.APPROVED, Word.REJECTED) else "request_expired"
        )
        raise Refused(rule=rule)
    return by_requester


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
            _revoke_unasked(person, branch, reason)
            return
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
        announce_end(request=request, word="revoked")


def _revoke_unasked(person: Person, branch: Run, reason: str) -> None:
    """Stop a branch that needed nobody's word: what was pre-authorised can be taken back as well."""
    append_receipt(
        run=branch,
        kind="refused",
        body={"action": "resume", "rule": "revoked", "subject": branch.uid},
        actor=Actor.person(person),
        subject=branch.uid,
    )
    Revocation.objects.create(branch=branch, person=person, reason=reason, at=now())
