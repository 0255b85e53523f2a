"""Ends approval requests that nobody decided in time: a timeout never approves."""

from django.db import transaction

from branches.commands.append_receipt import Actor, lock_families
from branches.commands.supersede_requests import end_request
from branches.models import ApprovalRequest
from branches.queries.clock import now


def expire_requests() -> list[str]:
    """End every open, undecided request whose time is over, and return their ids."""
    due = ApprovalRequest.objects.filter(
        expires_at__lt=now(), end__isnull=True, decisions__isnull=True, branch__redemption__isnull=True
    )
    return [uid for uid in due.values_list("uid", flat=True)[:100] if _expire(uid)]


def _expire(uid: str) -> bool:
    request = ApprovalRequest.objects.select_related("branch__workspace").get(uid=uid)
    with transaction.atomic():
        lock_families([request.branch.family_id])
        still_open = ApprovalRequest.objects.filter(pk=request.pk, end__isnull=True, decisions__isnull=True)
        if not still_open.exists():
            return False
        end_request(request=request, word="expired", actor=Actor.product(request.branch.workspace))
    return True
