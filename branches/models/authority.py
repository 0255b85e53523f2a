"""Approval requests, decisions, who worked on what, resume permits and their one redemption."""

from typing import ClassVar

from django.conf import settings
from django.db import models

from branches.append_only import AppendOnly
from branches.models.people import Recorder
from branches.models.runs import Run


class ApprovalRequest(AppendOnly):
    """Somebody asks for authority over exactly what was shown: one digest."""

    uid = models.CharField(max_length=40, unique=True)
    branch = models.ForeignKey(Run, models.PROTECT, related_name="requests")
    subject_digest = models.CharField(max_length=80)
    subject = models.TextField()
    change_class = models.CharField(max_length=2)
    policy = models.CharField(max_length=80)
    requester = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="+")
    at = models.DateTimeField()
    # How long it lives once it reached somebody who may decide.
    lives_s = models.PositiveIntegerField()
    # It ends then even where it reached nobody.
    expires_at = models.DateTimeField()


class RequestDelivery(AppendOnly):
    """A request reached somebody who may decide it: from here its clock runs."""

    request = models.OneToOneField(ApprovalRequest, models.PROTECT, related_name="delivery")
    via = models.CharField(max_length=16)
    at = models.DateTimeField()


class RequestEnd(AppendOnly):
    """How a request ended without being used; only one end is possible."""

    request = models.OneToOneField(ApprovalRequest, models.PROTECT, related_name="end")
    word = models.CharField(max_length=16)
    at = models.DateTimeField()


class Decision(AppendOnly):
    """One person's vote on the digest they were shown."""

    request = models.ForeignKey(ApprovalRequest, models.PROTECT, related_name="decisions")
    approver = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="+")
    word = models.CharField(max_length=16)
    reason = models.CharField(max_length=32)
    subject_digest = models.CharField(max_length=80)
    # In a workspace of one, by a dated policy: the one who asked also approved, and the record says so.
    by_requester = models.BooleanField()
    at = models.DateTimeField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["request", "approver"], name="one_vote_each"),
        ]


class Grant(AppendOnly):
    """The votes on a request satisfied every rule of its class: from here the grant's clock runs."""

    request = models.OneToOneField(ApprovalRequest, models.PROTECT, related_name="grant")
    at = models.DateTimeField()


class BranchWork(AppendOnly):
    """Somebody worked on a branch, and so may not approve it: the database itself looks here."""

    branch = models.ForeignKey(Run, models.PROTECT, related_name="work")
    person = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="+")
    work = models.CharField(max_length=24)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["branch", "person", "work"], name="branch_work_once"),
        ]


class ResumePermit(AppendOnly):
    """A signed, single-use permission for one recorder to start one branch."""

    uid = models.CharField(max_length=40, unique=True)
    branch = models.ForeignKey(Run, models.PROTECT, related_name="permits")
    recorder = models.ForeignKey(Recorder, models.PROTECT, related_name="permits")
    subject_digest = models.CharField(max_length=80)
    # At least so many people approved just this digest: the database counts them.
    approvals_needed = models.PositiveSmallIntegerField()
    facts = models.TextField()
    envelope = models.TextField()
    operator = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="+")
    at = models.DateTimeField()
    expires_at = models.DateTimeField()


class PermitEnd(AppendOnly):
    """A permit that will not be redeemed: the recorder declined it, or it was revoked."""

    permit = models.OneToOneField(ResumePermit, models.PROTECT, related_name="end")
    word = models.CharField(max_length=16)
    rule = models.CharField(max_length=64)
    at = models.DateTimeField()


class Redemption(AppendOnly):
    """The one use of a permit; it seals the branch, and the database refuses a second one."""

    permit = models.OneToOneField(ResumePermit, models.PROTECT, related_name="redemption")
    branch = models.OneToOneField(Run, models.PROTECT, related_name="redemption")
    attempt = models.CharField(max_length=40)
    sealed_facts = models.TextField()
    baseline = models.CharField(max_length=64, null=True)
    at = models.DateTimeField()


class Revocation(AppendOnly):
    """Authority taken back from a branch: sticky, and it stops the branch at its next step."""

    branch = models.OneToOneField(Run, models.PROTECT, related_name="revocation")
    person = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="+")
    reason = models.CharField(max_length=32)
    at = models.DateTimeField()
