"""Workflows and topology contracts: what was declared before a run started."""

from typing import ClassVar

from django.db import models

from branches.append_only import AppendOnly
from branches.models.people import Workspace


class Workflow(AppendOnly):
    """One published version of a declaration, kept as exact canonical bytes."""

    uid = models.CharField(max_length=40, unique=True)
    workspace = models.ForeignKey(Workspace, models.PROTECT, related_name="workflows")
    name = models.CharField(max_length=96)
    version = models.CharField(max_length=32)
    digest = models.CharField(max_length=80)
    declaration = models.TextField()
    published_at = models.DateTimeField()
    publisher = models.CharField(max_length=40)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["workspace", "name", "version"], name="workflow_version_once"),
        ]


class Contract(AppendOnly):
    """One published version of a topology contract, as exact canonical bytes; a draft blesses nothing."""

    uid = models.CharField(max_length=40, unique=True)
    workspace = models.ForeignKey(Workspace, models.PROTECT, related_name="contracts")
    # By its name: a contract is for every version of a workflow.
    workflow = models.CharField(max_length=96)
    version = models.CharField(max_length=32)
    digest = models.CharField(max_length=80)
    declaration = models.TextField()
    is_draft = models.BooleanField()
    published_at = models.DateTimeField()
    publisher = models.CharField(max_length=40)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["workspace", "workflow", "version"], name="contract_version_once"
            ),
        ]
