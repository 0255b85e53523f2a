"""Which approval requests are open, each sense of the word in one place."""

from django.db.models import QuerySet

from branches.models import ApprovalRequest


def unended_requests() -> QuerySet[ApprovalRequest]:
    """Return those without an end whose branch is not sealed; granted and rejected ones are among them."""
    return ApprovalRequest.objects.filter(end__isnull=True, branch__redemption__isnull=True)


def unvetoed_requests() -> QuerySet[ApprovalRequest]:
    """Return those of them that nobody rejected."""
    return unended_requests().exclude(decisions__word="rejected")


def undecided_requests() -> QuerySet[ApprovalRequest]:
    """Return those that are neither granted nor rejected, on time or not; some may have approvals already."""
    return unvetoed_requests().filter(grant__isnull=True)


def unrevoked(requests: QuerySet[ApprovalRequest]) -> QuerySet[ApprovalRequest]:
    """Leave out those of branches whose authority was taken back: no word on them counts any more."""
    return requests.filter(branch__revocation__isnull=True)
