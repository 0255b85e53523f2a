"""The approval queue for machines: which requests were made, and how each stands or stood."""

from datetime import UTC, datetime

from django.http import HttpRequest
from ninja import Router, Schema

from branches.evidence.ids import is_id
from branches.queries.approval_queue import ApprovalQueue, approval_queue
from branches.queries.clock import now, stamp
from branches.queries.lookups import request_named
from debugger.api.errors import Problem
from debugger.api.tokens import TokenAuth, machine_of

router = Router(tags=["approvals"])


class QueuedOut(Schema):
    """One request, and how it stands."""

    request: str
    state: str


class ApprovalsOut(Schema):
    """Requests in the order in which they were made; where there are more, ask again `after` the last."""

    as_of: str
    requests: list[QueuedOut]
    more: bool


@router.get("/approvals", auth=TokenAuth("read"), response=ApprovalsOut)
def approvals(
    request: HttpRequest,
    until: str,
    as_of: str | None = None,
    beside: str | None = None,
    after: str | None = None,
) -> ApprovalsOut:
    """Return the requests made up to `until` as they stood at `as_of`, without those of `beside`'s family."""
    workspace = machine_of(request).workspace
    if beside is not None and not is_id(beside):
        raise Problem(422, "pattern:id", "beside")
    present = now()
    moment = present if as_of is None else _moment(as_of, "as_of")
    if moment > present:  # how it will stand nobody knows
        raise Problem(422, "past", "as_of")
    found = approval_queue(
        workspace,
        until=_moment(until, "until"),
        as_of=moment,
        beside=beside,
        after=None if after is None else request_named(workspace, after),
    )
    return _out(found)


def _out(found: ApprovalQueue) -> ApprovalsOut:
    listed = [QueuedOut(request=each.request, state=each.state) for each in found.requests]
    return ApprovalsOut(as_of=stamp(found.as_of), requests=listed, more=found.more)


def _moment(text: str, field: str) -> datetime:
    """Return the moment that a text names. Raises Problem 422."""
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is not None:
            return moment.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise Problem(422, "timestamp", field)
