"""What a loop leaves behind where it stops, by the receipts alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from django.db.models import Exists, OuterRef

from branches.models import Receipt, Run
from branches.queries.audits import Audits, StopAudit
from branches.queries.chains import Link, latest, link
from branches.queries.declarations import declaration_of

_LOOKED_AT: Final = 200
_LINKED: Final = 3


@dataclass(frozen=True, slots=True)
class Left:
    """What is still open of what came before a stop; of very many calls and operations the newest."""

    pending: tuple[Link, ...]
    """Calls that were to write outside, without an answer on record."""
    operations: tuple[Link, ...]
    """The newest delegations of operations that nobody completed."""
    approval: bool
    outcome: bool
    """Whether an outcome was declared, and no independent receipt says that it is there."""
    checked: Link | None
    """What the newest of them says instead."""
    is_least: bool = False
    """Whether more calls may be open than were looked at."""

    @property
    def is_nothing(self) -> bool:
        return not (self.pending or self.is_least or self.operations or self.approval or self.outcome)

    @property
    def linked_pending(self) -> tuple[Link, ...]:
        return self.pending[:_LINKED]

    @property
    def linked_operations(self) -> tuple[Link, ...]:
        return self.operations[:_LINKED]


@dataclass(frozen=True, slots=True)
class Remains:
    """What a run left open, read once for all of its stops."""

    pending: Sequence[Link]
    delegations: Sequence[Link]
    """The newest of each operation that nobody completed, newest first."""
    has_outcome: bool
    checked: Link | None = None
    is_least: bool = False

    @classmethod
    def of(cls, run: Run, audits: Audits) -> "Remains":
        """Read what is open; where no loop stopped nothing was left."""
        if not audits.stops:
            return cls((), (), has_outcome=False)
        checked = latest(run.pk, "outcome_checked")
        open_ones = (each.delegation for each in audits.handoffs if not each.is_completed)
        newest_first = sorted((each for each in open_ones if each is not None), key=lambda each: -each.seq)
        pending, is_least = _pending(run)
        return cls(pending, newest_first, declaration_of(run) is not None, checked, is_least)

    def at(self, audit: StopAudit) -> Left:
        """Return what was open before a stop and is so still, of its own agent where it names one."""
        stop = audit.stopped
        agent = stop.actor.get("name")
        calls = (
            each
            for each in self.pending
            if each.seq < stop.seq and (agent is None or each.actor.get("name") in {None, agent})
        )
        own = (
            each
            for each in self.delegations
            if each.seq < stop.seq
            and (agent is None or agent in {each.actor.get("name"), each.body.get("receiver")})
        )
        return Left(
            pending=tuple(calls),
            operations=tuple(own),
            approval=audit.waits,
            outcome=self.has_outcome and audit.verdict.receipt != "verified",
            checked=self.checked,
            is_least=self.is_least,
        )


def _pending(run: Run) -> tuple[list[Link], bool]:
    """Return the newest call of each operation that no later receipt answers, newest first, without reads.

    And whether there are more than were looked at.
    """
    answers = Receipt.objects.filter(
        run_id=OuterRef("run_id"),
        kind="effect_answered",
        subject=OuterRef("subject"),
        seq__gt=OuterRef("seq"),
    ).exclude(body__contains='"answer":"no_answer"')
    asked = Receipt.objects.filter(run=run, kind="effect_intended").exclude(
        body__contains='"effect_class":"read"'
    )
    open_calls = list(asked.filter(~Exists(answers)).order_by("-seq")[: _LOOKED_AT + 1])
    newest: dict[str | None, Link] = {}
    for each in map(link, open_calls[:_LOOKED_AT]):
        newest.setdefault(each.subject, each)
    return list(newest.values()), len(open_calls) > _LOOKED_AT
