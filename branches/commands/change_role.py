"""A policy admin gives a role, prolongs it or takes it: what gives authority only through others' word."""

from datetime import datetime
from typing import Final

from django.db import transaction

from branches.commands.admit import grant_role
from branches.commands.append_receipt import Actor, lock_authority, lock_names
from branches.commands.propose_change import propose_role, require_admin
from branches.commands.refusal import Refused
from branches.models import Person, PolicyChange, Role, Workspace
from branches.queries.clock import now, stamp
from branches.queries.policies import policy_of
from branches.queries.policy_page import destinations_here
from branches.queries.standings import roles_of, roster_of, standings_of
from branches.rules.quorum import Standing

_OF_AUTHORITY: Final = frozenset({Role.APPROVER, Role.DESTINATION_OWNER, Role.POLICY_ADMIN})
"""Roles whose holders let something happen under any policy: who gets one is a change of class CP."""
CLASSES: Final = ("C2", "C3", "C4", "CP")
"""What an approver's role may be scoped to; without a scope it is every class of branches."""


def give_role(
    *,
    person: Person,
    workspace: Workspace,
    subject: Person,
    role: str,
    scope: str = "",
    until: datetime | None = None,
) -> PolicyChange | None:
    """Give or prolong a role of somebody who belongs here. Raises Refused.

    Returns the change that others decide where the role gives authority, and None where it is given at once.
    """
    chosen = checked_role(workspace, role, scope)
    ends = checked_until(workspace, chosen, until)
    with transaction.atomic():
        lock_authority(workspace)
        require_admin(person, workspace)
        require_member(subject, workspace)
        if gives_authority(workspace, chosen.role):
            return propose_role(
                person=person, workspace=workspace, document=role_asked(subject, chosen, ends)
            )
        grant_role(
            person=subject,
            workspace=workspace,
            role=Role(chosen.role),
            scope=chosen.scope,
            until=ends,
            actor=Actor.person(person),
        )
    return None


def gives_authority(workspace: Workspace, role: str) -> bool:
    """Return whether a role lets something happen here: by itself, or as the policy asks for its word."""
    asked = policy_of(workspace).classes.values()
    return role in _OF_AUTHORITY or any(rule.role == role for each in asked for rule in each.rules)


def withdraw_role(
    *, person: Person, workspace: Workspace, subject: Person, role: str, scope: str = ""
) -> None:
    """Take a role at once: less authority needs nobody's word. Raises Refused."""
    with transaction.atomic():
        lock_names([f"roles {workspace.uid}"])
        require_admin(person, workspace)
        if Standing(role, scope) not in standings_of(subject, workspace):
            raise Refused(rule="not_held", field="role")
        if role == Role.POLICY_ADMIN:
            require_another_admin(workspace, subject)
        grant_role(
            person=subject,
            workspace=workspace,
            role=Role(role),
            scope=scope,
            held=False,
            actor=Actor.person(person),
        )


def require_member(subject: Person, workspace: Workspace) -> None:
    """Refuse somebody who is switched off, or who holds no role here."""
    if not subject.is_active or not roles_of(subject, workspace):
        raise Refused(rule="unknown_here", field="person")


def require_another_admin(workspace: Workspace, leaving: Person) -> None:
    """Refuse to leave a workspace without a policy admin; the caller holds the lock of its roles."""
    for uid, voter in roster_of(workspace).items():
        if uid != leaving.uid and any(each.role == Role.POLICY_ADMIN for each in voter.standings):
            return
    raise Refused(rule="last_admin")


def checked_role(workspace: Workspace, role: str, scope: str) -> Standing:
    """Return a role with its scope as they were asked for. Raises Refused."""
    if role not in Role.values:
        raise Refused(rule="enum", field="role")
    if role == Role.APPROVER:
        choices: tuple[str, ...] = ("", *CLASSES)
    elif role == Role.DESTINATION_OWNER:
        choices = destinations_here(workspace)
        if not scope:
            raise Refused(rule="required", field="destination")
    else:
        choices = ("",)
    if scope not in choices:
        raise Refused(rule="enum", field="scope")
    return Standing(role, scope)


def checked_until(workspace: Workspace, asked: Standing, until: datetime | None) -> datetime | None:
    """Return when a role ends: as asked, or as late as the policy allows. Raises Refused."""
    at = now()
    longest = policy_of(workspace, at).standing.get(asked.role)
    if until is None:
        return None if longest is None else at + longest
    if until <= at:
        raise Refused(rule="in_the_future", field="until")
    if longest is not None and until > at + longest:
        raise Refused(rule="longer_than_policy", field="until")
    return until


def role_asked(subject: Person, asked: Standing, until: datetime | None) -> dict[str, str | None]:
    """Return a role as a change of class CP names it."""
    return {
        "person": subject.uid,
        "role": str(asked.role),
        "scope": asked.scope,
        "until": None if until is None else stamp(until),
    }
