"""What the tests of notices ask: which were raised, for whom, and where they are to be sent."""

import json
from pathlib import Path
from typing import Any

from django.conf import settings as configured

from branches.commands.admit import grant_role
from branches.commands.edit_content import edit_message
from branches.commands.request_approval import request_approval
from branches.commands.webhooks import add_webhook
from branches.models import (
    ApprovalRequest,
    Notice,
    NoticeDelivery,
    NoticeKind,
    Person,
    RequestDelivery,
    Role,
    Run,
    Webhook,
)
from tests.branches.test_approval_queue import ready
from tests.builders import World
from tests.plugins import FakeWorld

MARKER = "CONTENT-MARKER-7f3a"

HOOK = "pager"


def addressed(world: World, settings: Any) -> None:
    """Give everybody an address, and Linus the right to see; mail is sent."""
    settings.BRANCHGATE_MAIL_FROM = "branchgate@example.org"
    settings.BRANCHGATE_URL = "https://gate.example.org"
    grant_role(person=world.linus, workspace=world.workspace, role=Role.VIEWER)
    for person in (world.ada, world.grace, world.rosa, world.linus):
        Person.objects.filter(pk=person.pk).update(email=f"{person.get_username()}@example.org")


def told(kind: NoticeKind) -> list[list[str]]:
    """Return for each notice of a kind, oldest first, who is to hear of it by mail, by their short names."""
    found = []
    for notice in Notice.objects.filter(kind=kind).order_by("id"):
        rows = NoticeDelivery.objects.filter(notice=notice, person__isnull=False)
        names = rows.values_list("person__username", flat=True)
        found.append(sorted(name.partition("-")[0] for name in names))
    return found


def kinds() -> list[str]:
    return list(Notice.objects.order_by("id").values_list("kind", flat=True))


def place(name: str = HOOK, **options: Any) -> None:
    """Register a target beside those that are there; without options it vanishes."""
    path = Path(str(configured.BRANCHGATE_TARGETS))
    known = json.loads(path.read_text())
    known.pop(name, None)
    path.write_text(json.dumps({**known, **({name: options} if options else {})}))


def hooked(world: World, *kinds: str) -> tuple[Webhook, str]:
    chosen = kinds or (NoticeKind.REQUESTED,)
    return add_webhook(person=world.rosa, workspace=world.workspace, target=HOOK, kinds=chosen)


def asked(world: World, outside: FakeWorld) -> ApprovalRequest:
    return request_approval(person=world.ada, branch=ready(world, outside))


def only() -> NoticeDelivery:
    return NoticeDelivery.objects.get()


def via(request: ApprovalRequest) -> list[str]:
    return list(RequestDelivery.objects.filter(request=request).values_list("via", flat=True))


def edit(world: World, branch: Run, text: str = MARKER) -> None:
    edit_message(
        person=world.ada,
        branch=branch,
        target=world.hmac("message", "brief"),
        text=text,
        edit_class="add_detail",
    )
