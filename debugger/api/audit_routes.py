"""Audits for machines: what the rules say of a run, and which decisions a runtime may carry out."""

from typing import Any

from django.http import HttpRequest, StreamingHttpResponse
from ninja import Router, Schema

from branches.queries.api_views import recoveries_json
from branches.queries.audits import audits_json, audits_now, counts_json
from branches.queries.clock import now
from branches.queries.handoff_audits import MOST_SHOWN
from branches.queries.lookups import run_named
from branches.queries.workspace_chain import exported_chain
from debugger.api.tokens import TokenAuth, machine_of

router = Router(tags=["audits"])


class StateOut(Schema):
    """Where one loop stands, and why."""

    state: str
    reasons: list[str]


class StopOut(StateOut):
    """The same, and the seq of the receipt which shows that the loop waits no more, where there is one."""

    went_on: int | None = None


class OperationOut(StateOut):
    """Where one operation stands, and why."""

    operation_id: str


class AuditsOut(Schema):
    """The three audits of a run as it is now."""

    stops: list[StopOut]
    handoffs: list[OperationOut]
    topology: dict[str, Any] | None
    operations: int
    """How many were handed over in all; of very many those that moved last are judged."""
    judged: int
    ends: int
    """How many stops there are in all; of very many those that came last are judged, and those that wait."""


class RecoveryOut(Schema):
    """One decision that has not shown yet that it worked; after `until` it allows nothing any more."""

    operation: str
    action: str
    attempt: int
    attempts: int
    decided_at: str
    until: str
    owner: str | None


class RecoveriesOut(Schema):
    """What a runtime may carry out now."""

    recoveries: list[RecoveryOut]


@router.get("/runs/{run}/audits", auth=TokenAuth("read"), response=AuditsOut, exclude_unset=True)
def audits(request: HttpRequest, run: str) -> dict[str, Any]:
    """Return the three audits of a run, judged now, at the cost of its page: `judged` of `operations`."""
    found = run_named(machine_of(request).workspace, run)
    audits = audits_now(found, now(), most=MOST_SHOWN)
    return {**audits_json(audits), **counts_json(audits)}


@router.get("/runs/{run}/recoveries", auth=TokenAuth("read"), response=RecoveriesOut)
def recoveries(request: HttpRequest, run: str) -> dict[str, Any]:
    """Return the decisions on a run's handoffs that are still to be carried out."""
    return {"recoveries": recoveries_json(run_named(machine_of(request).workspace, run), now())}


@router.get("/audit", auth=TokenAuth("read"))
def workspace_chain(request: HttpRequest, from_seq: int = 1) -> StreamingHttpResponse:
    """Stream the workspace's own chain as NDJSON, exact bytes: people, roles, policies, tokens, decisions."""
    lines = exported_chain(machine_of(request).workspace, from_seq=max(1, min(from_seq, 2**31 - 1)))
    return StreamingHttpResponse(lines, content_type="application/x-ndjson")
