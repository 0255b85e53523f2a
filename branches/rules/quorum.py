"""Whether the votes on a request satisfy every rule of its class: pure, deterministic, a reason per rule."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from branches.rules.change_class import ChangeClass

APPROVER: Final = "approver"
DESTINATION_OWNER: Final = "destination_owner"
POLICY_ADMIN: Final = "policy_admin"


@dataclass(frozen=True, slots=True, order=True)
class Standing:
    """A role that somebody holds now, with its scope: a class, a destination, or empty."""

    role: str
    scope: str = ""


@dataclass(frozen=True, slots=True)
class Voter:
    """Somebody with the roles and groups that they are in now."""

    person: str
    standings: frozenset[Standing]
    groups: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Rule:
    """So many people of a role, of so many different groups; of owners, for each destination."""

    name: str
    role: str
    people: int
    groups: int = 0


class Need(StrEnum):
    """Why a rule is not satisfied, or that it is."""

    SATISFIED = "satisfied"
    PEOPLE = "people"
    GROUPS = "groups"
    NOBODY = "nobody"


@dataclass(frozen=True, slots=True)
class RuleOutcome:
    """One rule, for one destination where it is about owners: what it has and what it still needs."""

    rule: str
    role: str
    destination: str
    needed: int
    given: int
    need: Need


@dataclass(frozen=True, slots=True)
class QuorumVerdict:
    """Whether every rule is satisfied, rule by rule in the policy's order."""

    granted: bool
    outcomes: tuple[RuleOutcome, ...]

    @property
    def needed(self) -> int:
        """How many more words it takes at most: one person may give several of them."""
        return sum(each.needed - each.given for each in self.outcomes)


def may_fill(standings: Iterable[Standing], role: str, change: ChangeClass, destination: str) -> bool:
    """Return whether somebody with these standings counts for a role at a class and a destination.

    An approver counts up to the class of their scope; without one for every class of branches. The policy
    itself (CP) takes an approver of just that scope, or a policy admin.
    """
    for each in standings:
        if role == APPROVER and change is ChangeClass.CP and each.role == POLICY_ADMIN:
            return True
        if each.role != role:
            continue
        if role == DESTINATION_OWNER:
            if each.scope == destination:
                return True
        elif (role == APPROVER and _covers(each.scope, change)) or role not in (APPROVER, DESTINATION_OWNER):
            return True
    return False


def _covers(scope: str, change: ChangeClass) -> bool:
    if change is ChangeClass.CP or scope == ChangeClass.CP:
        return scope == change
    return not scope or ChangeClass(scope).rank >= change.rank


def judge_quorum(
    rules: Sequence[Rule],
    change: ChangeClass,
    destinations: Sequence[str],
    approvals: Sequence[Voter],
    others: Sequence[Voter] = (),
) -> QuorumVerdict:
    """Return whether the approvals satisfy the rules.

    One person is one vote of each rule, whatever groups they are in; where a rule wants different groups,
    each person stands for one of theirs. `others` are those who may still decide: where even all of them
    would not be enough, the rule says that nobody can.
    """
    outcomes = tuple(
        _judge(rule, change, destination, approvals, others)
        for rule in rules
        for destination in _each_for(rule, destinations)
    )
    return QuorumVerdict(all(each.need is Need.SATISFIED for each in outcomes), outcomes)


def people_asked(rules: Iterable[Rule], destinations: Sequence[str], *, default: int) -> int:
    """Return how many different people it takes at least; `default` where no rule asks for anybody.

    One person may own several destinations; where none is reached, no owner is asked.
    """
    asked = (rule.people for rule in rules for _ in _each_for(rule, destinations))
    return max(asked, default=default)


def _each_for(rule: Rule, destinations: Sequence[str]) -> Sequence[str]:
    """Return what a rule is judged for one by one: of owners each destination, of others nothing by name."""
    return destinations if rule.role == DESTINATION_OWNER else ("",)


def _judge(
    rule: Rule, change: ChangeClass, destination: str, approvals: Sequence[Voter], others: Sequence[Voter]
) -> RuleOutcome:
    fit = _fit(rule, change, destination, approvals)
    given = min(rule.people, len(fit))
    if len(fit) >= rule.people and _distinct_groups(fit.values()) >= rule.groups:
        need = Need.SATISFIED
    else:
        need = Need.PEOPLE if len(fit) < rule.people else Need.GROUPS
        all_fit = {**_fit(rule, change, destination, others), **fit}
        if len(all_fit) < rule.people or _distinct_groups(all_fit.values()) < rule.groups:
            need = Need.NOBODY
    if need is not Need.SATISFIED and given == rule.people:
        given -= 1  # enough people, but of too few groups: one word of another group is still missing
    return RuleOutcome(rule.name, rule.role, destination, rule.people, given, need)


def _fit(
    rule: Rule, change: ChangeClass, destination: str, voters: Sequence[Voter]
) -> dict[str, frozenset[str]]:
    return {
        voter.person: voter.groups
        for voter in voters
        if may_fill(voter.standings, rule.role, change, destination)
    }


def _distinct_groups(members: Iterable[frozenset[str]]) -> int:
    """Return the most groups that can stand side by side when each person stands for one of theirs."""
    stands_for: dict[str, int] = {}
    groups_of = [sorted(groups) for groups in members]
    return sum(_place(index, groups_of, stands_for, set()) for index in range(len(groups_of)))


def _place(person: int, groups_of: list[list[str]], stands_for: dict[str, int], tried: set[str]) -> bool:
    """Give a person a group, and whoever stood for it another one if there is one (augmenting paths)."""
    for group in groups_of[person]:
        if group in tried:
            continue
        tried.add(group)
        if group not in stands_for or _place(stands_for[group], groups_of, stands_for, tried):
            stands_for[group] = person
            return True
    return False
