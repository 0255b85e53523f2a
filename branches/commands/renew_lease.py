"""Renews the one lease of a running branch before each step, or says why it must stop."""

from datetime import timedelta

from django.conf import settings
from django.db import transaction

from branches.commands.append_receipt import Actor, append_receipt, lock_families
from branches.models import Lease, Recorder, Redemption, Revocation, Run
from branches.queries.branch_facts import branch_view, stopping_effects
from branches.queries.chains import latest
from branches.queries.clock import now


def renew_lease(*, recorder: Recorder, branch: Run, attempt: str) -> str | None:
    """Return None to go on, or the rule that stops the branch at this step."""
    with transaction.atomic():
        lock_families([branch.family_id])
        done = Redemption.objects.filter(branch=branch).select_related("permit").first()
        if done is None or done.attempt != attempt or done.permit.recorder_id != recorder.pk:
            return "not_redeemed"
        if Revocation.objects.filter(branch=branch).exists():
            return "revoked"
        lease, _ = Lease.objects.get_or_create(
            branch=branch, defaults={"attempt": attempt, "renewed_at": now()}
        )
        if now() - lease.renewed_at > timedelta(seconds=settings.BRANCHGATE_LEASE_S * 10):
            if latest(branch.pk, "lease_lost", attempt) is None:
                append_receipt(
                    run=branch,
                    kind="lease_lost",
                    body={"attempt": attempt},
                    actor=Actor.product(branch.workspace),
                    subject=attempt,
                )
            return "lease_lost"
        if stopping_effects(branch_view(branch)):
            return "effects_reopened"
        lease.renewed_at = now()
        lease.save(update_fields=["renewed_at"])
    return None
