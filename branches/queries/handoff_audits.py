"""Who owns the work: the operations of a run, judged from its receipts by the limits that were declared."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db.models import Max, Q

from branches.evidence.domains import REF
from branches.models import AuditState, Receipt, Run
from branches.queries.chains import Link, latest, links
from branches.queries.clock import stamp
from branches.queries.declarations import Declaration, declaration_of
from branches.queries.secrets import workspace_key
from branches.queries.writers import counted_writers, writers_of
from branches.rules.facts import FactError
from branches.rules.handoffs import judge_handoff, parse_handoff
from branches.rules.verdicts import HandoffState, HandoffVerdict

MOST_SHOWN: Final = 300
"""As many operations of a run are judged for a page, those that moved last."""
NEEDS_ATTENTION: Final = frozenset(
    set(HandoffState) - {HandoffState.WORKING, HandoffState.DELEGATED, HandoffState.VERIFIED}
)
_SAID: Final = ("receiver", "expected_artifact", "dependency", "deadline", "reason")
_INDEPENDENT: Final = frozenset({"destination", "validator", "human"})


@dataclass(frozen=True, slots=True)
class HandoffAudit:
    """One operation: its handoff receipts, oldest first, and what the rules say of them."""

    operation: str
    events: tuple[Link, ...]
    verdict: HandoffVerdict
    untrusted: frozenset[int] = frozenset()
    """The rows of those among its events whose writer was not entitled to them."""
    delivers: bool = False
    """Whether it is the one that promises the outcome which the workflow declares."""
    checked: Link | None = None
    """The run's newest outcome receipt, where it counts as an event of this operation."""

    @property
    def holder(self) -> str | None:
        """The receiver of the newest delegation."""
        receivers = [
            event.body.get("receiver") for event in self.counted if event.body["event"] == "delegated"
        ]
        return receivers[-1] if receivers else None

    @property
    def trusted(self) -> tuple[Link, ...]:
        """Its events that count."""
        return tuple(each for each in self.events if each.id not in self.untrusted)

    @property
    def counted(self) -> tuple[Link, ...]:
        """What a card says of it rests on these: its events that count, or all where none does."""
        return self.trusted or self.events

    @property
    def attempts(self) -> int:
        """How many delegation attempts there were."""
        return len({each.body["handoff"] for each in self.counted})

    @property
    def is_completed(self) -> bool:
        """Whether its newest attempt says that it is done."""
        last = self.delegation
        return last is not None and any(
            each.body["event"] == "completed" and each.body["handoff"] == last.body["handoff"]
            for each in self.trusted
        )

    @property
    def receivers(self) -> frozenset[str]:
        """Everybody to whom it was delegated."""
        found = (each.body.get("receiver") for each in self.counted if each.body["event"] == "delegated")
        return frozenset(name for name in found if name)

    @property
    def newest(self) -> Link:
        """The receipt about it that was recorded last."""
        return (
            self.events[-1]
            if self.checked is None
            else max(self.events[-1], self.checked, key=lambda each: each.id)
        )

    @property
    def delegation(self) -> Link | None:
        """Its newest delegation that counts, as recorded."""
        found = [each for each in self.trusted if each.body["event"] == "delegated"]
        return found[-1] if found else None

    @property
    def dependency(self) -> str | None:
        """What its newest wait is for."""
        return self._newest_wait.get("dependency")

    @property
    def deadline(self) -> str | None:
        """Until when its newest wait may last, as the receipt says it."""
        return self._newest_wait.get("deadline")

    @property
    def _newest_wait(self) -> Mapping[str, Any]:
        """The body of the wait that came last by when it happened, as the rules order events."""
        waits = [event for event in self.counted if event.body["event"] == "waiting"]
        newest = max(waits, key=lambda each: (min(each.at, each.recorded_at), each.id), default=None)
        return {} if newest is None else newest.body


def handoffs_now(
    run: Run, now: datetime, *, only: Collection[str] | None = None, most: int | None = None
) -> Iterator[HandoffAudit]:
    """Judge the operations of a run now, or only some, by the limits that its workflow declares.

    One whose receipts do not fit together is uncertain: they are evidence of nothing. With `most` only so
    many are judged that moved last, and as many that needed attention when they were last looked at.
    """
    declaration = declaration_of(run)
    limits = dict(declaration.handoffs.limits) if declaration else {}
    found = links([run.pk], ("handoff",), where=_those(run, only, most))
    by_operation: dict[str, list[Link]] = {}
    for item in found:
        by_operation.setdefault(item.body["operation"], []).append(item)
    writers = writers_of(run, found)
    promised = Promised.of(run, declaration) if found else Promised()
    for operation, events in by_operation.items():
        untrusted = writers.untrusted(events)
        told = _told_once(events, untrusted)
        delivers = promised.is_by(told, untrusted)
        outcome = promised.event(told, untrusted, now) if delivers else None
        facts = {
            "operation_id": operation,
            "now": stamp(now),
            "limits": limits,
            "events": [
                *(_handoff_event(item, now, trusted=item.id not in untrusted) for item in told),
                *([outcome] if outcome is not None else []),
            ],
        }
        try:
            verdict = judge_handoff(parse_handoff(facts))
        except FactError:
            verdict = judge_handoff(parse_handoff({**facts, "evidence": "unavailable", "events": []}))
        checked = promised.checked if outcome is not None else None
        yield HandoffAudit(operation, tuple(events), verdict, untrusted, delivers, checked)


@dataclass(frozen=True, slots=True)
class Promised:
    """The outcome that a run's workflow declares, as a delegation names it, and what was last found of it."""

    artifact: str | None = None
    checked: Link | None = None

    @classmethod
    def of(cls, run: Run, declaration: Declaration | None) -> "Promised":
        """Read what a run promised."""
        if declaration is None:
            return cls()
        artifact = workspace_key(run.workspace).digest(REF, declaration.outcome.expected)
        checked = latest(run.pk, "outcome_checked")
        is_of_it = checked is not None and checked.body["expected"] == declaration.outcome.expected
        return cls(artifact, checked if is_of_it else None)

    def is_by(self, events: Iterable[Link], untrusted: frozenset[int]) -> bool:
        """Return whether an operation is the one that delivers it."""
        return self.artifact is not None and any(
            each.body["event"] == "delegated" and each.body.get("expected_artifact") == self.artifact
            for each in events
            if each.id not in untrusted
        )

    def event(
        self, events: Iterable[Link], untrusted: frozenset[int], now: datetime
    ) -> dict[str, Any] | None:
        """Return the newest check as an event of the operation that promised it, or None where it is none.

        As gate 6 reads it: passed counts where it is fresh, and one who was not reached said nothing. That
        it is not there yet says nothing either before somebody said that it is.
        """
        checked = self.checked
        if checked is None or checked.body["issuer"]["type"] not in _INDEPENDENT:
            return None
        passed = checked.body["check"] == "passed" and checked.body["fresh"]
        if not passed and checked.body["check"] != "failed":
            return None
        before = [
            each for each in events if each.id not in untrusted and _at(each, now) <= checked.recorded_at
        ]
        attempt = _attempt(before, "accepted" if passed else "completed")
        if attempt is None and passed:
            attempt = _attempt(before, "delegated")
        if attempt is None:
            return None
        issuer = checked.body["issuer"]
        return {
            "handoff_id": attempt,
            "event": "outcome_verified" if passed else "outcome_failed",
            "at": stamp(min(checked.recorded_at, now)),
            "agent": issuer["name"] or f"outcome:{issuer['type']}",
            "trusted": True,
        }


def _attempt(events: Iterable[Link], event: str) -> str | None:
    """Return the handoff of the newest event of a kind."""
    found = [each for each in events if each.body["event"] == event]
    newest = max(found, key=lambda each: (min(each.at, each.recorded_at), each.id), default=None)
    return None if newest is None else str(newest.body["handoff"])


def _told_once(events: Iterable[Link], untrusted: frozenset[int]) -> list[Link]:
    """Leave out a delegation that the other side's writer told too, by its own clock: it happened once.

    What one writer tells a second time happened a second time, whoever else told of the first.
    """
    kept: list[Link] = []
    places: dict[tuple[Any, ...], list[int]] = {}
    told: Counter[tuple[Any, ...]] = Counter()
    for item in events:
        said = tuple(item.body.get(name) for name in ("handoff", *_SAID))
        key = (*said, item.actor.get("name"))
        if item.body["event"] != "delegated" or item.id in untrusted:
            kept.append(item)
            continue
        known, number = places.setdefault(key, []), told[*key, item.writer]
        told[*key, item.writer] += 1
        if number == len(known):
            known.append(len(kept))
            kept.append(item)
        elif item.at < kept[known[number]].at:
            kept[known[number]] = item
    return kept


def _those(run: Run, only: Collection[str] | None, most: int | None) -> Q | None:
    if only is not None:
        return Q(subject__in=list(only))
    if most is None or operations_in(run) <= most:
        return None
    # What others say does not push anything out of sight.
    counted = Receipt.objects.filter(run=run, kind="handoff", writer__in=counted_writers(run))
    newest = counted.values("subject").annotate(last=Max("id")).order_by("-last")
    noted = AuditState.objects.filter(run=run, state__in=NEEDS_ATTENTION).order_by("-since")
    wanted = [*newest.values_list("subject", flat=True)[:most]]
    return Q(subject__in=[*wanted, *noted.values_list("operation", flat=True)[:most]])


def operations_in(run: Run) -> int:
    """Return how many operations were handed over in a run."""
    return Receipt.objects.filter(run=run, kind="handoff").values("subject").distinct().count()


def _at(item: Link, now: datetime) -> datetime:
    """When something happened; a clock that runs ahead is not believed beyond when the server heard of it."""
    return min(item.at, item.recorded_at, now)


def _handoff_event(item: Link, now: datetime, *, trusted: bool) -> dict[str, Any]:
    """Return one event as the rules take it."""
    said = {name: item.body[name] for name in _SAID if item.body.get(name) is not None}
    return {
        "handoff_id": item.body["handoff"],
        "event": item.body["event"],
        "at": stamp(_at(item, now)),
        "agent": item.actor.get("name") or item.actor["id"],
        **said,
        "trusted": trusted,
    }
