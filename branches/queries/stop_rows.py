"""Why each loop stopped, a row each: whom it waits for, what it left behind, where to begin anew."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from branches.evidence.ids import is_id
from branches.models import Run
from branches.queries.audits import Audits, StopAudit
from branches.queries.chains import Link
from branches.queries.clock import parse
from branches.queries.fork_points import ForkPoint, checkpoints_before
from branches.queries.left_behind import Left, Remains
from branches.queries.lookups import people_named
from branches.queries.run_stop import WENT_ON, approval_of, stop_state_badge
from branches.queries.words import Badge
from branches.rules.verdicts import StopState


@dataclass(frozen=True, slots=True)
class Awaited:
    """Whom an approval waits for and until when; None is what nobody has said."""

    owner: str | None
    """A person's name, or the name that the workflow declares or that is on record as a keyed digest."""
    deadline: datetime | None
    is_overdue: bool
    routed: Link | None
    """The receipt of whoever said so afterwards, where the loop itself did not say everything."""

    @property
    def is_untold(self) -> bool:
        """Whether it was routed to a declared name, which is nobody's address."""
        return self.routed is not None and not is_id(self.routed.body["owner"], "per")


@dataclass(frozen=True, slots=True)
class StopRow:
    """One loop's end."""

    audit: StopAudit
    badge: Badge
    conditions: tuple[str, ...]
    awaited: Awaited | None
    """None where it waited for no approval."""
    left: Left | None
    """What it leaves behind; None where its loop went on."""
    fork: ForkPoint
    """Where a branch would begin that ends otherwise."""

    @property
    def is_unrouted(self) -> bool:
        """Whether it waits for an approval still, and lacks whom or until when."""
        return self.audit.waits and self.audit.verdict.state is StopState.WAITING_UNROUTED


def has_next_stop(audit: StopAudit) -> bool:
    """Return whether it is an earlier stop of a loop that stopped again."""
    return audit.went_on is not None and audit.went_on.kind == "stopped"


def stop_audit_badge(audit: StopAudit) -> Badge:
    """Return the badge of a stop's state; of one whose loop went on only that: it is no state any more."""
    return WENT_ON if audit.went_on is not None else stop_state_badge(str(audit.verdict.state))


def stop_rows(run: Run, audits: Audits, now: datetime) -> Iterable[StopRow]:
    """Yield one row a stop, with whom it waits for and what it left behind."""
    approvals = [approval_of(audit.stopped, audit.routed) or {} for audit in audits.stops]
    names = people_named(run, {each["owner"] for each in approvals if each.get("owner")})
    points = {each.before.seq: each for each in stop_forks(run, audits.stops)}
    remains = Remains.of(run, audits)
    for audit, approval in zip(audits.stops, approvals, strict=True):
        conditions = audit.stopped.body["policy"]["conditions"]
        words = tuple(
            " ".join(str(part).replace("_", " ") for part in (each["type"], *_rest(each)))
            for each in conditions
        )
        yield StopRow(
            audit,
            stop_audit_badge(audit),
            words,
            _awaited(audit, approval, names, now) if audit.verdict.state in _WAITING else None,
            None if audit.went_on is not None else remains.at(audit),
            points[audit.stopped.seq],
        )


def stop_forks(run: Run, stops: Iterable[StopAudit]) -> tuple[ForkPoint, ...]:
    """Return where to fork before the ends of loops."""
    found = [each.stopped for each in stops]
    known = checkpoints_before(run, [each.seq for each in found])
    return tuple(ForkPoint(each, known.get(each.seq)) for each in found)


_WAITING: Final = frozenset({StopState.WAITING, StopState.WAITING_UNROUTED})


def _awaited(
    audit: StopAudit, approval: Mapping[str, Any], names: Mapping[str, str], now: datetime
) -> Awaited:
    owner, text = approval.get("owner"), approval.get("deadline")
    deadline = None if text is None else parse(text)
    return Awaited(
        owner=None if owner is None else names.get(owner, owner),
        deadline=deadline,
        is_overdue=audit.waits and deadline is not None and deadline <= now,
        routed=audit.routed,
    )


def _rest(condition: Mapping[str, Any]) -> list[Any]:
    return [value for name, value in condition.items() if name != "type"]
