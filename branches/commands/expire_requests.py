"""Ends approval requests that nobody decided in time: a timeout never approves."""

from django.db import transaction

from branches.commands.append_receipt import Actor, lock_families
from branches.commands.supersede_requests import end_request
from branches.models import ApprovalRequest
from branches.queries.authority import request_ends
from branches.queries.clock import now
from branches.queries.open_requests import undecided_requests


def expire_requests() -> list[str]:
    """End every open, undecided request whose time is over, and return their ids."""
    at = now()
    undecided = undecided_requests().select_related("delivery").order_by("id")
    due = [row.uid for row in undecided[:500] if request_ends(row) < at]
    return [uid for uid in due if _expire(uid)]


def _expire(uid: str) -> bool:
    request = ApprovalRequest.objects.select_related("branch__workspace").get(uid=uid)
    with transaction.atomic():
        lock_families([request.branch.family_id])
        if not undecided_requests().filter(pk=request.pk).exists():
            return False
        end_request(request=request, word="expired", actor=Actor.product(request.branch.workspace))
    return True
