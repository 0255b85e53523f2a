"""Redeems a permit once, under the lock that every edit of the branch takes; redemption seals the branch."""

import json
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.db import transaction

from branches.commands.announce import announce_redemption
from branches.commands.append_receipt import Actor, append_receipt, lock_families
from branches.commands.ask_again import Fresh, ask_again
from branches.commands.check_outcome import ask_baseline
from branches.commands.issue_permit import current_subject
from branches.commands.refusal import Refused
from branches.commands.supersede_requests import supersede_requests
from branches.evidence import canonical
from branches.evidence.ids import is_id
from branches.models import Lease, PermitEnd, Recorder, Redemption, ResumePermit, Run
from branches.ports import Baseline
from branches.queries.authority import is_engineer
from branches.queries.branch_facts import BranchView, branch_view
from branches.queries.clock import now
from branches.queries.declarations import declaration_of
from branches.queries.subject import subject_digest
from branches.rules.verdicts import BranchStatus


@dataclass(frozen=True, slots=True)
class Redeemed:
    """What the recorder hears; asking again with the same attempt gives the same."""

    branch: str
    attempt: str
    redeemed_at: str
    lease_s: int


def redeem_permit(*, recorder: Recorder, permit: ResumePermit, attempt: str) -> Redeemed:
    """Redeem in one transaction; digest, roles, gates and effects are looked at again under the lock.

    Before it every destination is asked once more, and for its baseline; for a permit that is over nobody is.
    """
    if not is_id(attempt, "att"):
        raise Refused(rule="pattern:id", field="attempt")
    _check_audience(recorder, permit)
    done = Redemption.objects.filter(branch=permit.branch).first()
    if done is not None:
        return _same_or_refuse(done, permit, attempt)
    _check_term(permit, now())
    fresh = ask_again(branch=permit.branch)
    if fresh.has_changed:
        # It stays known, whatever becomes of the permit.
        _record_change(permit.branch, fresh)
        fresh = Fresh()
    baseline = _baseline(permit.branch)
    with transaction.atomic():
        lock_families([permit.branch.family_id])
        done = Redemption.objects.filter(branch=permit.branch).first()
        if done is not None:
            return _same_or_refuse(done, permit, attempt)
        fresh.record(permit.branch)
        view = branch_view(permit.branch)
        _check(view, permit)
        return _redeem(view, permit, attempt, baseline)


def _record_change(branch: Run, fresh: Fresh) -> None:
    with transaction.atomic():
        lock_families([branch.family_id])
        if not Redemption.objects.filter(branch=branch).exists():
            fresh.record(branch)


def _check_audience(recorder: Recorder, permit: ResumePermit) -> None:
    if permit.recorder_id != recorder.pk:
        raise Refused(rule="wrong_recorder")


def _same_or_refuse(done: Redemption, permit: ResumePermit, attempt: str) -> Redeemed:
    if done.permit_id != permit.pk or done.attempt != attempt:
        raise Refused(rule="already_redeemed")
    return _answer(done)


def _answer(done: Redemption) -> Redeemed:
    return Redeemed(done.branch.uid, done.attempt, done.at.isoformat(), settings.BRANCHGATE_LEASE_S)


def _check_term(permit: ResumePermit, at: datetime) -> None:
    if PermitEnd.objects.filter(permit=permit).exists():
        raise Refused(rule="permit_ended")
    if at >= permit.expires_at:
        raise Refused(rule="expired")


def _check(view: BranchView, permit: ResumePermit) -> None:
    _check_term(permit, view.at)
    if view.verdict.status is not BranchStatus.READY_TO_RESUME:
        raise Refused(rule=f"not_ready:{view.verdict.status}")
    if subject_digest(current_subject(view)) != permit.subject_digest:
        raise Refused(rule="subject_changed")
    if not is_engineer(permit.operator, view.branch.workspace):
        raise Refused(rule="operator_not_authorised")


def _baseline(branch: Run) -> Baseline:
    """Ask what the destination holds before this branch starts, so that older artifacts verify nothing."""
    declaration = declaration_of(branch)
    if declaration is None:
        return Baseline(None, reachable=False, problem="undeclared")
    return ask_baseline(branch, declaration.outcome)


def _redeem(view: BranchView, permit: ResumePermit, attempt: str, baseline: Baseline) -> Redeemed:
    branch = view.branch
    if not baseline.reachable:
        # Without a baseline nothing that is found later could be told from what was there before.
        raise Refused(rule="baseline_unreachable")
    actor = Actor("recorder", permit.recorder.uid)
    facts = view.facts.as_json()
    assert view.declaration is not None  # noqa: S101 - a reachable baseline needs one
    append_receipt(
        run=branch,
        kind="baseline_taken",
        body={
            "expected": view.declaration.outcome.expected,
            "destination": None,
            "reachable": True,
            "destination_version": baseline.version,
        },
        actor=Actor.product(branch.workspace),
        subject=view.declaration.outcome.expected,
    )
    append_receipt(
        run=branch,
        kind="permit_redeemed",
        body={
            "permit": permit.uid,
            "attempt": attempt,
            "recorder": permit.recorder.uid,
            "subject_digest": permit.subject_digest,
        },
        actor=actor,
        subject=permit.uid,
    )
    append_receipt(
        run=branch,
        kind="sealed",
        body={
            "permit": permit.uid,
            "subject_digest": permit.subject_digest,
            "facts": canonical.digest(canonical.FACTS, facts),
        },
        actor=Actor.product(branch.workspace),
        subject=permit.uid,
    )
    done = Redemption.objects.create(
        permit=permit,
        branch=branch,
        attempt=attempt,
        sealed_facts=json.dumps(facts, sort_keys=True),
        baseline=baseline.version,
        at=now(),
    )
    Lease.objects.update_or_create(branch=branch, defaults={"attempt": attempt, "renewed_at": done.at})
    announce_redemption(branch=branch, permit=permit.uid)
    # A branch that runs is one whose effects its siblings do not know yet.
    supersede_requests(root_ids=[branch.family_id])
    return _answer(done)


def decline_permit(*, recorder: Recorder, permit: ResumePermit, rule: str) -> None:
    """Record that the recorder found something other than what was pinned and will not start."""
    _check_audience(recorder, permit)
    with transaction.atomic():
        lock_families([permit.branch.family_id])
        if hasattr(permit, "redemption") or PermitEnd.objects.filter(permit=permit).exists():
            return
        append_receipt(
            run=permit.branch,
            kind="refused",
            body={"action": "resume", "rule": rule, "subject": permit.uid},
            actor=Actor("recorder", recorder.uid),
            subject=permit.uid,
        )
        PermitEnd.objects.create(permit=permit, word="declined", rule=rule, at=now())
