"""Adds and ends the webhooks of a workspace; where they go is a target that the operator registered."""

import base64
import hashlib
from collections.abc import Iterable
from typing import Final

from django.db import transaction

from branches.commands.append_receipt import Actor, lock_names
from branches.commands.append_to_workspace import append_to_workspace
from branches.commands.propose_change import require_admin
from branches.commands.refusal import Refused
from branches.evidence import ids
from branches.models import NoticeKind, Person, Webhook, Workspace
from branches.queries.clock import now
from branches.queries.secrets import webhook_secret
from branches.queries.targets import notice_targets
from branches.registry import names

MOST: Final = 20
"""So many webhooks a workspace may have at once."""


def add_webhook(
    *, person: Person, workspace: Workspace, target: str, kinds: Iterable[str]
) -> tuple[Webhook, str]:
    """Return the webhook and its secret (`whsec_…`), which is shown this once and never kept.

    The target must name an installed notifier: no other registered place is posted to. Raises Refused.
    """
    chosen = sorted(set(kinds))
    with transaction.atomic():
        require_admin(person, workspace)
        if not chosen:
            raise Refused(rule="required", field="kinds")
        if not set(chosen) <= set(NoticeKind.values):
            raise Refused(rule="enum", field="kinds")
        if notice_targets().get(target) not in names("notifiers"):
            raise Refused(rule="not_registered", field="target")
        lock_names([f"webhooks {workspace.uid}"])
        if Webhook.objects.filter(workspace=workspace, ended_at__isnull=True).count() >= MOST:
            raise Refused(rule="too_many", field="webhook")
        hook = Webhook.objects.create(
            uid=ids.mint("hook"), workspace=workspace, target=target, kinds=chosen, made_at=now()
        )
        secret = webhook_secret(hook.uid)
        _record(hook, "key_added", secret, person)
    return hook, "whsec_" + base64.b64encode(secret).decode()


def end_webhook(*, person: Person, webhook: Webhook) -> None:
    """Send no more notices there; what is on its way still arrives nowhere. Raises Refused."""
    with transaction.atomic():
        require_admin(person, webhook.workspace)
        if Webhook.objects.filter(pk=webhook.pk, ended_at__isnull=True).update(ended_at=now()):
            _record(webhook, "key_retired", webhook_secret(webhook.uid), person)


def _record(hook: Webhook, kind: str, secret: bytes, person: Person) -> None:
    key = "sha256:" + hashlib.sha256(b"branchgate/webhook/v1\0" + secret).hexdigest()
    append_to_workspace(
        workspace=hook.workspace,
        kind=kind,
        body={"key": key, "use": "webhook"},
        actor=Actor.person(person),
        subject=hook.uid,
    )
