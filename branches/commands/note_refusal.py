"""Writes on a workspace's chain what somebody there was refused; what a form lacked is no refusal."""

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from django.db import transaction

from branches.commands.append_receipt import Actor
from branches.commands.append_to_workspace import append_to_workspace
from branches.evidence import ids
from branches.models import Person, Workspace, WorkspaceReceipt
from branches.queries.clock import now, parse
from branches.queries.lookups import workspaces_of

FORM_FAULTS: Final = frozenset(
    {"enum", "required", "required_if_supported", "pattern", "declared", "unknown", "unknown_here", "type"}
    | {"max_bytes", "too_many", "json", "email", "disjoint", "moment", "in_the_future", "weak_password"}
)
ONCE_IN: Final = timedelta(minutes=1)
"""Whoever is refused the same again so soon adds nothing: no chain grows by knocking."""


def note_refusal(
    *, person: Person, workspace: Workspace, action: str, rule: str, subject: str | None = None
) -> None:
    """Record that a rule said no to a person's act: of the rule its name, without what it was about."""
    name = rule.partition(":")[0]
    if name in FORM_FAULTS:
        return
    about = subject if subject is not None and ids.is_id(subject) else None
    _note(workspace, Actor.person(person), {"action": action, "rule": name, "subject": about})


def note_failed_sign_in(*, person: Person) -> None:
    """Record in every workspace of a person that somebody failed to sign in as them."""
    for workspace in sorted(workspaces_of(person), key=lambda each: each.pk):
        _note(
            workspace,
            Actor.product(workspace),
            {"action": "sign_in", "rule": "wrong_credentials", "subject": person.uid},
        )


def _note(workspace: Workspace, actor: Actor, body: Mapping[str, str | None]) -> None:
    with transaction.atomic():
        if not _was_just_said(workspace, actor, body):
            append_to_workspace(
                workspace=workspace, kind="refused", body=body, actor=actor, subject=body["subject"]
            )


def _was_just_said(workspace: Workspace, actor: Actor, body: Mapping[str, str | None]) -> bool:
    same = WorkspaceReceipt.objects.filter(
        workspace=workspace, kind="refused", writer=actor.id, subject=body["subject"]
    )
    text = same.order_by("-seq").values_list("body", flat=True).first()
    if text is None:
        return False
    newest = json.loads(text)
    return newest["body"] == body and now() - parse(newest["recorded_at"]) < ONCE_IN
