"""Workspaces, the people in them, and the machines that speak for them."""

from typing import ClassVar

from django.conf import settings
from django.contrib.auth.models import AbstractUser
from django.db import models

from branches.append_only import AppendOnly
from branches.evidence import ids


def _person_uid() -> str:
    return ids.mint("per")


class Person(AbstractUser):
    """Somebody who signs in; the public id is the one that receipts name."""

    uid = models.CharField(max_length=40, unique=True, default=_person_uid, editable=False)
    # Whether notices go to their e-mail address too.
    by_mail = models.BooleanField(default=True)


class Workspace(AppendOnly):
    """Who may see what: every run, person and token belongs to one."""

    uid = models.CharField(max_length=40, unique=True)
    name = models.CharField(max_length=96, unique=True)
    made_at = models.DateTimeField()


class Role(models.TextChoices):
    """What a person may do in a workspace; roles add up."""

    VIEWER = "viewer", "Viewer"
    ENGINEER = "engineer", "Engineer"
    APPROVER = "approver", "Approver"
    DESTINATION_OWNER = "destination_owner", "Destination owner"
    REVIEWER = "reviewer", "Reviewer"
    POLICY_ADMIN = "policy_admin", "Policy admin"
    AUDITOR = "auditor", "Auditor"


class RoleGrant(AppendOnly):
    """A role given to or taken from a person; of each role and scope the latest row counts.

    The scope of an approver is the worst change class they may approve (none: every class of branches, not
    the policy itself); that of a destination owner is the destination.
    """

    workspace = models.ForeignKey(Workspace, models.PROTECT, related_name="role_grants")
    person = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="role_grants")
    role = models.CharField(max_length=24, choices=Role)
    scope = models.CharField(max_length=96, blank=True)
    held = models.BooleanField()
    # A standing ends by itself; without an end it lasts until it is taken.
    until = models.DateTimeField(null=True)
    at = models.DateTimeField()

    class Meta:
        indexes: ClassVar = [models.Index(fields=["workspace", "person", "role", "-id"])]


class Group(AppendOnly):
    """People who count as one side where a policy wants approvals from different groups."""

    uid = models.CharField(max_length=40, unique=True)
    workspace = models.ForeignKey(Workspace, models.PROTECT, related_name="groups")
    name = models.CharField(max_length=96)
    made_at = models.DateTimeField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["workspace", "name"], name="group_name_once"),
        ]


class GroupMember(AppendOnly):
    """Somebody joined or left a group; the latest row counts."""

    group = models.ForeignKey(Group, models.PROTECT, related_name="members")
    person = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="memberships")
    held = models.BooleanField()
    at = models.DateTimeField()

    class Meta:
        indexes: ClassVar = [models.Index(fields=["group", "person", "-id"])]


class Invitation(AppendOnly):
    """A link that lets one person in with the roles it names; only its digest is kept."""

    uid = models.CharField(max_length=40, unique=True)
    workspace = models.ForeignKey(Workspace, models.PROTECT, related_name="invitations")
    digest = models.CharField(max_length=80, unique=True)
    # [{role, scope, until}], as canonical bytes.
    roles = models.TextField()
    inviter = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="+")
    made_at = models.DateTimeField()
    expires_at = models.DateTimeField()


class InvitationEnd(AppendOnly):
    """An invitation that was accepted or taken back; it has only one end."""

    invitation = models.OneToOneField(Invitation, models.PROTECT, related_name="end")
    word = models.CharField(max_length=16)
    person = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="+", null=True)
    at = models.DateTimeField()


class WorkspaceReceipt(AppendOnly):
    """One fact about a workspace itself, in its own chain: who, what role, which policy, which key."""

    workspace = models.ForeignKey(Workspace, models.PROTECT, related_name="receipts", db_index=False)
    seq = models.PositiveIntegerField()
    event_id = models.CharField(max_length=40)
    writer = models.CharField(max_length=40)
    kind = models.CharField(max_length=32)
    subject = models.CharField(max_length=128, null=True)
    digest = models.CharField(max_length=80)
    body = models.TextField(db_column="bytes")

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["workspace", "seq"], name="workspace_receipt_seq_once"),
        ]
        indexes: ClassVar = [
            models.Index(fields=["workspace", "kind", "seq"], name="workspace_receipt_by_kind"),
        ]


class ApiToken(AppendOnly):
    """A machine's key to one workspace: only its digest is kept."""

    uid = models.CharField(max_length=40, unique=True)
    workspace = models.ForeignKey(Workspace, models.PROTECT, related_name="tokens")
    name = models.CharField(max_length=96)
    digest = models.CharField(max_length=80, unique=True)
    scopes = models.JSONField()
    made_at = models.DateTimeField()
    expires_at = models.DateTimeField()


class TokenEnd(AppendOnly):
    """A token that is no longer accepted."""

    token = models.OneToOneField(ApiToken, models.PROTECT, related_name="end")
    at = models.DateTimeField()


class TokenUse(models.Model):
    """When a token was last used; not part of the record."""

    token = models.OneToOneField(ApiToken, models.PROTECT, related_name="use")
    used_at = models.DateTimeField()


class Recorder(AppendOnly):
    """A recorder that paired with the workspace: the audience of permits and the writer of receipts."""

    uid = models.CharField(max_length=40, unique=True)
    workspace = models.ForeignKey(Workspace, models.PROTECT, related_name="recorders")
    token = models.ForeignKey(ApiToken, models.PROTECT, related_name="recorders")
    name = models.CharField(max_length=96)
    runtime = models.CharField(max_length=96)
    box_key = models.CharField(max_length=64)
    made_at = models.DateTimeField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["token", "box_key"], name="recorder_paired_once"),
        ]


class RecorderToken(AppendOnly):
    """A recorder goes on under a later token: it proved that it still holds the key it paired with."""

    recorder = models.ForeignKey(Recorder, models.PROTECT, related_name="later_tokens")
    token = models.ForeignKey(ApiToken, models.PROTECT, related_name="continued")
    at = models.DateTimeField()

    class Meta:
        indexes: ClassVar = [models.Index(fields=["token", "-id"])]
