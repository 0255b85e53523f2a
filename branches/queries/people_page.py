"""Who belongs to a workspace: roles with scope and end, groups, invitations, how long a role may last."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from branches.models import (
    Group,
    Invitation,
    Person,
    PolicyChange,
    PolicySort,
    Role,
    RoleGrant,
    Workspace,
)
from branches.queries.clock import now
from branches.queries.policies import policy_of
from branches.queries.policy_page import destinations_here
from branches.queries.standings import roster_of
from branches.rules.quorum import Standing

MOST_INVITATIONS: Final = 60
_ORDER: Final = {role: place for place, role in enumerate(Role.values)}


@dataclass(frozen=True, slots=True)
class HeldRole:
    """A role that somebody holds now, since when and until when."""

    role: str
    scope: str
    since: datetime
    until: datetime | None

    @property
    def words(self) -> str:
        name = str(Role(self.role).label)
        return f"{name} of {self.scope}" if self.scope else name


@dataclass(frozen=True, slots=True)
class Member:
    """One person of the workspace."""

    person: Person
    roles: tuple[HeldRole, ...]
    groups: tuple[Group, ...]
    is_you: bool


@dataclass(frozen=True, slots=True)
class GroupRow:
    """A group with who is in it, and who might join."""

    group: Group
    members: tuple[Person, ...]
    others: tuple[Person, ...]


@dataclass(frozen=True, slots=True)
class InvitationRow:
    """An invitation, what it names, and how it stands."""

    invitation: Invitation
    roles: tuple[str, ...]
    stands: str
    at: datetime


@dataclass(frozen=True, slots=True)
class RoleChoice:
    """A role that may be given, how long it lasts at most, and whether others have to agree."""

    value: str
    label: str
    longest_days: int | None


@dataclass(frozen=True, slots=True)
class PeoplePage:
    """Everybody with their roles, the groups, the invitations, and what waits for others' word."""

    members: tuple[Member, ...]
    groups: tuple[GroupRow, ...]
    invitations: tuple[InvitationRow, ...]
    choices: tuple[RoleChoice, ...]
    destinations: tuple[str, ...]
    waiting: int


def people_page(workspace: Workspace, person: Person) -> PeoplePage:
    """Return the page as this person sees it."""
    at = now()
    roster = roster_of(workspace, at)
    people = {row.uid: row for row in Person.objects.filter(uid__in=roster)}
    grants = _newest_grants(workspace)
    groups = {row.uid: row for row in Group.objects.filter(workspace=workspace).order_by("name")}
    members = tuple(
        Member(
            people[uid],
            _held(grants, people[uid].pk, roster[uid].standings),
            tuple(group for name, group in groups.items() if name in roster[uid].groups),
            uid == person.uid,
        )
        for uid in sorted(roster, key=lambda each: people[each].username.lower())
    )
    longest = policy_of(workspace, at).standing
    return PeoplePage(
        members=members,
        groups=tuple(_group_row(group, members) for group in groups.values()),
        invitations=tuple(_invitations(workspace, at)),
        choices=tuple(
            RoleChoice(role.value, str(role.label), longest[role].days if role in longest else None)
            for role in Role
        ),
        destinations=destinations_here(workspace),
        waiting=PolicyChange.objects.filter(
            workspace=workspace, sort=PolicySort.ROLE, end__isnull=True
        ).count(),
    )


def _newest_grants(workspace: Workspace) -> Mapping[tuple[int, str, str], RoleGrant]:
    rows = RoleGrant.objects.filter(workspace=workspace).order_by("id")
    return {(row.person_id, row.role, row.scope): row for row in rows}


def _held(
    grants: Mapping[tuple[int, str, str], RoleGrant], person: int, standings: Iterable[Standing]
) -> tuple[HeldRole, ...]:
    rows = [grants[person, each.role, each.scope] for each in standings]
    rows.sort(key=lambda row: (_ORDER[row.role], row.scope))
    return tuple(HeldRole(row.role, row.scope, row.at, row.until) for row in rows)


def _group_row(group: Group, members: Iterable[Member]) -> GroupRow:
    inside = tuple(each.person for each in members if group in each.groups)
    return GroupRow(group, inside, tuple(each.person for each in members if each.person not in inside))


def _invitations(workspace: Workspace, at: datetime) -> Iterable[InvitationRow]:
    rows = Invitation.objects.filter(workspace=workspace).select_related("inviter", "end__person")
    for row in rows.order_by("-id")[:MOST_INVITATIONS]:
        roles = invited_words(row)
        end = getattr(row, "end", None)
        if end is not None:
            yield InvitationRow(row, roles, end.word, end.at)
        else:
            stands = "open" if at < row.expires_at else "expired"
            yield InvitationRow(row, roles, stands, row.expires_at)


def invited_words(invitation: Invitation) -> tuple[str, ...]:
    """Return the roles that an invitation names, in words."""
    found = json.loads(invitation.roles)
    return tuple(HeldRole(each["role"], each["scope"], invitation.made_at, None).words for each in found)
