"""Puts a notice on its way: to each webhook that wants its kind, and by mail to whom it concerns."""

from collections.abc import Iterable

from django.conf import settings

from branches.evidence import ids
from branches.models import Notice, NoticeDelivery, Person, Webhook
from branches.queries.clock import now
from branches.queries.standings import roster_of


def queue_deliveries(*, notice: Notice, concerned: Iterable[str]) -> int:
    """Return how many deliveries are due now; `concerned` are people by the ids that receipts name.

    Whoever belongs to the workspace no longer hears nothing of it.
    """
    hooks = Webhook.objects.filter(workspace=notice.workspace, ended_at__isnull=True).order_by("id")
    made = [_row(notice, webhook=hook) for hook in hooks if notice.kind in hook.kinds]
    if settings.BRANCHGATE_MAIL_FROM:
        here = roster_of(notice.workspace).keys() & set(concerned)
        people = Person.objects.filter(uid__in=here, is_active=True, by_mail=True)
        made += [_row(notice, person=person) for person in people.exclude(email="").order_by("id")]
    NoticeDelivery.objects.bulk_create(made)
    return len(made)


def _row(notice: Notice, *, webhook: Webhook | None = None, person: Person | None = None) -> NoticeDelivery:
    return NoticeDelivery(uid=ids.mint("dlv"), notice=notice, webhook=webhook, person=person, due_at=now())
