"""Runs and their receipts: an append-only chain for each."""

from typing import ClassVar

from django.db import models

from branches.append_only import AppendOnly
from branches.models.people import Recorder, Workspace
from branches.models.workflows import Contract, Workflow


class Run(AppendOnly):
    """A chain of receipts: a root run, or a branch whose first receipt names a link of its parent's chain."""

    uid = models.CharField(max_length=40, unique=True)
    workspace = models.ForeignKey(Workspace, models.PROTECT, related_name="runs")
    workflow = models.ForeignKey(Workflow, models.PROTECT, related_name="runs", null=True)
    recorder = models.ForeignKey(Recorder, models.PROTECT, related_name="runs", null=True)
    # A root run has neither; its family is every run that names it as root.
    root = models.ForeignKey("self", models.PROTECT, related_name="family", null=True)
    parent = models.ForeignKey("self", models.PROTECT, related_name="branches", null=True)
    # 1, 2, … among the branches of one root: what people call it.
    number = models.PositiveIntegerField(null=True)
    made_at = models.DateTimeField()
    # The outcome that was declared at the fork, as canonical bytes; without one the workflow's counts.
    outcome = models.TextField(null=True)
    # The published contract that a root run named at its start; without one the workflow's own counts.
    contract = models.ForeignKey(Contract, models.PROTECT, related_name="runs", null=True, to_field="uid")

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["root", "number"], name="branch_number_once"),
        ]
        indexes: ClassVar = [models.Index(fields=["workspace", "-id"])]

    @property
    def family_id(self) -> int:
        """The primary key of the root: what is locked when anything in the family changes."""
        return self.root_id if self.root_id is not None else self.pk


class Receipt(AppendOnly):
    """One fact: the exact bytes that were hashed, with the columns that find it again."""

    run = models.ForeignKey(Run, models.PROTECT, related_name="receipts", db_index=False)
    seq = models.PositiveIntegerField()
    event_id = models.CharField(max_length=40)
    writer = models.CharField(max_length=40)
    kind = models.CharField(max_length=32)
    # What the receipt is about (checkpoint, operation, state key, request, …), where a page looks it up.
    # The longest is the key of a repeated operation: a keyed digest, a plus and the branch's id.
    subject = models.CharField(max_length=128, null=True)
    digest = models.CharField(max_length=80)
    body = models.TextField(db_column="bytes")

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["run", "seq"], name="receipt_seq_once"),
            models.UniqueConstraint(fields=["run", "writer", "event_id"], name="receipt_event_once"),
        ]
        # The newest of a kind must be found from the index's end: with the subject in between, SQLite would
        # rather walk the whole run backwards.
        indexes: ClassVar = [
            models.Index(fields=["run", "kind", "seq"], name="receipt_by_kind"),
            models.Index(fields=["run", "subject", "seq"], name="receipt_by_subject"),
        ]


class MapBlock(AppendOnly):
    """What one block of a run's receipts holds, counted at ingest; eight make one of the next level."""

    run = models.ForeignKey(Run, models.PROTECT, related_name="map_blocks", db_index=False)
    level = models.PositiveSmallIntegerField()
    block = models.PositiveIntegerField()
    counts = models.TextField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["run", "level", "block"], name="map_block_once"),
        ]
