"""Who may decide a change of class CP, and how many of them have to: read again at each word."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from branches.models import RoleGrant, Workspace
from branches.queries.clock import now
from branches.queries.policies import policy_of
from branches.queries.standings import roster_of
from branches.rules.change_class import ChangeClass
from branches.rules.policy import ClassPolicy
from branches.rules.quorum import APPROVER, Rule, Standing, Voter, judge_quorum, may_fill

REMEMBERED: Final = timedelta(days=7)
"""So long somebody who could have decided is counted after they lost that: nobody clears their own way."""


@dataclass(frozen=True, slots=True)
class Deciders:
    """Those whose word counts now, what the policy asks of them, and how many have to agree."""

    asked: ClassPolicy
    voters: Mapping[str, Voter]
    needed: int
    """More than there are voters where some left within a week: then nobody but the operator can."""

    def grants(self, approvals: Collection[str]) -> bool:
        """Return whether these people's words are enough: by every rule, or all there are by none."""
        given = [self.voters[uid] for uid in sorted(approvals) if uid in self.voters]
        if self.asked.is_closed or len(given) < self.needed:
            return False
        everybody = [self.voters[uid] for uid in sorted(self.voters)]
        if judge_quorum(self.asked.rules, ChangeClass.CP, (), everybody).granted:
            return judge_quorum(self.asked.rules, ChangeClass.CP, (), given).granted
        return len(given) == len(everybody)


def deciders_of(workspace: Workspace, author: str, about: str | None = None) -> Deciders:
    """Return who decides a change by an author (about a person, where it is a role of theirs).

    Nobody else of the policy's roles: then whoever approves branches; nobody of these either: then the one
    whom it is about has to agree at least. Where there are fewer than the policy asks for, it takes them all.
    """
    at = now()
    asked = policy_of(workspace, at).of(ChangeClass.CP, at)
    present = _others(roster_of(workspace, at), asked, {author, about})
    lately = _others(_left_lately(workspace, at), asked, {author, about})
    if not present and not lately:
        present = _others(roster_of(workspace, at), asked, {author})
    people = max((rule.people for rule in asked.rules), default=2)
    return Deciders(asked, present, min(people, len({*present, *lately})))


def _left_lately(workspace: Workspace, at: datetime) -> Mapping[str, Voter]:
    """Return those from whom a role was taken within a week, with what was taken."""
    rows = RoleGrant.objects.filter(workspace=workspace, held=False, at__gt=at - REMEMBERED)
    taken: dict[str, set[Standing]] = {}
    for uid, role, scope in rows.values_list("person__uid", "role", "scope"):
        taken.setdefault(uid, set()).add(Standing(role, scope))
    return {uid: Voter(uid, frozenset(standings)) for uid, standings in taken.items()}


def _others(roster: Mapping[str, Voter], asked: ClassPolicy, without: set[str | None]) -> Mapping[str, Voter]:
    others = {uid: voter for uid, voter in roster.items() if uid not in without}
    fit = {uid: voter for uid, voter in others.items() if _fills_any(voter, asked.rules)}
    return fit or {uid: voter for uid, voter in others.items() if _approves(voter)}


def _fills_any(voter: Voter, rules: Collection[Rule]) -> bool:
    roles = {rule.role for rule in rules} or {APPROVER}
    return any(may_fill(voter.standings, role, ChangeClass.CP, "") for role in roles)


def _approves(voter: Voter) -> bool:
    return any(each.role == APPROVER for each in voter.standings)
