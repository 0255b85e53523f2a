"""Changes of class CP: a policy, or what lowers what one asks for; decided by others, effective later."""

from typing import ClassVar

from django.conf import settings
from django.db import models

from branches.append_only import AppendOnly
from branches.models.people import Workspace


class PolicySort(models.TextChoices):
    """What a change of class CP is about."""

    POLICY = "policy", "Policy"
    ROLE = "role", "Role"
    GROUP = "group", "Group"
    WORKFLOW = "workflow", "Workflow"


class PolicyChange(AppendOnly):
    """Somebody proposes one, bound to its digest; the exact canonical bytes are kept."""

    uid = models.CharField(max_length=40, unique=True)
    workspace = models.ForeignKey(Workspace, models.PROTECT, related_name="policy_changes")
    sort = models.CharField(max_length=8, choices=PolicySort)
    version = models.CharField(max_length=32)
    digest = models.CharField(max_length=80)
    document = models.TextField()
    # None where the operator's own command wrote it.
    author = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="+", null=True)
    # How many others have to agree, and how long after that it takes effect.
    needed = models.PositiveSmallIntegerField()
    delay_s = models.PositiveIntegerField()
    at = models.DateTimeField()
    expires_at = models.DateTimeField()

    class Meta:
        indexes: ClassVar = [models.Index(fields=["workspace", "sort", "-id"])]


class ChangeApplied(AppendOnly):
    """An adopted change's time came: once, whatever was sent twice."""

    change = models.OneToOneField(PolicyChange, models.PROTECT, related_name="applied")
    # False where what was agreed to is not there any more to be done.
    took_effect = models.BooleanField()
    at = models.DateTimeField()


class PolicyVote(AppendOnly):
    """One person's word on a change of class CP, on the digest they were shown."""

    change = models.ForeignKey(PolicyChange, models.PROTECT, related_name="votes")
    person = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="+")
    word = models.CharField(max_length=16)
    digest = models.CharField(max_length=80)
    at = models.DateTimeField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["change", "person"], name="one_policy_vote_each"),
        ]


class PolicyChangeEnd(AppendOnly):
    """How a change of class CP ended; an adopted one says from when it counts."""

    change = models.OneToOneField(PolicyChange, models.PROTECT, related_name="end")
    word = models.CharField(max_length=16)
    effective_at = models.DateTimeField(null=True)
    at = models.DateTimeField()
