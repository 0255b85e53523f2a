"""Appends one receipt to a workspace's own chain, in the caller's transaction; its lock is taken last."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from django.db import connection, transaction

from branches.evidence import chain, ids
from branches.evidence.schema import check_sent
from branches.models import Workspace, WorkspaceReceipt
from branches.queries.clock import now, stamp

if TYPE_CHECKING:
    from branches.commands.append_receipt import Actor

_CHAINS: Final = 2  # the class of locks on workspaces' chains, in PostgreSQL's form with two numbers


def append_to_workspace(
    *, workspace: Workspace, kind: str, body: Mapping[str, Any], actor: "Actor", subject: str | None = None
) -> WorkspaceReceipt:
    """Append and return the receipt. No other lock may be taken after this in the same transaction."""
    if not connection.in_atomic_block:
        raise transaction.TransactionManagementError("a workspace's chain is written inside a transaction")
    _lock(workspace)
    newest = WorkspaceReceipt.objects.filter(workspace=workspace).order_by("-seq")
    seq, prev = newest.values_list("seq", "digest").first() or (0, None)
    columns = sealed_columns(
        chain_id=workspace.uid, kind=kind, body=body, actor=actor, seq=seq + 1, prev=prev
    )
    return WorkspaceReceipt.objects.create(workspace=workspace, subject=subject, **columns)


def sealed_columns(
    *, chain_id: str, kind: str, body: Mapping[str, Any], actor: "Actor", seq: int, prev: str | None
) -> dict[str, Any]:
    """Return the columns of the product's own next receipt on a chain: of a run, a branch or a workspace."""
    moment = stamp(now())
    event_id = ids.mint("evt")
    sent = {
        "v": 1,
        "event_id": event_id,
        "run": chain_id,
        "kind": kind,
        "at": moment,
        "actor": actor.as_json(),
        "writer_seq": None,
        "body": dict(body),
    }
    check_sent(sent)
    sealed = chain.seal(sent, seq=seq, recorded_at=moment, writer=actor.id, prev_digest=prev)
    return {
        "seq": sealed.seq,
        "event_id": event_id,
        "writer": actor.id,
        "kind": kind,
        "digest": sealed.digest,
        "body": sealed.bytes.decode(),
    }


def _lock(workspace: Workspace) -> None:
    if connection.vendor != "postgresql":
        return
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", [_CHAINS, workspace.uid])
