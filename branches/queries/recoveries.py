"""What may be done about a handoff that does not go on, within which bounds, and what came of it."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from branches.evidence.kinds.product import PERSON_VERIFIER
from branches.models import Run
from branches.queries.audits import HandoffAudit
from branches.queries.chains import Link, latest, links
from branches.queries.declarations import Declaration, declaration_of
from branches.rules.verdicts import HandoffState

MOST_ROUTES: Final = 20
MOST_CHECKS: Final = 10
MOST_REMINDERS: Final = 3
# What shows that a decision worked, by its action.
_ANSWERS: Final[Mapping[str, tuple[str, ...]]] = {
    "redeliver": ("accepted",),
    "route_wait": ("progress", "completed", "accepted"),
    "run_verifier": ("outcome_verified",),
    "ask_for_artifact": ("completed", "outcome_verified"),
}


@dataclass(frozen=True, slots=True)
class Recovery:
    """One action that fits a handoff's state; `refused` names the rule that does not allow it now."""

    action: str
    attempt: int
    attempts: int
    limit_s: int | None
    refused: str | None = None

    @property
    def needs_owner(self) -> bool:
        return self.action == "route_wait"


@dataclass(frozen=True, slots=True)
class Recovered:
    """A decision that was made, and the receipt that shows that it worked, where there is one."""

    decided: Link
    worked: Link | None

    @property
    def until(self) -> datetime | None:
        """Until when it may be carried out, or None where no time bounds it."""
        limit = self.decided.body["limit_s"]
        return None if limit is None else self.decided.recorded_at + timedelta(seconds=limit)

    def is_open(self, now: datetime) -> bool:
        """Whether it may still be carried out."""
        return self.worked is None and (self.until is None or now < self.until)


@dataclass(frozen=True, slots=True)
class Recoveries:
    """What was decided on a run's handoffs and may still be; read once for all of them."""

    declaration: Declaration | None
    writer: str | None
    checked: Link | None
    decisions: Mapping[str, Sequence[Link]]
    has_baseline: bool
    """Whether it is known what stood at the destination before the run: else nothing can be told apart."""

    @classmethod
    def of(cls, run: Run) -> "Recoveries":
        """Read what a run's recoveries rest on."""
        decisions: defaultdict[str, list[Link]] = defaultdict(list)
        for each in links([run.pk], ("recovery_decided",)):
            decisions[str(each.subject)].append(each)
        return cls(
            declaration_of(run),
            None if run.recorder is None else run.recorder.uid,
            latest(run.pk, "outcome_checked") if decisions else None,
            decisions,
            _has_baseline(run),
        )

    def shown(self, audit: HandoffAudit) -> str:
        """Return the digest of the newest receipt about an operation: what a decision on it is bound to."""
        decided = self.decisions.get(audit.operation, ())
        return max((audit.events[-1], *decided), key=lambda each: each.id).digest

    def decided(self, audit: HandoffAudit) -> tuple[Recovered, ...]:
        """Return what was decided about an operation, oldest first, each with what shows that it worked."""
        found = self.decisions.get(audit.operation, ())
        return tuple(Recovered(each, _worked(each, audit, self.writer, self.checked)) for each in found)

    def offered(self, audit: HandoffAudit, now: datetime) -> tuple[Recovery, ...]:
        """Return the actions that fit an operation's state, the safest first."""
        decided = self.decided(audit)

        def after(action: str) -> int:
            return 1 + sum(1 for each in decided if each.decided.body["action"] == action)

        match audit.verdict.state:
            case HandoffState.ORPHANED:
                is_open = any(each.is_open(now) and each.decided.body["limit_s"] for each in decided)
                return (_redelivery(self.declaration, audit, after("redeliver"), is_open=is_open),)
            case HandoffState.WAITING:
                return (_bounded("route_wait", after("route_wait"), MOST_ROUTES),)
            case HandoffState.FALSE_SUCCESS:
                reminder = _bounded("ask_for_artifact", after("ask_for_artifact"), MOST_REMINDERS)
                verifier = _verifier(self.declaration, after("run_verifier"), has_baseline=self.has_baseline)
                return verifier, reminder
        return ()

    def to_carry_out(self, audit: HandoffAudit, now: datetime) -> list[Recovered]:
        """Return the open decisions that still fit where an operation stands, without our own jobs."""
        fitting = {each.action for each in self.offered(audit, now)} - {"run_verifier"}
        return [
            each
            for each in self.decided(audit)
            if each.is_open(now) and each.decided.body["action"] in fitting
        ]


def _has_baseline(run: Run) -> bool:
    taken = latest(run.pk, "baseline_taken")
    return taken is not None and bool(taken.body["reachable"])


def _worked(decided: Link, audit: HandoffAudit, writer: str | None, checked: Link | None) -> Link | None:
    """Return the receipt that shows it: of the run's own writer, and of a check nobody's own word."""
    wanted = _ANSWERS[decided.body["action"]]
    receivers = {each.body.get("receiver") for each in audit.events if each.body["event"] == "delegated"}
    for each in audit.events:
        if each.id < decided.id or each.body["event"] not in wanted or each.writer != writer:
            continue
        if each.body["event"] != "outcome_verified" or each.actor.get("name") not in receivers:
            return each
    if decided.body["action"] != "run_verifier" or checked is None or checked.id < decided.id:
        return None
    return checked if checked.body["check"] == "passed" and checked.body["fresh"] else None


def _redelivery(
    declaration: Declaration | None, audit: HandoffAudit, decided: int, *, is_open: bool
) -> Recovery:
    """Only what the workflow declares idempotent, with its limit, is delivered again, and one at a time."""
    rule = declaration.handoffs.redelivery if declaration else None
    # A delivery that nobody decided here counts too, and so does a decision that nobody carried out.
    attempt = max(decided, len({event.body["handoff"] for event in audit.events}))
    if rule is None:
        return Recovery("redeliver", attempt, attempt, None, "redelivery_undeclared")
    refused = "decision_open" if is_open else _over(attempt, rule.attempts)
    return Recovery("redeliver", attempt, rule.attempts, rule.limit_s, refused)


def _verifier(declaration: Declaration | None, attempt: int, *, has_baseline: bool) -> Recovery:
    if declaration is None:
        return Recovery("run_verifier", attempt, attempt, None, "no_declared_outcome")
    if declaration.outcome.verifier == PERSON_VERIFIER:
        return Recovery("run_verifier", attempt, attempt, None, "a_person_decides")
    if not has_baseline:
        return Recovery("run_verifier", attempt, attempt, None, "no_baseline")
    return _bounded("run_verifier", attempt, MOST_CHECKS)


def _bounded(action: str, attempt: int, most: int) -> Recovery:
    return Recovery(action, attempt, most, None, _over(attempt, most))


def _over(attempt: int, attempts: int) -> str | None:
    return "attempts_used_up" if attempt > attempts else None
