"""Delivers what is due, tries again what did not arrive, and gives up in the end: each is on record."""

import json
from datetime import datetime, timedelta
from smtplib import SMTPConnectError, SMTPException, SMTPServerDisconnected
from typing import Final

from django.conf import settings
from django.core.mail import EmailMessage
from django.db import transaction

from branches.commands.append_receipt import lock_families
from branches.commands.fit_answers import fit_problem
from branches.commands.plugin_words import BREAKS, broke
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
from branches.queries.standings import roster_of
from branches.queries.targets import TargetMissing, notifier_of, target
from branches.registry import PluginMissing, PluginUnfit, find

PAUSES: Final = tuple(timedelta(minutes=minutes) for minutes in (1, 5, 30, 120, 480))
"""How long to wait after each failed try; after the last nobody tries again."""
AT_ONCE: Final = 20
CLAIMED: Final = timedelta(minutes=2)
"""So long a delivery is one worker's; it is taken up again where that one was lost."""
_LONGEST: Final = timedelta(seconds=20)
"""After so long no other delivery is begun: a slow receiver holds up no sweep."""
_UNWANTED: Final = "not_wanted"
"""Nobody is waiting there any more; it is not tried again."""


def deliver_notices() -> list[str]:
    """Deliver up to twenty notices that are due; returns the ids of those that arrived."""
    began = now()
    due = NoticeDelivery.objects.filter(state=DeliveryState.DUE, due_at__lte=began).order_by("due_at")
    arrived = []
    for uid in list(due.values_list("uid", flat=True)[:AT_ONCE]):
        if now() - began > _LONGEST:
            break
        if _deliver(uid):
            arrived.append(uid)
    return arrived


def _deliver(uid: str) -> bool:
    """Try once: claimed first, so that two workers do not send the same; then without holding a lock."""
    until = now() + CLAIMED
    claimed = NoticeDelivery.objects.filter(uid=uid, state=DeliveryState.DUE, due_at__lte=now())
    if not claimed.update(due_at=until):
        return False
    near = ("notice__workspace", "notice__run__root", "person", "webhook")
    delivery = NoticeDelivery.objects.select_related(*near).get(uid=uid)
    problem = _mail(delivery) if delivery.person_id is not None else _post(delivery)
    with transaction.atomic():
        lock_families([delivery.notice.run.family_id])
        _note(delivery, problem, until)
    return problem is None


def _note(delivery: NoticeDelivery, problem: str | None, until: datetime) -> None:
    """Write what a try came to, unless it took so long that another worker has taken it up since."""
    tries = delivery.tries + 1
    came_to = {"tries": tries, "problem": problem or "", "due_at": None, "delivered_at": None}
    if problem is None:
        came_to |= {"state": DeliveryState.DELIVERED, "delivered_at": now()}
    elif problem == _UNWANTED or tries > len(PAUSES):
        came_to |= {"state": DeliveryState.GIVEN_UP}
    else:
        came_to |= {"due_at": now() + PAUSES[tries - 1]}
    mine = NoticeDelivery.objects.filter(pk=delivery.pk, state=DeliveryState.DUE, due_at=until)
    if mine.update(**came_to) and delivery.notice.kind == NoticeKind.REQUESTED:
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
    person, notice = delivery.person, delivery.notice
    assert person is not None  # noqa: S101 - one of the two is there
    if not (person.is_active and person.by_mail and person.email):
        return _UNWANTED
    if person.uid not in roster_of(notice.workspace):
        return _UNWANTED
    message = EmailMessage(
        subject=f"Branchgate: {notice_words(notice)}",
        body=f"{notice_words(notice)}.\n\n{notice_link(notice)}\n",
        from_email=settings.BRANCHGATE_MAIL_FROM,
        to=[person.email],
        headers={"Message-ID": f"<{delivery.uid}@branchgate>", "Auto-Submitted": "auto-generated"},
    )
    # What the server says of it may repeat the address, and is not kept.
    try:
        message.send()
    except (SMTPConnectError, SMTPServerDisconnected):
        return "mail_unreachable"
    except SMTPException:
        return "mail_refused"
    except OSError:
        return "mail_unreachable"
    except ValueError:
        return "mail_unfit"  # an address or a sender that no header takes
    return None


def _post(delivery: NoticeDelivery) -> str | None:
    notice, hook = delivery.notice, delivery.webhook
    assert hook is not None  # noqa: S101 - one of the two is there
    if hook.ended_at is not None:
        return _UNWANTED
    body = {
        "type": f"branchgate.{notice.kind}",
        "timestamp": stamp(notice.made_at),
        "data": {"notice": notice.uid, "run": notice.run.uid, "link": notice_link(notice)},
    }
    text = json.dumps(body, sort_keys=True).encode()
    try:
        place = target(notice.workspace, hook.target)
        notifier = find("notifiers", notifier_of(place.options))
        message = NoticeMessage(delivery.uid, now(), text, webhook_secret(hook.uid))
        return fit_problem(notifier.deliver(place, message))
    except TargetMissing:
        return "target_missing"
    except (PluginMissing, PluginUnfit):
        return "not_installed"
    except BREAKS as error:
        return broke(error)
