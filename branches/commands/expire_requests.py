"""Ends approval requests that nobody decided in time: a timeout never approves."""

from django.db import transaction

from branches.commands.append_receipt import Actor, lock_families
from branches.commands.supersede_requests import end_request
from branches.models import ApprovalRequest
from branches.queries.authority import request_ends
from branches.queries.clock import now


def expire_requests() -> list[str]:
    """End every open, undecided request whose time is over, and return their ids."""
    at = now()
    undecided = ApprovalRequest.objects.filter(
        end__isnull=True, grant__isnull=True, branch__redemption__isnull=True
    ).exclude(decisions__word="rejected")
    due = [
        row.uid for row in undecided.select_related("delivery").order_by("id")[:500] if request_ends(row) < at
    ]
    return [uid for uid in due if _expire(uid)]


def _expire(uid: str) -> bool:
    request = ApprovalRequest.objects.select_related("branch__workspace").get(uid=uid)
    with transaction.atomic():
        lock_families([request.branch.family_id])
        still_open = ApprovalRequest.objects.filter(pk=request.pk, end__isnull=True, grant__isnull=True)
        if not still_open.exists():
            return False
        end_request(request=request, word="expired", actor=Actor.product(request.branch.workspace))
    return True
