"""The bypass audit: asks a destination for all that arrived, and says what no receipt accounts for."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from django.db import transaction

from branches.commands.append_receipt import Actor, append_receipt, lock_families
from branches.commands.guards import Wanted, always
from branches.commands.raise_notice import raise_notice
from branches.commands.refusal import Refused
from branches.commands.supersede_requests import supersede_requests
from branches.evidence.kinds.product import MOST_UNACCOUNTED
from branches.models import NoticeKind, Role, Run
from branches.ports import Arrival, ListsArrivals
from branches.queries.arrivals import accounted_keys
from branches.queries.branch_facts import branch_view
from branches.queries.standings import roster_of
from branches.queries.targets import TargetMissing, target
from branches.registry import find
from branches.rules.quorum import Standing

CANNOT_LIST: Final = "cannot_list"
MARGIN: Final = timedelta(seconds=60)


def audit_arrivals(*, branch: Run, destination: str, is_wanted: Wanted = always) -> int:
    """Record on the family's root what arrived and which of it no receipt accounts for; returns how many.

    A destination that cannot list says nothing, and nothing is recorded of it; nor is what is no longer
    wanted. Raises Refused.
    """
    view = branch_view(branch)
    rule = view.declaration.destinations.get(destination) if view.declaration else None
    if rule is None or view.checkpoint is None:
        raise Refused(rule="declared", field="destination")
    lister = find("destinations", rule.query)
    if not isinstance(lister, ListsArrivals):
        raise Refused(rule=CANNOT_LIST, field="destination")
    # The writer's clock may run ahead, and the destination's behind.
    since = min(view.checkpoint.at, view.checkpoint.recorded_at) - MARGIN
    try:
        found = lister.arrivals(target(branch.workspace, rule.target), since)
    except TargetMissing:
        found = None
    if found is None:
        raise Refused(rule=CANNOT_LIST, field="destination")
    return _record(branch, destination, since, found, is_wanted)


def _strange(found: Iterable[Arrival], known: frozenset[str]) -> Iterable[Arrival]:
    """Yield what no receipt accounts for; of several arrivals under one key one is accounted for."""
    met: set[str] = set()
    for arrival in sorted(found, key=lambda each: each.ref):
        key = arrival.operation_key
        if key is None or key not in known:
            yield arrival
        elif key in met:
            yield replace(arrival, operation_key=None)  # the receipt of that key is another's
        else:
            met.add(key)


def _record(branch: Run, destination: str, since: datetime, found: list[Arrival], is_wanted: Wanted) -> int:
    with transaction.atomic():
        lock_families([branch.family_id])
        root = branch if branch.root is None else branch.root
        keys = {arrival.operation_key for arrival in found if arrival.operation_key is not None}
        known = accounted_keys(branch.workspace, keys)
        strange = list(_strange(found, known))
        if not is_wanted():
            return len(strange)
        append_receipt(
            run=root,
            kind="arrivals_audited",
            body={
                "destination": destination,
                "since": since.isoformat(),
                "arrived": len(found),
                "unaccounted": [
                    {"arrival": each.ref, "operation_key": each.operation_key}
                    for each in sorted(strange, key=lambda each: each.ref)[:MOST_UNACCOUNTED]
                ],
                "more": max(0, len(strange) - MOST_UNACCOUNTED),
            },
            actor=Actor.product(branch.workspace),
            subject=destination,
        )
        if strange:
            raise_notice(
                run=root,
                kind=NoticeKind.UNACCOUNTED,
                subject=destination,
                about=[each.ref for each in strange],
                concerned=_concerned(branch, destination),
            )
        supersede_requests(root_ids=[branch.family_id])
    return len(strange)


def _concerned(branch: Run, destination: str) -> set[str]:
    """Return who ought to hear of it: whose branch it holds up, and whose place it is."""
    owner = Standing(Role.DESTINATION_OWNER, destination)
    owners = {uid for uid, voter in roster_of(branch.workspace).items() if owner in voter.standings}
    return owners if branch.parent_id is None else owners | {branch.fork_point.forker.uid}
