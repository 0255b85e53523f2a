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
    """Return the roles with their scopes that a person holds; a standing ends by itself.

    Somebody who is switched off holds none. The newest row counts whatever the clock says: one that was set
    back takes nobody's role away.
    """
    if not person.is_active:
        return frozenset()
    rows = RoleGrant.objects.filter(person=person, workspace=workspace).order_by("id")
    return _held(rows.values_list("role", "scope", "held", "until"), at or now())


def _held(rows: Iterable[tuple[str, str, bool, datetime | None]], at: datetime) -> frozenset[Standing]:
    newest = {(role, scope): held and (until is None or at < until) for role, scope, held, until in rows}
    return frozenset(Standing(role, scope) for (role, scope), is_held in newest.items() if is_held)


def roster_of(
    workspace: Workspace, at: datetime | None = None, *, as_of: datetime | None = None
) -> Mapping[str, Voter]:
    """Return everybody who holds a role in a workspace, by the id that receipts name.

    `as_of` looks back: at what was given up to a moment, and was not over then.
    """
    grants = RoleGrant.objects.filter(workspace=workspace, person__is_active=True).order_by("id")
    if as_of is not None:
        grants = grants.filter(at__lte=as_of)
    at = as_of or at or now()
    rows: dict[str, list[tuple[str, str, bool, datetime | None]]] = {}
    for uid, role, scope, held, until in grants.values_list("person__uid", "role", "scope", "held", "until"):
        rows.setdefault(uid, []).append((role, scope, held, until))
    groups = _groups(workspace, as_of)
    standings = {uid: _held(of_person, at) for uid, of_person in rows.items()}
    return {uid: Voter(uid, roles, groups.get(uid, frozenset())) for uid, roles in standings.items() if roles}


def groups_of(person: Person, workspace: Workspace) -> frozenset[str]:
    """Return the ids of the groups that a person is in now."""
    return _groups(workspace, None).get(person.uid, frozenset())


def _groups(workspace: Workspace, as_of: datetime | None) -> dict[str, frozenset[str]]:
    rows = GroupMember.objects.filter(group__workspace=workspace).order_by("id")
    if as_of is not None:
        rows = rows.filter(at__lte=as_of)
    newest = {(uid, name): held for uid, name, held in rows.values_list("person__uid", "group__uid", "held")}
    found: dict[str, set[str]] = {}
    for (uid, group), is_held in newest.items():
        if is_held:
            found.setdefault(uid, set()).add(group)
    return {uid: frozenset(groups) for uid, groups in found.items()}
