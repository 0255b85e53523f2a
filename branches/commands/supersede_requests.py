"""Supersedes every open request of a family whose branch is no longer what was shown."""

from collections.abc import Iterable

from django.db import transaction

from branches.commands.announce import announce_end
from branches.commands.append_receipt import Actor, append_receipt, lock_families
from branches.models import ApprovalRequest, RequestEnd, Workspace
from branches.queries.branch_facts import branch_view
from branches.queries.clock import now
from branches.queries.open_requests import unended_requests
from branches.queries.policies import policy_of
from branches.queries.subject import subject_digest, subject_of


def supersede_requests(*, root_ids: Iterable[int]) -> list[str]:
    """End the outdated requests of these families, in the transaction of what outdated them.

    Returns the ids of the requests that were superseded. A redeemed branch is sealed and left alone.
    """
    open_requests = unended_requests().filter(branch__root_id__in=list(root_ids))
    superseded = []
    for request in open_requests.select_related("branch__workspace", "requester"):
        view = branch_view(request.branch)
        if subject_digest(subject_of(view, request.requester)) != request.subject_digest:
            end_request(request=request, word="superseded", actor=Actor.product(request.branch.workspace))
            superseded.append(request.uid)
    return superseded


def supersede_by_policy() -> list[str]:
    """End the open requests that were made under a policy which is no longer in effect; return their ids."""
    rows = unended_requests().select_related("branch__workspace").order_by("id")[:500]
    policies = {row.branch.workspace_id: policy_of(row.branch.workspace) for row in rows}
    outdated = [row for row in rows if row.policy != policies[row.branch.workspace_id].digest]
    superseded = []
    for root_id in sorted({row.branch.family_id for row in outdated}):
        with transaction.atomic():
            lock_families([root_id])
            superseded += supersede_requests(root_ids=[root_id])
    return superseded


def supersede_by_workflow(workspace: Workspace, name: str) -> list[str]:
    """End the open requests on branches of a workflow that a newer version made another; return their ids."""
    open_requests = ApprovalRequest.objects.filter(
        end__isnull=True,
        branch__redemption__isnull=True,
        branch__workspace=workspace,
        branch__workflow__name=name,
    )
    superseded = []
    families = {request.branch.family_id for request in open_requests.select_related("branch")}
    for root_id in sorted(families):
        with transaction.atomic():
            lock_families([root_id])
            superseded += supersede_requests(root_ids=[root_id])
    return superseded


def end_request(*, request: ApprovalRequest, word: str, actor: Actor) -> RequestEnd:
    """Write a request's one end; the caller holds the family's lock."""
    append_receipt(
        run=request.branch,
        kind="request_ended",
        body={"request": request.uid, "end": word},
        actor=actor,
        subject=request.uid,
    )
    end = RequestEnd.objects.create(request=request, word=word, at=now())
    announce_end(request=request, word=word)
    return end
