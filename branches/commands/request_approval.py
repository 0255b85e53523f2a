"""Asks for authority over exactly what a branch is now; and takes the request back."""

import json
from datetime import timedelta

from django.db import transaction

from branches.commands.append_receipt import Actor, append_receipt
from branches.commands.guards import open_branch, require_role
from branches.commands.refusal import Refused
from branches.commands.supersede_requests import end_request
from branches.evidence import ids
from branches.models import ApprovalRequest, Decision, Person, Role, Run
from branches.queries.authority import POLICY_DIGEST, approvals_needed
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
        expires_at = view.at + _lives(view)
        uid = ids.mint("req")
        append_receipt(
            run=branch,
            kind="approval_requested",
            body={
                "request": uid,
                "subject_digest": digest,
                "class": str(view.change_class),
                "policy": POLICY_DIGEST,
                "approvals": approvals_needed(view.change_class),
                "expires_at": stamp(expires_at),
            },
            actor=Actor.person(person),
            subject=uid,
        )
        return ApprovalRequest.objects.create(
            uid=uid,
            branch=branch,
            subject_digest=digest,
            subject=json.dumps(subject, sort_keys=True),
            change_class=str(view.change_class),
            requester=person,
            at=view.at,
            expires_at=expires_at,
        )


def _lives(view: BranchView) -> timedelta:
    return view.change_class.request_lives


def _check(view: BranchView) -> None:
    shut = [gate.gate for gate in view.verdict.gates if not gate.passed]
    before = [gate for gate in shut if gate not in (GateName.AUTHORITY, GateName.OUTCOME)]
    if before:
        raise Refused(rule=f"gate_shut:{before[0]}")
    request, word = view.authority.request, view.authority.word
    if word is Word.REVOKED:
        raise Refused(rule="revoked")
    if word is Word.APPROVED:
        raise Refused(rule="already_approved")
    if request is not None and view.authority.ended is None and word is Word.NONE:
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
        if current.request is None or current.request.pk != request.pk or current.word is not Word.NONE:
            raise Refused(rule="not_open")
        if current.ended is not None:
            raise Refused(rule="not_open")
        end_request(request=request, word="withdrawn", actor=Actor.person(person))
