"""Adds and ends the webhooks of a workspace; where they go is a target that the operator registered."""

import base64
import hashlib
from collections.abc import Iterable

from django.db import transaction

from branches.commands.append_receipt import Actor
from branches.commands.append_to_workspace import append_to_workspace
from branches.commands.change_policy import require_admin
from branches.commands.refusal import Refused
from branches.evidence import ids
from branches.models import NoticeKind, Person, Webhook, Workspace
from branches.queries.clock import now
from branches.queries.secrets import webhook_secret
from branches.queries.targets import registered


def add_webhook(
    *, person: Person, workspace: Workspace, target: str, kinds: Iterable[str]
) -> tuple[Webhook, str]:
    """Return the webhook and its secret (`whsec_…`), which is shown this once and never kept."""
    require_admin(person, workspace)
    chosen = sorted(set(kinds))
    if not chosen or not set(chosen) <= set(NoticeKind.values):
        raise Refused(rule="enum", field="kinds")
    if not isinstance(registered().get(target), dict):
        raise Refused(rule="not_registered", field="target")
    with transaction.atomic():
        hook = Webhook.objects.create(
            uid=ids.mint("hook"), workspace=workspace, target=target[:96], kinds=chosen, made_at=now()
        )
        secret = webhook_secret(hook.uid)
        _record(hook, "key_added", secret, person)
    return hook, "whsec_" + base64.b64encode(secret).decode()


def end_webhook(*, person: Person, webhook: Webhook) -> None:
    """Send no more notices there."""
    require_admin(person, webhook.workspace)
    with transaction.atomic():
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
