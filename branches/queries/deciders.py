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
from branches.rules.quorum import APPROVER, Rule, Standing, Voter, judge_quorum, may_fill, people_asked

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


@dataclass(frozen=True, slots=True)
class Electorate:
    """What is read once for any number of changes: everybody here, who left lately, and what is asked."""

    asked: ClassPolicy
    roster: Mapping[str, Voter]
    left: Mapping[str, Voter]

    @classmethod
    def of(cls, workspace: Workspace) -> "Electorate":
        """Read a workspace's people and policy as they are now."""
        at = now()
        asked = policy_of(workspace, at).of(ChangeClass.CP, at)
        return cls(asked, roster_of(workspace, at), _left_lately(workspace, at))

    def deciders(self, author: str, about: str | None = None) -> Deciders:
        """Return who decides a change by an author (about a person, where it is a role of theirs).

        Nobody else of the policy's roles: then whoever approves branches; nobody of these either: then the
        one whom it is about has to agree at least. Where there are fewer than the policy asks for, it takes
        them all.
        """
        voters, counted = _of_the_nearest_role(self.roster, self.left, self.asked, {author, about})
        if not counted:
            voters, counted = _of_the_nearest_role(self.roster, self.left, self.asked, {author})
        people = people_asked(self.asked.rules, (), default=2)
        return Deciders(self.asked, voters, min(people, counted))


def deciders_of(workspace: Workspace, author: str, about: str | None = None) -> Deciders:
    """Return who decides one change, as `Electorate.deciders` says."""
    return Electorate.of(workspace).deciders(author, about)


def _left_lately(workspace: Workspace, at: datetime) -> Mapping[str, Voter]:
    """Return those from whom a role was taken within a week, with what was taken."""
    rows = RoleGrant.objects.filter(workspace=workspace, held=False, at__gt=at - REMEMBERED)
    taken: dict[str, set[Standing]] = {}
    for uid, role, scope in rows.values_list("person__uid", "role", "scope"):
        taken.setdefault(uid, set()).add(Standing(role, scope))
    return {uid: Voter(uid, frozenset(standings)) for uid, standings in taken.items()}


def _of_the_nearest_role(
    roster: Mapping[str, Voter], left: Mapping[str, Voter], asked: ClassPolicy, without: set[str | None]
) -> tuple[Mapping[str, Voter], int]:
    """Return who of one sort is here, and how many they are with those of that sort who left lately."""
    for is_one in (lambda voter: _fills_any(voter, asked.rules), _approves):
        here, gone = (
            {uid: voter for uid, voter in each.items() if uid not in without and is_one(voter)}
            for each in (roster, left)
        )
        if here or gone:
            return here, len({*here, *gone})
    return {}, 0


def _fills_any(voter: Voter, rules: Collection[Rule]) -> bool:
    roles = {rule.role for rule in rules} or {APPROVER}
    return any(may_fill(voter.standings, role, ChangeClass.CP, "") for role in roles)


def _approves(voter: Voter) -> bool:
    return any(each.role == APPROVER for each in voter.standings)
