"""Appends one receipt that the product itself writes, in the caller's transaction and under its lock."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from django.db import connection, transaction

from branches.commands.append_to_workspace import append_to_workspace, sealed_columns
from branches.models import BranchWork, Person, Receipt, Run, Workspace
from branches.queries.chains import head

OF_AUTHORITY: Final = frozenset(
    {
        "approval_requested",
        "decided",
        "request_ended",
        "permit_issued",
        "permit_redeemed",
        "edit_disclosed",
        "refused",
        "concluded",
    }
)
"""What is also named on the workspace's own chain, where an auditor reads every act of authority in order."""

WORK: Final = {
    "forked": "forked",
    "edited": "edited",
    "effect_reconciled": "reconciled",
    "drift_acknowledged": "acknowledged_drift",
    "ledger_attested": "attested",
    "configuration_changed": "changed_configuration",
    "approval_requested": "requested",
}
"""Kinds that are work on a branch when a person writes them: whoever did it does not approve the branch."""

_NAMES: Final = 1  # the class of locks on names, in PostgreSQL's form with two numbers


@dataclass(frozen=True, slots=True)
class Actor:
    """Who did something, as receipts name them: a type and an id of our form or a short name."""

    type: Literal["person", "machine", "recorder"]
    id: str
    row: int | None = field(default=None, compare=False)
    """The primary key of a person."""

    @classmethod
    def person(cls, person: Person) -> "Actor":
        return cls("person", person.uid, person.pk)

    @classmethod
    def product(cls, workspace: Workspace) -> "Actor":
        return cls("machine", workspace.uid)

    def as_json(self) -> dict[str, str]:
        return {"type": self.type, "id": self.id}


def lock_families(root_ids: Iterable[int]) -> None:
    """Take the lock of these families until the transaction ends, in one order for everybody.

    SQLite's IMMEDIATE transactions already hold the only write lock there is.
    """
    if not connection.in_atomic_block:
        raise transaction.TransactionManagementError("a family is locked inside a transaction")
    if connection.vendor != "postgresql":
        return
    with connection.cursor() as cursor:
        for root_id in sorted(set(root_ids)):
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [root_id])


def lock_names(names: Iterable[str]) -> None:
    """Take the lock of names that have no row yet, so that two processes cannot make the same row.

    Before the locks of families, where both are taken: the order is the same for everybody.
    """
    if connection.vendor != "postgresql":
        return
    with connection.cursor() as cursor:
        for name in sorted(set(names)):
            # The form with two numbers never meets that of families.
            cursor.execute("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", [_NAMES, name])


def lock_authority(workspace: Workspace) -> None:
    """Take the locks of all that a change of class CP may touch, before anything is written.

    The workspace's chain is locked with the first receipt, and after that no other lock may be waited for.
    """
    lock_names(f"{what} {workspace.uid}" for what in ("policy", "roles", "workflows"))


def append_receipt(
    *,
    run: Run,
    kind: str,
    body: Mapping[str, Any],
    actor: Actor,
    subject: str | None = None,
) -> Receipt:
    """Append a receipt to a run's chain; the caller holds the family's lock."""
    seq, prev = head(run.pk)
    if seq == 0 and run.parent_id is not None and kind == "forked":
        prev = body["digest"]
    columns = sealed_columns(chain_id=run.uid, kind=kind, body=body, actor=actor, seq=seq + 1, prev=prev)
    if kind in OF_AUTHORITY:
        append_to_workspace(
            workspace=run.workspace,
            kind="recorded",
            body={"run": run.uid, "seq": seq + 1, "kind": kind, "digest": columns["digest"]},
            actor=actor,
            subject=run.uid,
        )
    if actor.row is not None and run.parent_id is not None and kind in WORK:
        BranchWork.objects.get_or_create(branch=run, person_id=actor.row, work=WORK[kind])
    return Receipt.objects.create(run=run, subject=subject, **columns)
