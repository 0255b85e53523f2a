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


class Workspace(AppendOnly):
    """Who may see what: every run, person and token belongs to one."""

    uid = models.CharField(max_length=40, unique=True)
    name = models.CharField(max_length=96, unique=True)
    made_at = models.DateTimeField()


class Role(models.TextChoices):
    """What a person may do in a workspace; roles add up."""

    ENGINEER = "engineer", "Engineer"
    APPROVER = "approver", "Approver"
    REVIEWER = "reviewer", "Reviewer"


class RoleGrant(AppendOnly):
    """A role given to or taken from a person; the latest row counts, the history stays."""

    workspace = models.ForeignKey(Workspace, models.PROTECT, related_name="role_grants")
    person = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="role_grants")
    role = models.CharField(max_length=16, choices=Role)
    held = models.BooleanField()
    at = models.DateTimeField()

    class Meta:
        indexes: ClassVar = [models.Index(fields=["person", "workspace", "role", "-id"])]


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
