"""Whether a loop went on after it stopped for an approval: its next stop, or its first work after one."""

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Final

from django.db.models import Max, Q, QuerySet

from branches.models import Receipt
from branches.queries.chains import Link, link

# What only a loop that goes on does. An answer may still come to what was asked for before the stop, and
# handoffs are written outside of it: neither says that the loop went on.
GOING_ON: Final = frozenset(
    {
        *("message", "checkpoint", "interaction", "progress"),
        *("effect_intended", "effect_reused", "effect_held", "effect_skipped"),
    }
)
WORK: Final = GOING_ON | {"effect_answered", "handoff"}
_SETTLING: Final = frozenset({"completed", "rejected", "released", "outcome_verified", "outcome_failed"})
"""Handoff events that settle what was done before, and are no work themselves."""
_MOST_AFTER: Final = 500
_MOST_BEFORE: Final = 50
"""A stop that comes so many receipts late still has its place by when it happened."""
_FIRST_YEAR: Final = 1971
"""Importers write the epoch where their source holds no time."""


def one_a_loop(stops: Iterable[Link]) -> list[Link]:
    """Return the stops of a run, oldest first as recorded, of a loop that has a name only its newest word."""
    return list({item.body.get("loop_ref") or item.event_id: item for item in stops}.values())


def is_wait(stopped: Link) -> bool:
    """Return whether a loop stopped for an approval."""
    return stopped.body["stop_cause"] == "approval_requested" or stopped.body["approval"] is not None


def gone_on(stops: Sequence[Link]) -> dict[str, Link]:
    """Return by event id of each stop for an approval what shows that its loop went on after it.

    That is a later stop of the same loop, else the first work after it. Of a loop with a name only its next
    stop could say so, because several may work at once; and a loop whose stop names its agent is answered by
    that agent alone. A stop that is not there waits still, for all that is known. Each receipt is looked at
    once, and each waiting stop by a bounded number of them: the cost grows with their sum.
    """
    waits = [item for item in stops if is_wait(item) and item.body.get("loop_ref") is None]
    following = _next_stops(stops) if waits else {}
    found = {item.event_id: following[item.event_id] for item in waits if item.event_id in following}
    return found | first_work([item for item in waits if item.event_id not in found], GOING_ON)


def went_on(newest: Iterable[Link]) -> frozenset[int]:
    """Return the runs whose newest stop waited for an approval and that went on, by the order of receipts.

    One query for any number of runs; the page of a run looks at times as well.
    """
    waits = {item.run_id: item for item in newest if is_wait(item) and item.body.get("loop_ref") is None}
    rows = Receipt.objects.filter(run_id__in=waits, kind__in=GOING_ON)
    last = rows.values_list("run_id", "writer").annotate(last=Max("seq"))
    return frozenset(
        run_id for run_id, writer, seq in last if writer == waits[run_id].writer and seq > waits[run_id].seq
    )


def _next_stops(stops: Iterable[Link]) -> dict[str, Link]:
    """Return by the event id of each stop without a loop's name the next stop of its loop."""
    of_loop: defaultdict[tuple[str, str | None], list[Link]] = defaultdict(list)
    for item in stops:
        if item.body.get("loop_ref") is None:
            for name in {None, item.actor.get("name")}:
                of_loop[item.writer, name].append(item)
    return {
        one.event_id: following
        for (_, name), found in of_loop.items()
        for one, following in pairwise(_in_order(found))
        if one.actor.get("name") == name
    }


def _in_order(found: list[Link]) -> list[Link]:
    """Return one writer's receipts as they happened; as recorded, where one of them has no time."""
    if any(_time(item).year < _FIRST_YEAR for item in found):
        return sorted(found, key=lambda item: item.id)
    return sorted(found, key=lambda item: (_time(item), item.id))


def _time(item: Link) -> datetime:
    return min(item.at, item.recorded_at)


def is_later(item: Link, other: Link) -> bool:
    """Return whether one of a writer's receipts is the later: by their times, where both have one."""
    one, two = _time(item), _time(other)
    if one == two or one.year < _FIRST_YEAR or two.year < _FIRST_YEAR:
        return item.id > other.id
    return one > two


def first_work(stops: Iterable[Link], kinds: frozenset[str]) -> dict[str, Link]:
    """Return by event ids of stops the first work of these kinds after each, by the stop's own writer.

    What came late is told by its time. Of `WORK` whoever the writer wrote for counts, of `GOING_ON` only the
    stop's own loop.
    """
    by_writer: defaultdict[tuple[int, str], list[Link]] = defaultdict(list)
    for item in stops:
        by_writer[item.run_id, item.writer].append(item)
    found: dict[str, Link] = {}
    for (run_id, writer), own in by_writer.items():
        rows = Receipt.objects.filter(run_id=run_id, writer=writer, kind__in=kinds)
        after = _looked_up(rows, own, kinds, forwards=True)
        late = _looked_up(rows, [each for each in own if each.event_id not in after], kinds, forwards=False)
        found |= after | late
    return found


def _looked_up(
    rows: QuerySet[Receipt], stops: Iterable[Link], kinds: frozenset[str], *, forwards: bool
) -> dict[str, Link]:
    """Walk along a writer's receipts once, and skip what is near to none of its stops."""
    most = _MOST_AFTER if forwards else _MOST_BEFORE
    ahead = deque(sorted(stops, key=lambda each: each.seq, reverse=not forwards))
    found: dict[str, Link] = {}
    while ahead:
        side = Q(seq__gt=ahead[0].seq) if forwards else Q(seq__lt=ahead[0].seq)
        near: dict[str, Link] = {}
        seen: dict[str, int] = {}
        for item in map(link, rows.filter(side).order_by("seq" if forwards else "-seq").iterator(50)):
            while ahead and (ahead[0].seq < item.seq) is forwards:
                stop = ahead.popleft()
                near[stop.event_id] = stop
            for event_id, stop in list(near.items()):
                seen[event_id] = seen.get(event_id, 0) + 1
                if _is_work_after(item, stop, kinds):
                    found[event_id] = item
                if event_id in found or seen[event_id] >= most:
                    del near[event_id]
            if not near:
                break
        else:
            return found
    return found


def _is_work_after(item: Link, stop: Link, kinds: frozenset[str]) -> bool:
    if item.kind == "handoff" and item.body["event"] in _SETTLING:
        return False
    is_own = kinds == WORK or _is_of_the_loop(item, stop)
    return is_own and is_later(item, stop)


def _is_of_the_loop(item: Link, stopped: Link) -> bool:
    """Return whether a receipt is of the loop of a stop without a name, as far as writers and agents say."""
    same_agent = stopped.actor.get("name") in {None, item.actor.get("name")}
    return item.writer == stopped.writer and item.body.get("loop_ref") is None and same_agent
