"""Who holds which role now, and in which groups they are: read again at each decision."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from branches.models import GroupMember, Person, RoleGrant, Workspace
from branches.queries.clock import now
from branches.rules.quorum import Standing, Voter


def roles_of(person: Person, workspace: Workspace) -> frozenset[str]:
    """Return the roles a person holds now, whatever their scope."""
    return frozenset(each.role for each in standings_of(person, workspace))


def standings_of(person: Person, workspace: Workspace, at: datetime | None = None) -> frozenset[Standing]:
    """Return the roles with their scopes that a person holds at a moment; a standing ends by itself."""
    at = at or now()
    rows = RoleGrant.objects.filter(person=person, workspace=workspace, at__lte=at).order_by("id")
    return _held(rows.values_list("role", "scope", "held", "until"), at)


def _held(rows: Iterable[tuple[str, str, bool, datetime | None]], at: datetime) -> frozenset[Standing]:
    newest = {(role, scope): held and (until is None or at < until) for role, scope, held, until in rows}
    return frozenset(Standing(role, scope) for (role, scope), is_held in newest.items() if is_held)


def roster_of(workspace: Workspace, at: datetime | None = None) -> Mapping[str, Voter]:
    """Return everybody who holds a role in a workspace at a moment, by the id that receipts name."""
    at = at or now()
    grants = RoleGrant.objects.filter(workspace=workspace, at__lte=at, person__is_active=True).order_by("id")
    rows: dict[str, list[tuple[str, str, bool, datetime | None]]] = {}
    for uid, role, scope, held, until in grants.values_list("person__uid", "role", "scope", "held", "until"):
        rows.setdefault(uid, []).append((role, scope, held, until))
    groups = _groups(workspace, at)
    standings = {uid: _held(of_person, at) for uid, of_person in rows.items()}
    return {uid: Voter(uid, roles, groups.get(uid, frozenset())) for uid, roles in standings.items() if roles}


def _groups(workspace: Workspace, at: datetime) -> dict[str, frozenset[str]]:
    rows = GroupMember.objects.filter(group__workspace=workspace, at__lte=at).order_by("id")
    newest = {(uid, name): held for uid, name, held in rows.values_list("person__uid", "group__uid", "held")}
    found: dict[str, set[str]] = {}
    for (uid, group), is_held in newest.items():
        if is_held:
            found.setdefault(uid, set()).add(group)
    return {uid: frozenset(groups) for uid, groups in found.items()}
