"""What is not part of the record and may change: jobs, leases, presence, sealed edits in transit."""

from typing import ClassVar, Final

from django.conf import settings
from django.db import models

from branches.append_only import AppendOnly
from branches.models.forks import Edit
from branches.models.people import Recorder, Workspace
from branches.models.runs import Run

MAX_SUBJECT: Final = 200


class JobKind(models.TextChoices):
    """Work that a worker does because a person asked for it."""

    PROBE_STATE = "probe_state", "Probe state"
    ASK_DESTINATION = "ask_destination", "Ask destination"
    AUDIT_ARRIVALS = "audit_arrivals", "Audit arrivals"
    CHECK_OUTCOME = "check_outcome", "Check outcome"
    TAKE_BASELINE = "take_baseline", "Take baseline"
    IMPORT_THREAD = "import_thread", "Import thread"
    VERIFY_RECEIPTS = "verify_receipts", "Verify receipts"


class JobState(models.TextChoices):
    """Where a job stands."""

    QUEUED = "queued", "Queued"
    RUNNING = "running", "Running"
    DONE = "done", "Done"
    FAILED = "failed", "Failed"
    CANCELLED = "cancelled", "Cancelled"


class Job(models.Model):
    """A piece of work as a row: the broker only hints at it, and a sweep finds what was forgotten."""

    uid = models.CharField(max_length=40, unique=True)
    workspace = models.ForeignKey(Workspace, models.PROTECT, related_name="jobs")
    kind = models.CharField(max_length=24, choices=JobKind)
    run = models.ForeignKey(Run, models.PROTECT, related_name="jobs", null=True)
    subject = models.CharField(max_length=MAX_SUBJECT)
    state = models.CharField(max_length=12, choices=JobState, default=JobState.QUEUED)
    problem = models.CharField(max_length=64, blank=True)
    done = models.PositiveIntegerField(default=0)
    total = models.PositiveIntegerField(default=0)
    asked_by = models.CharField(max_length=40)
    # The target it asks: of one place only so many are asked at once.
    place = models.CharField(max_length=96, blank=True)
    tries = models.PositiveSmallIntegerField(default=0)
    made_at = models.DateTimeField()
    # Not before this moment: it waits for its place, or asks again after a silence.
    due_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)
    # When its worker last moved it; one that was silent for long is taken for lost.
    moved_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        indexes: ClassVar = [
            models.Index(fields=["state", "made_at"]),
            models.Index(fields=["run", "kind", "subject", "-id"]),
        ]


class NoticeKind(models.TextChoices):
    """What somebody ought to hear of."""

    UNACCOUNTED = "unaccounted", "Arrived, and in no receipt"
    REQUESTED = "requested", "Approval asked for"
    PARTIAL = "partial", "Approved in part"
    GRANTED = "granted", "Approved"
    REJECTED = "rejected", "Rejected"
    EXPIRING = "expiring", "Approval expires soon"
    EXPIRED = "expired", "Approval request expired"
    SUPERSEDED = "superseded", "Approval superseded by a change"
    REVOKED = "revoked", "Authority revoked"
    CONSUMED = "consumed", "Permit redeemed"
    OUTCOME_DUE = "outcome_due", "Outcome is due"
    FALSE_SUCCESS = "false_success", "Claimed, and not at its destination"
    ROUTED = "routed", "Routed to somebody"


class Notice(AppendOnly):
    """Something that people of a workspace ought to hear of: where it is to be seen, and no content."""

    uid = models.CharField(max_length=40, unique=True)
    workspace = models.ForeignKey(Workspace, models.PROTECT, related_name="notices")
    kind = models.CharField(max_length=24, choices=NoticeKind)
    run = models.ForeignKey(Run, models.PROTECT, related_name="notices")
    # What it is about on that run: a destination.
    subject = models.CharField(max_length=MAX_SUBJECT)
    # Of what was already said nothing is said again.
    digest = models.CharField(max_length=80)
    made_at = models.DateTimeField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["run", "kind", "subject", "digest"], name="notice_once"),
        ]
        indexes: ClassVar = [models.Index(fields=["workspace", "-id"])]


class Webhook(models.Model):
    """Where a workspace's notices are posted, signed; the secret is derived, and shown once."""

    uid = models.CharField(max_length=40, unique=True)
    workspace = models.ForeignKey(Workspace, models.PROTECT, related_name="webhooks")
    # The name of a target in the operator's file: a page cannot send the server anywhere else.
    target = models.CharField(max_length=96)
    kinds = models.JSONField()
    made_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)


class DeliveryState(models.TextChoices):
    """Where the delivery of a notice stands."""

    DUE = "due", "Due"
    DELIVERED = "delivered", "Delivered"
    GIVEN_UP = "given_up", "Given up"


class NoticeDelivery(models.Model):
    """One notice on its way to one place: tried again until it arrived or was given up."""

    uid = models.CharField(max_length=40, unique=True)
    notice = models.ForeignKey(Notice, models.PROTECT, related_name="deliveries")
    person = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="+", null=True)
    webhook = models.ForeignKey(Webhook, models.PROTECT, related_name="deliveries", null=True)
    state = models.CharField(max_length=12, choices=DeliveryState, default=DeliveryState.DUE)
    tries = models.PositiveSmallIntegerField(default=0)
    problem = models.CharField(max_length=64, blank=True)
    due_at = models.DateTimeField(null=True)
    delivered_at = models.DateTimeField(null=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["notice", "person"], name="mailed_once"),
            models.UniqueConstraint(fields=["notice", "webhook"], name="posted_once"),
        ]
        indexes: ClassVar = [models.Index(fields=["state", "due_at"])]


class WorkspaceNote(models.Model):
    """What people wrote for each other: a hypothesis, what was learnt. Its digest alone is in the record.

    It lies here sealed under a key that is not in the database, and may be deleted.
    """

    run = models.ForeignKey(Run, models.PROTECT, related_name="notes")
    digest = models.CharField(max_length=112)
    sealed = models.BinaryField()
    person = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="+")
    at = models.DateTimeField()


class EdgeCount(models.Model):
    """How often an edge between two agents was seen in a run: a sum that its receipts give again."""

    run = models.ForeignKey(Run, models.PROTECT, related_name="edges", db_index=False)
    source = models.CharField(max_length=112)
    target = models.CharField(max_length=112)
    kind = models.CharField(max_length=112)
    version = models.CharField(max_length=32, blank=True)
    status = models.CharField(max_length=8)
    count = models.PositiveIntegerField()
    first_event = models.CharField(max_length=40)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["run", "source", "target", "kind", "version", "status"], name="edge_counted_once"
            ),
        ]


class AuditWatch(models.Model):
    """A run whose audits the clock may still move: when they are looked at next."""

    run = models.OneToOneField(Run, models.PROTECT, related_name="audit_watch")
    due_at = models.DateTimeField(db_index=True)


class AuditState(models.Model):
    """Where one subject of a run's audits stood when it was last looked at, and since when."""

    run = models.ForeignKey(Run, models.PROTECT, related_name="audit_states")
    operation = models.CharField(max_length=128, blank=True)
    state = models.CharField(max_length=24)
    since = models.DateTimeField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["run", "operation"], name="audit_state_once"),
        ]


class Presence(models.Model):
    """When a recorder was last heard from."""

    recorder = models.OneToOneField(Recorder, models.PROTECT, related_name="presence")
    heard_at = models.DateTimeField()


class Lease(models.Model):
    """One running attempt per branch, renewed at each step."""

    branch = models.OneToOneField(Run, models.PROTECT, related_name="lease")
    attempt = models.CharField(max_length=40)
    renewed_at = models.DateTimeField()


class SealedEdit(models.Model):
    """The text of an edit, sealed to the recorder; deleted when the branch has started."""

    edit = models.OneToOneField(Edit, models.PROTECT, related_name="sealed")
    recorder = models.ForeignKey(Recorder, models.PROTECT, related_name="+")
    ciphertext = models.BinaryField()
