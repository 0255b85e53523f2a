"""Counts the edges between agents as they arrive, so that an audit costs the same however many there were."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from django.db.models import F

from branches.models import EdgeCount, Run

type _Key = tuple[str, str, str, str, str]


def count_edges(*, run: Run, receipts: Sequence[Mapping[str, Any]]) -> None:
    """Add a batch's interactions to the run's counts; the caller holds the family's lock."""
    first: dict[_Key, str] = {}
    seen: Counter[_Key] = Counter()
    for receipt in receipts:
        if receipt["kind"] == "interaction":
            body = receipt["body"]
            key: _Key = (
                body["from"],
                body["to"],
                body["kind"],
                body["contract_version"] or "",
                body["status"],
            )
            first.setdefault(key, receipt["event_id"])
            seen[key] += 1
    for key, count in seen.items():
        source, target, kind, version, status = key
        edge = {"source": source, "target": target, "kind": kind, "version": version, "status": status}
        known = EdgeCount.objects.filter(run=run, **edge).update(count=F("count") + count)
        if not known:
            EdgeCount.objects.create(run=run, **edge, count=count, first_event=first[key])
