"""The page of notices: what was said, to whom it went and what became of it; webhooks and one's own mail."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.conf import settings

from branches.models import DeliveryState, Notice, NoticeDelivery, NoticeKind, Webhook, Workspace
from branches.queries.lookups import NotHere
from branches.queries.notice_words import notice_path, notice_words
from branches.queries.targets import notice_targets

MOST: Final = 40
_PROBLEMS: Final = {
    "mail_refused": "the mail server refused it",
    "mail_unreachable": "the mail server did not answer",
    "mail_unfit": "no mail can be made for that address",
    "not_wanted": "nobody waits for it there any more",
    "target_missing": "no such target is registered any more",
    "target_unfit": "the target’s options are wrong",
    "not_installed": "its notifier is not installed",
    "not_taken": "the receiver did not take it",
    "address_refused": "its address may not be reached",
    "no_address": "its name has no address",
    "no_connection": "no connection",
    "no_answer": "no answer",
    "timeout": "too slow",
}


@dataclass(frozen=True, slots=True)
class DeliveryRow:
    """A notice on its way to one receiver, who is shown by name alone."""

    receiver: str
    is_mail: bool
    state: str
    tries: int
    problem: str
    delivered_at: datetime | None
    due_at: datetime | None


@dataclass(frozen=True, slots=True)
class NoticeRow:
    """A notice in words, with where to look, and its deliveries."""

    uid: str
    words: str
    remark: str
    """What it means for whoever reads it, where that is not plain."""
    path: str
    made_at: datetime
    deliveries: tuple[DeliveryRow, ...]


@dataclass(frozen=True, slots=True)
class WebhookRow:
    """A webhook with its kinds in words; `is_known` says whether its target may still be sent notices."""

    uid: str
    target: str
    kinds: tuple[str, ...]
    made_at: datetime
    ended_at: datetime | None
    is_known: bool


@dataclass(frozen=True, slots=True)
class NoticesPage:
    """Everything the page shows."""

    notices: tuple[NoticeRow, ...]
    webhooks: tuple[WebhookRow, ...]
    targets: tuple[str, ...]
    kinds: tuple[tuple[str, str], ...]


def notices_page(workspace: Workspace) -> NoticesPage:
    """Return the newest notices of a workspace and its webhooks, those in use first."""
    targets = tuple(notice_targets())
    hooks = Webhook.objects.filter(workspace=workspace).order_by("-id")
    rows = [_webhook(hook, targets) for hook in hooks[:MOST]]
    return NoticesPage(
        notices=notice_rows(workspace, MOST),
        webhooks=tuple(sorted(rows, key=lambda row: row.ended_at is not None)),
        targets=targets,
        kinds=tuple((kind.value, str(kind.label)) for kind in NoticeKind),
    )


def notice_rows(workspace: Workspace, most: int) -> tuple[NoticeRow, ...]:
    """Return the newest notices of a workspace."""
    found = Notice.objects.filter(workspace=workspace).select_related("run__root").order_by("-id")
    near = found.prefetch_related("deliveries__person", "deliveries__webhook")
    return tuple(_notice(notice, notice.deliveries.all()) for notice in near[:most])


def webhook_named(workspace: Workspace, uid: str) -> Webhook:
    """Return a webhook by its id. Raises NotHere."""
    found = Webhook.objects.filter(workspace=workspace, uid=uid[:40]).select_related("workspace").first()
    if found is None:
        raise NotHere
    return found


def _notice(notice: Notice, deliveries: Iterable[NoticeDelivery]) -> NoticeRow:
    rows = tuple(_delivery(each) for each in sorted(deliveries, key=lambda each: each.pk))
    remark = ""
    if notice.kind == NoticeKind.UNACCOUNTED:
        remark = f"at {notice.subject}; gate 3 of the run’s branches is shut until somebody settles it"
    return NoticeRow(notice.uid, notice_words(notice), remark, notice_path(notice), notice.made_at, rows)


def _delivery(each: NoticeDelivery) -> DeliveryRow:
    if each.person is not None:
        receiver = each.person.get_username()
    else:
        receiver = each.webhook.target if each.webhook is not None else ""
    return DeliveryRow(
        receiver=receiver,
        is_mail=each.person is not None,
        state=DeliveryState(each.state).value,
        tries=each.tries,
        problem=_PROBLEMS.get(each.problem, each.problem.replace("_", " ")),
        delivered_at=each.delivered_at,
        due_at=each.due_at,
    )


def _webhook(hook: Webhook, targets: tuple[str, ...]) -> WebhookRow:
    kinds = tuple(str(NoticeKind(kind).label) for kind in hook.kinds if kind in NoticeKind.values)
    return WebhookRow(hook.uid, hook.target, kinds, hook.made_at, hook.ended_at, hook.target in targets)


def mail_is_sent() -> bool:
    """Return whether this installation mails notices at all."""
    return bool(settings.BRANCHGATE_MAIL_FROM)
