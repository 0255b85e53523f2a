"""Delivers what is due, tries again what did not arrive, and gives up in the end: each is on record."""

import json
from datetime import timedelta
from smtplib import SMTPException
from typing import Final

from django.conf import settings
from django.core.mail import EmailMessage
from django.db import transaction

from branches.models import (
    ApprovalRequest,
    DeliveryState,
    Notice,
    NoticeDelivery,
    NoticeKind,
    RequestDelivery,
)
from branches.ports import NoticeMessage
from branches.queries.clock import now, stamp
from branches.queries.notice_words import notice_link, notice_words
from branches.queries.secrets import webhook_secret
from branches.queries.targets import TargetMissing, target
from branches.registry import PluginMissing, PluginUnfit, find

_PAUSES: Final = tuple(timedelta(minutes=minutes) for minutes in (1, 5, 30, 120, 480))
"""How long to wait after each failed try; after the last nobody tries again."""
_AT_ONCE: Final = 20
_CLAIMED: Final = timedelta(minutes=2)


def deliver_notices() -> list[str]:
    """Deliver up to twenty notices that are due; returns the ids of those that arrived."""
    due = NoticeDelivery.objects.filter(state=DeliveryState.DUE, due_at__lte=now()).order_by("due_at")
    return [uid for uid in list(due.values_list("uid", flat=True)[:_AT_ONCE]) if _deliver(uid)]


def _deliver(uid: str) -> bool:
    """Try once: claimed first, so that two workers do not send the same; then without holding a lock."""
    claimed = NoticeDelivery.objects.filter(uid=uid, state=DeliveryState.DUE, due_at__lte=now())
    if not claimed.update(due_at=now() + _CLAIMED):
        return False
    near = ("notice__workspace", "notice__run__root", "person", "webhook")
    delivery = NoticeDelivery.objects.select_related(*near).get(uid=uid)
    problem = _mail(delivery) if delivery.person_id is not None else _post(delivery)
    with transaction.atomic():
        _note(delivery, problem)
    return problem is None


def _note(delivery: NoticeDelivery, problem: str | None) -> None:
    delivery.tries += 1
    if problem is None:
        delivery.state, delivery.delivered_at, delivery.due_at = DeliveryState.DELIVERED, now(), None
    elif delivery.tries > len(_PAUSES):
        delivery.state, delivery.due_at = DeliveryState.GIVEN_UP, None
    else:
        delivery.due_at = now() + _PAUSES[delivery.tries - 1]
    delivery.problem = problem or ""
    delivery.save(update_fields=["state", "tries", "problem", "due_at", "delivered_at"])
    if delivery.notice.kind == NoticeKind.REQUESTED:
        _start_clock(delivery.notice, is_delivered=problem is None)


def _start_clock(notice: Notice, *, is_delivered: bool) -> None:
    """Let a request's clock run from its first delivery; where nothing arrives, from the inbox it is in."""
    waits = NoticeDelivery.objects.filter(notice=notice, state=DeliveryState.DUE).exists()
    if not is_delivered and waits:
        return
    request = ApprovalRequest.objects.filter(uid=notice.subject).first()
    if request is not None and not RequestDelivery.objects.filter(request=request).exists():
        RequestDelivery.objects.create(request=request, via="sent" if is_delivered else "inbox", at=now())


def _mail(delivery: NoticeDelivery) -> str | None:
    assert delivery.person is not None  # noqa: S101 - one of the two is there
    message = EmailMessage(
        subject=f"Branchgate: {notice_words(delivery.notice)}",
        body=f"{notice_words(delivery.notice)}.\n\n{notice_link(delivery.notice)}\n",
        from_email=settings.BRANCHGATE_MAIL_FROM,
        to=[delivery.person.email],
        headers={"Message-ID": f"<{delivery.uid}@branchgate>", "Auto-Submitted": "auto-generated"},
    )
    try:
        message.send()
    except SMTPException:
        return "mail_refused"
    except OSError:
        return "mail_unreachable"
    return None


def _post(delivery: NoticeDelivery) -> str | None:
    assert delivery.webhook is not None  # noqa: S101 - one of the two is there
    notice, hook = delivery.notice, delivery.webhook
    if hook.ended_at is not None:
        return "ended"
    body = {
        "type": f"branchgate.{notice.kind}",
        "timestamp": stamp(notice.made_at),
        "data": {"notice": notice.uid, "run": notice.run.uid, "link": notice_link(notice)},
    }
    message = NoticeMessage(
        delivery.uid, now(), json.dumps(body, sort_keys=True).encode(), webhook_secret(hook.uid)
    )
    try:
        return find("notifiers", "webhook").deliver(target(notice.workspace, hook.target), message)
    except TargetMissing:
        return "target_missing"
    except (PluginMissing, PluginUnfit):
        return "not_installed"
