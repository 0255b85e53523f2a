"""Messages that destinations pushed, by the digests of their ids: one that comes again is known for ever."""

from typing import ClassVar

from django.db import models

from branches.append_only import AppendOnly
from branches.models.people import Workspace
from branches.models.runs import Run


class InboundMessage(AppendOnly):
    """One message of a destination; the same id with another body is a conflict."""

    workspace = models.ForeignKey(Workspace, models.PROTECT, related_name="+")
    place = models.CharField(max_length=96)
    message = models.CharField(max_length=112)
    body = models.CharField(max_length=112)
    run = models.ForeignKey(Run, models.PROTECT, related_name="+")
    at = models.DateTimeField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["workspace", "place", "message"], name="message_once"),
        ]
