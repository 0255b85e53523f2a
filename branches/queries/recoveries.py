"""What may be done about a handoff that does not go on, within which bounds, and what came of it."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from branches.evidence.ids import is_id
from branches.evidence.kinds.product import PERSON_VERIFIER
from branches.models import Run
from branches.queries.chains import Link, latest, links
from branches.queries.declarations import RECOVERY_LIMITS, Declaration, declaration_of
from branches.queries.handoff_audits import HandoffAudit
from branches.queries.lookups import people_named
from branches.rules.verdicts import HandoffState

_MOST: Final[Mapping[str, int]] = {"route_wait": 20, "run_verifier": 10, "ask_for_artifact": 3}
# What shows that a decision worked, by its action.
_ANSWERS: Final[Mapping[str, tuple[str, ...]]] = {
    "redeliver": ("accepted",),
    "route_wait": ("progress", "completed", "accepted"),
    "run_verifier": ("outcome_verified",),
    "ask_for_artifact": ("completed", "outcome_verified"),
}
_REPLACEABLE: Final = {"route_wait"}


@dataclass(frozen=True, slots=True)
class Recovery:
    """One action that fits a handoff's state; `refused` names the rule that does not allow it now."""

    action: str
    attempt: int
    attempts: int
    limit_s: int | None
    """For how many seconds; None where it is refused, for then nothing is bounded."""
    refused: str | None = None
    replaces: bool = False
    """Whether it takes the place of one that may still be carried out."""

    @property
    def needs_owner(self) -> bool:
        return self.action == "route_wait"


@dataclass(frozen=True, slots=True)
class Recovered:
    """A decision that was made, and the receipt that shows that it worked, where there is one."""

    decided: Link
    worked: Link | None
    answered: bool = False
    """Whether the verifier that was to be asked has spoken since."""
    owner: str | None = None
    """Whom it was routed to: a person's name, or a declared one."""
    replaced: Link | None = None
    """The newer decision that took its place while it was open."""

    @property
    def is_told(self) -> bool:
        """Whether whom it was routed to is a person, who was told; a declared name is nobody's address."""
        return is_id(self.decided.body["owner"], "per")

    @property
    def until(self) -> datetime:
        """Until when it may be carried out."""
        return self.decided.recorded_at + timedelta(seconds=self.decided.body["limit_s"])

    def is_open(self, now: datetime) -> bool:
        """Whether it may still be carried out; a verifier that was asked has been, whatever it found."""
        is_done = self.worked is not None or self.answered or self.replaced is not None
        return not is_done and now < self.until


@dataclass(frozen=True, slots=True)
class Recoveries:
    """What was decided on a run's handoffs and may still be; read once for all of them."""

    declaration: Declaration | None
    checked: Link | None
    decisions: Mapping[str, Sequence[Link]]
    people: Mapping[str, str]
    """What those are called whom something was routed to, by their ids."""
    has_baseline: bool
    """Whether it is known what stood at the destination before the run: else nothing can be told apart."""

    @classmethod
    def of(cls, run: Run) -> "Recoveries":
        """Read what a run's recoveries rest on."""
        decisions: defaultdict[str, list[Link]] = defaultdict(list)
        for each in links([run.pk], ("recovery_decided",)):
            decisions[str(each.subject)].append(each)
        named = {each.body["owner"] for found in decisions.values() for each in found}
        return cls(
            declaration_of(run),
            latest(run.pk, "outcome_checked") if decisions else None,
            decisions,
            people_named(run, {each for each in named if each is not None}),
            _has_baseline(run),
        )

    def shown(self, audit: HandoffAudit) -> str:
        """Return the digest of the newest receipt about an operation: what a decision on it is bound to."""
        decided = self.decisions.get(audit.operation, ())
        return max((audit.newest, *decided), key=lambda each: each.id).digest

    def decided(self, audit: HandoffAudit) -> tuple[Recovered, ...]:
        """Return what was decided about an operation, oldest first, each with what shows that it worked."""
        found = self.decisions.get(audit.operation, ())
        newer = (*found[1:], None)
        return tuple(
            _unless_replaced(
                Recovered(each, _worked(each, audit), self._answered(each), self._owner(each)), following
            )
            for each, following in zip(found, newer, strict=False)
        )

    def _owner(self, decided: Link) -> str | None:
        named: str | None = decided.body["owner"]
        return None if named is None else self.people.get(named, named)

    def _answered(self, decided: Link) -> bool:
        is_asked = decided.body["action"] == "run_verifier" and self.checked is not None
        return is_asked and self.checked is not None and self.checked.id > decided.id

    def offered(self, audit: HandoffAudit, now: datetime) -> tuple[Recovery, ...]:
        """Return the actions that fit an operation's state, the safest first.

        One at a time: while what was decided may still be carried out, none of them is allowed. Only a wait
        may be routed anew, for nothing is carried out twice by that: the newer takes the older one's place.
        """
        decided = self.decided(audit)
        actions = _actions(audit)
        open_now = {each.decided.body["action"] for each in decided if each.is_open(now)} & set(actions)

        def found(action: str) -> Recovery:
            attempt = 1 + sum(1 for each in decided if each.decided.body["action"] == action)
            one = self._one(audit, action, attempt)
            if not open_now or one.refused is not None:
                return one
            if open_now == {action} == _REPLACEABLE:
                return replace(one, replaces=True)
            return replace(one, refused="decision_open")

        return tuple(found(action) for action in actions)

    def _one(self, audit: HandoffAudit, action: str, attempt: int) -> Recovery:
        match action:
            case "redeliver":
                return _redelivery(self.declaration, audit, attempt)
            case "run_verifier":
                refused = _unverifiable(self.declaration, audit, has_baseline=self.has_baseline)
                if refused is not None:
                    return Recovery(action, attempt, attempt, None, refused)
        recovery = self.declaration.handoffs.recovery if self.declaration else {}
        limit_s = recovery.get(action, RECOVERY_LIMITS[action][1])
        most = _MOST[action]
        return Recovery(action, attempt, most, limit_s, _over(attempt, most))

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


def _actions(audit: HandoffAudit) -> tuple[str, ...]:
    match audit.verdict.state:
        case HandoffState.ORPHANED:
            return ("redeliver",)
        case HandoffState.WAITING:
            return ("route_wait",)
        case HandoffState.FALSE_SUCCESS:
            return "run_verifier", "ask_for_artifact"
        case HandoffState.FAILED_OUTCOME if audit.checked is not None:
            return "run_verifier", "ask_for_artifact"  # what is not there yet may come
    return ()


def _worked(decided: Link, audit: HandoffAudit) -> Link | None:
    """Return the receipt that shows it: by a writer who is entitled to it, or an independent check."""
    wanted, new = _ANSWERS[decided.body["action"]], _begun_since(decided, audit)
    for each in audit.events:
        if each.id < decided.id or each.body["event"] not in wanted or each.id in audit.untrusted:
            continue
        if each.body["event"] == "accepted" and each.body["handoff"] not in new:
            continue  # an attempt of before, of which it comes late
        if each.body["event"] != "outcome_verified" or each.actor.get("name") not in audit.receivers:
            return each
    checked = audit.checked
    if "outcome_verified" not in wanted or checked is None or checked.id < decided.id:
        return None
    return checked if checked.body["check"] == "passed" and checked.body["fresh"] else None


def _unless_replaced(one: Recovered, newer: Link | None) -> Recovered:
    """Return a decision as replaced where the next one came while it was open: what follows is that one's."""
    if newer is None or {newer.body["action"], one.decided.body["action"]} != _REPLACEABLE:
        return one
    had_worked = one.worked is not None and one.worked.id < newer.id
    if had_worked or newer.recorded_at >= one.until:
        return one
    return replace(one, worked=None, replaced=newer)


def _begun_since(decided: Link, audit: HandoffAudit) -> frozenset[str]:
    """Return the attempts that were handed over after a decision, and of which nothing came before it."""
    before = {each.body["handoff"] for each in audit.trusted if each.id < decided.id}
    handed = {
        each.body["handoff"]
        for each in audit.trusted
        if each.id > decided.id and each.body["event"] == "delegated"
    }
    return frozenset(handed - before)


def _redelivery(declaration: Declaration | None, audit: HandoffAudit, decided: int) -> Recovery:
    """Only what the workflow declares idempotent, with its limit, is delivered again."""
    rule = declaration.handoffs.redelivery if declaration else None
    # A delivery that nobody decided here counts too, and so does a decision that nobody carried out.
    attempt = max(decided, audit.attempts)
    if rule is None:
        return Recovery("redeliver", attempt, attempt, None, "redelivery_undeclared")
    return Recovery("redeliver", attempt, rule.attempts, rule.limit_s, _over(attempt, rule.attempts))


def _unverifiable(declaration: Declaration | None, audit: HandoffAudit, *, has_baseline: bool) -> str | None:
    """Return why the run's verifier has nothing to say of an operation, or None where it has."""
    if declaration is None:
        return "no_declared_outcome"
    if not audit.delivers:
        return "another_artifact"
    if declaration.outcome.verifier == PERSON_VERIFIER:
        return "a_person_decides"
    return None if has_baseline else "no_baseline"


def _over(attempt: int, attempts: int) -> str | None:
    return "attempts_used_up" if attempt > attempts else None
