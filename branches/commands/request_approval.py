"""Asks for authority over exactly what a branch is now; and takes the request back."""

import json

from django.db import transaction

from branches.commands.announce import announce
from branches.commands.append_receipt import Actor, append_receipt
from branches.commands.guards import open_branch, require_role
from branches.commands.refusal import Refused
from branches.commands.supersede_requests import end_request
from branches.evidence import ids
from branches.models import ApprovalRequest, Decision, Person, Role, Run
from branches.queries.authority import UNDELIVERED
from branches.queries.branch_facts import BranchView, branch_view
from branches.queries.clock import stamp
from branches.queries.subject import subject_digest, subject_of
from branches.rules.branch_facts import Decision as Word
from branches.rules.verdicts import GateName


def request_approval(*, person: Person, branch: Run) -> ApprovalRequest:
    """Return the new request, bound to one digest; possible when gates 1, 2, 3 and 5 pass."""
    require_role(person, branch, Role.ENGINEER)
    with transaction.atomic():
        open_branch(branch)
        view = branch_view(branch)
        _check(view)
        subject = subject_of(view, person)
        digest = subject_digest(subject)
        asked = view.asked.of_class
        expires_at = view.at + asked.request_lives + UNDELIVERED
        uid = ids.mint("req")
        append_receipt(
            run=branch,
            kind="approval_requested",
            body={
                "request": uid,
                "subject_digest": digest,
                "class": str(view.change_class),
                "policy": view.asked.policy.digest,
                "approvals": view.asked.people,
                "expires_at": stamp(expires_at),
            },
            actor=Actor.person(person),
            subject=uid,
        )
        request = ApprovalRequest.objects.create(
            uid=uid,
            branch=branch,
            subject_digest=digest,
            subject=json.dumps(subject, sort_keys=True),
            change_class=str(view.change_class),
            policy=view.asked.policy.digest,
            requester=person,
            at=view.at,
            lives_s=int(asked.request_lives.total_seconds()),
            expires_at=expires_at,
        )
        announce(request=request, view=view)
    return request


def _check(view: BranchView) -> None:
    shut = [gate.gate for gate in view.verdict.gates if not gate.passed]
    before = [gate for gate in shut if gate not in (GateName.AUTHORITY, GateName.OUTCOME)]
    if before:
        raise Refused(rule=f"gate_shut:{before[0]}")
    word = view.authority.word
    if word is Word.REVOKED:
        raise Refused(rule="revoked")
    if word is Word.APPROVED:
        raise Refused(rule="already_approved")
    if view.asked.of_class.is_closed:
        raise Refused(rule=f"class_closed:{view.change_class}")
    if not view.asked.is_required:
        raise Refused(rule="nobody_has_to_approve")
    if view.authority.is_open:
        raise Refused(rule="already_requested")
    # A veto is on what was shown, however many requests for something else came in between.
    vetoes = Decision.objects.filter(request__branch=view.branch, word="rejected")
    for veto in vetoes.select_related("request__requester"):
        if subject_digest(subject_of(view, veto.request.requester)) == veto.subject_digest:
            raise Refused(rule="rejected_as_it_is")


def withdraw_request(*, person: Person, request: ApprovalRequest) -> None:
    """Take an open request back."""
    require_role(person, request.branch, Role.ENGINEER)
    with transaction.atomic():
        open_branch(request.branch)
        current = branch_view(request.branch).authority
        if current.request is None or current.request.pk != request.pk or not current.is_open:
            raise Refused(rule="not_open")
        end_request(request=request, word="withdrawn", actor=Actor.person(person))
