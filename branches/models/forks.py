"""Fork points, configuration pins and the digests of edits: what a branch starts from."""

from django.conf import settings
from django.db import models

from branches.append_only import AppendOnly
from branches.models.runs import Run


class ForkPoint(AppendOnly):
    """The link of the parent's chain that a branch starts from; no copy of the parent is kept."""

    branch = models.OneToOneField(Run, models.PROTECT, related_name="fork_point")
    parent = models.ForeignKey(Run, models.PROTECT, related_name="+")
    checkpoint = models.CharField(max_length=112)
    seq = models.PositiveIntegerField()
    digest = models.CharField(max_length=80)
    edit_class = models.CharField(max_length=24)
    # What whoever forked said that the change touches; it only raises the change class.
    kinds = models.JSONField()
    forker = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="+")
    at = models.DateTimeField()


class ConfigurationPin(AppendOnly):
    """Every part of a branch's configuration by digest; the parent's original is never touched."""

    branch = models.ForeignKey(Run, models.PROTECT, related_name="pins")
    original = models.CharField(max_length=80)
    digest = models.CharField(max_length=80)
    parts = models.TextField()
    pinned_by = models.CharField(max_length=40)
    at = models.DateTimeField()


class Edit(AppendOnly):
    """An edit of one message, or of one value of a state key, by digest only.

    The text lies sealed elsewhere and only until it is used. The target is the HMAC of the message's id or
    of the value's name.
    """

    branch = models.ForeignKey(Run, models.PROTECT, related_name="edits")
    target = models.CharField(max_length=112)
    state_key = models.CharField(max_length=96, null=True)
    digest = models.CharField(max_length=112)
    edit_class = models.CharField(max_length=24)
    editor = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="+")
    at = models.DateTimeField()
