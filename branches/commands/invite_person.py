"""Invitations: a link that lets one person in, accepted once, by somebody new or by a known person."""

import hashlib
import json
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import transaction

from branches.commands.admit import grant_role
from branches.commands.append_receipt import Actor, lock_authority, lock_names
from branches.commands.append_to_workspace import append_to_workspace
from branches.commands.change_role import checked_role, checked_until, gives_authority, role_asked
from branches.commands.propose_change import propose_role, require_admin
from branches.commands.refusal import Refused
from branches.evidence import canonical, ids
from branches.models import Invitation, InvitationEnd, Person, Role, Workspace
from branches.queries.clock import now, stamp
from branches.queries.standings import roles_of
from branches.rules.quorum import Standing

LIVES: Final = (1, 7, 30)
"""For so many days an invitation may be open."""
MOST_ROLES: Final = 8


@dataclass(frozen=True, slots=True)
class Accepted:
    """What an accepted invitation came to: the roles given at once, and those that others decide on."""

    invitation: Invitation
    person: Person
    given: tuple[str, ...]
    proposed: tuple[str, ...]


class PasswordRefused(Refused):
    """A password that is too easy to guess, with what is wrong with it as sentences."""

    def __init__(self, sentences: Iterable[str]) -> None:
        super().__init__(rule="weak_password", field="password")
        self.sentences = tuple(sentences)


def invite_person(
    *, person: Person, workspace: Workspace, roles: Iterable[Mapping[str, str]], days: int | None = 7
) -> tuple[Invitation, str]:
    """Return an invitation and the secret of its link, which is shown this once. Raises Refused.

    `roles` are {role, scope}; each lasts as long as the policy allows, counted from its being given.
    """
    if days not in LIVES:
        raise Refused(rule="enum", field="days")
    asked = list(dict.fromkeys(checked_role(workspace, each["role"], each["scope"]) for each in roles))
    if not asked:
        raise Refused(rule="required", field="role")
    if len(asked) > MOST_ROLES:
        raise Refused(rule="too_many", field="role")
    secret, at = f"bgi_{secrets.token_urlsafe(32)}", now()
    with transaction.atomic():
        require_admin(person, workspace)
        invitation = Invitation.objects.create(
            uid=ids.mint("inv"),
            workspace=workspace,
            digest=invitation_digest(secret),
            roles=canonical.canonical_bytes(
                [{"role": each.role, "scope": each.scope} for each in asked]
            ).decode(),
            inviter=person,
            made_at=at,
            expires_at=at + timedelta(days=days),
        )
        append_to_workspace(
            workspace=workspace,
            kind="person_invited",
            body={"invitation": invitation.uid, "expires_at": stamp(invitation.expires_at)},
            actor=Actor.person(person),
            subject=invitation.uid,
        )
    return invitation, secret


def invitation_digest(secret: str) -> str:
    """Return the digest an invitation's link is kept as; the secret has 256 bits, so a bare hash hides it."""
    return "sha256:" + hashlib.sha256(b"branchgate/invitation/v1\0" + secret.encode()).hexdigest()


def withdraw_invitation(*, person: Person, invitation: Invitation) -> None:
    """Let nobody in by this link any more. Raises Refused."""
    with transaction.atomic():
        lock_names([f"roles {invitation.workspace.uid}"])
        require_admin(person, invitation.workspace)
        if InvitationEnd.objects.filter(invitation=invitation).exists():
            raise Refused(rule="invitation_ended")
        _end(invitation, "withdrawn", person)


def accept_invitation(*, person: Person, invitation: Invitation) -> Accepted:
    """Give somebody the roles of an invitation, and propose in the inviter's name those of authority.

    It is used up by this, whoever comes second. Raises Refused.
    """
    workspace, inviter = invitation.workspace, invitation.inviter
    with transaction.atomic():
        lock_authority(workspace)
        require_open(invitation)
        asked = [Standing(each["role"], each["scope"]) for each in invited_roles(invitation)]
        given = [each for each in asked if not gives_authority(workspace, each.role)]
        if not given and not roles_of(person, workspace):
            # Somebody has to belong here before others can decide what else they may do.
            given = [Standing(Role.VIEWER)]
        for each in given:
            grant_role(
                person=person,
                workspace=workspace,
                role=Role(each.role),
                until=checked_until(workspace, each, None),
                actor=Actor.person(inviter),
            )
        proposed = [each for each in asked if each not in given]
        for each in proposed:
            _propose(workspace, inviter, person, each)
        _end(invitation, "accepted", person)
    return Accepted(invitation, person, tuple(each.role for each in given), tuple(e.role for e in proposed))


def join_by_invitation(*, invitation: Invitation, username: str, password: str) -> Accepted:
    """Make somebody new, who signs in by name and password, and accept in their name. Raises Refused."""
    checked_name(username)
    try:
        validate_password(password, Person(username=username))
    except ValidationError as error:
        raise PasswordRefused(error.messages) from None
    with transaction.atomic():
        workspace = invitation.workspace
        lock_names(["people"])
        lock_authority(workspace)
        require_open(invitation)
        if Person.objects.filter(username__iexact=username).exists():
            raise Refused(rule="name_taken", field="name")
        person = Person.objects.create_user(username, password=password)
        return accept_invitation(person=person, invitation=invitation)


def checked_name(username: str) -> None:
    """Refuse a name that nobody can sign in with."""
    try:
        Person._meta.get_field("username").clean(username, None)
    except ValidationError:
        raise Refused(rule="pattern:name", field="name") from None


def require_open(invitation: Invitation) -> None:
    """Refuse an invitation that was used, withdrawn or is over, or whose inviter may not invite any more."""
    end = InvitationEnd.objects.filter(invitation=invitation).first()
    if end is not None and end.word == "accepted":
        raise Refused(rule="invitation_used")
    if end is not None:
        raise Refused(rule="invitation_withdrawn")
    if now() >= invitation.expires_at:
        raise Refused(rule="invitation_expired")
    if Role.POLICY_ADMIN not in roles_of(invitation.inviter, invitation.workspace):
        raise Refused(rule="inviter_left")


def invited_roles(invitation: Invitation) -> list[dict[str, Any]]:
    """Return the roles that an invitation names, as {role, scope}."""
    found: list[dict[str, Any]] = json.loads(invitation.roles)
    return found


def _propose(workspace: Workspace, inviter: Person, person: Person, asked: Standing) -> None:
    until = checked_until(workspace, asked, None)
    propose_role(person=inviter, workspace=workspace, document=role_asked(person, asked, until))


def _end(invitation: Invitation, word: str, person: Person) -> None:
    InvitationEnd.objects.create(invitation=invitation, word=word, person=person, at=now())
    append_to_workspace(
        workspace=invitation.workspace,
        kind="invitation_ended",
        body={"invitation": invitation.uid, "end": word},
        actor=Actor.person(person),
        subject=invitation.uid,
    )
