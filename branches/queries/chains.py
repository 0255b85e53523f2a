"""Receipts by run and kind, parsed once."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Q

from branches.models import Receipt, Run
from branches.queries.clock import parse


@dataclass(frozen=True, slots=True)
class Link:
    """One receipt as the rules and pages read it."""

    id: int
    run_id: int
    seq: int
    event_id: str
    kind: str
    subject: str | None
    writer: str
    digest: str
    at: datetime
    recorded_at: datetime
    actor: dict[str, Any]
    body: dict[str, Any]


def link(row: Receipt) -> Link:
    """Return a receipt row with its bytes parsed."""
    full = json.loads(row.body)
    return Link(
        id=row.pk,
        run_id=row.run_id,
        seq=row.seq,
        event_id=row.event_id,
        kind=row.kind,
        subject=row.subject,
        writer=row.writer,
        digest=row.digest,
        at=parse(full["at"]),
        recorded_at=parse(full["recorded_at"]),
        actor=full["actor"],
        body=full["body"],
    )


def head(run_id: int) -> tuple[int, str | None]:
    """Return the last seq and digest of a run's chain, or (0, None) for an empty one."""
    row = Receipt.objects.filter(run_id=run_id).order_by("-seq").values_list("seq", "digest").first()
    return row or (0, None)


def heads(run_ids: Iterable[int]) -> dict[int, tuple[int, str | None]]:
    """Return the heads of several runs."""
    return {run_id: head(run_id) for run_id in run_ids}


def links(run_ids: Iterable[int], kinds: Iterable[str], *, where: Q | None = None) -> list[Link]:
    """Return the receipts of these kinds in these runs, oldest first as the server recorded them."""
    rows = Receipt.objects.filter(run_id__in=list(run_ids), kind__in=list(kinds))
    if where is not None:
        rows = rows.filter(where)
    return [link(row) for row in rows.order_by("id")]


def latest(run_id: int, kind: str, subject: str | None = None) -> Link | None:
    """Return the newest receipt of a kind (about a subject), or None."""
    rows = Receipt.objects.filter(run_id=run_id, kind=kind)
    if subject is not None:
        rows = rows.filter(subject=subject)
    row = rows.order_by("-seq").first()
    return link(row) if row else None


def newest_by_subject(found: Iterable[Link]) -> dict[str, Link]:
    """Return the newest of each subject; the list is in order of recording."""
    return {item.subject: item for item in found if item.subject is not None}


def exact_bytes(run: Run, *, from_seq: int = 1) -> Iterator[bytes]:
    """Yield a run's receipts as they were hashed, in order."""
    rows = Receipt.objects.filter(run=run, seq__gte=from_seq).order_by("seq").values_list("body", flat=True)
    for text in rows.iterator(chunk_size=2000):
        yield text.encode()
