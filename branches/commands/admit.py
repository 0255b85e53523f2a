"""Lets people and machines in: workspaces, roles, tokens and recorders."""

import base64
import binascii
import hashlib
import secrets
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from branches.commands.append_receipt import Actor, lock_names
from branches.commands.append_to_workspace import append_to_workspace
from branches.commands.refusal import Refused
from branches.evidence import boxes, ids
from branches.models import (
    ApiToken,
    Person,
    Presence,
    Recorder,
    RecorderToken,
    Role,
    RoleGrant,
    TokenEnd,
    Workspace,
)
from branches.queries.clock import now, stamp
from branches.queries.lookups import recorder_of
from branches.queries.standings import roles_of, standings_of
from branches.rules.quorum import Standing

SCOPES = ("ingest", "redeem", "read", "outcome")
TOKEN_LIVES = timedelta(days=365)


def make_workspace(*, name: str) -> Workspace:
    """Return the workspace of this name, made if absent."""
    with transaction.atomic():
        existing = Workspace.objects.filter(name=name).first()
        return existing or Workspace.objects.create(uid=ids.mint("ws"), name=name, made_at=now())


def make_person(*, username: str, password: Callable[[], str] | None = None) -> Person:
    """Return the person of this name, made if absent; `password` is asked only then.

    Without one nobody signs in by a password.
    """
    existing = Person.objects.filter(username=username).first()
    if existing is not None:
        return existing
    secret = password() if password is not None else None
    return Person.objects.create_user(username, password=secret)


def grant_role(
    *,
    person: Person,
    workspace: Workspace,
    role: Role,
    held: bool = True,
    scope: str = "",
    until: datetime | None = None,
    actor: Actor | None = None,
) -> None:
    """Give a role, or take it with `held=False`; nothing is written where nothing changes.

    `actor` is the product itself where the operator's own command lets somebody in.
    """
    actor = actor or Actor.product(workspace)
    with transaction.atomic():
        lock_names([f"roles {workspace.uid}"])
        newest = RoleGrant.objects.filter(person=person, workspace=workspace, role=role, scope=scope).last()
        before = Standing(role, scope) in standings_of(person, workspace)
        if before == held and (not held or newest is None or newest.until == until):
            return
        joins = held and not roles_of(person, workspace)
        RoleGrant.objects.create(
            person=person, workspace=workspace, role=role, scope=scope, held=held, until=until, at=now()
        )
        if joins:
            append_to_workspace(
                workspace=workspace,
                kind="person_joined",
                body={"person": person.uid},
                actor=actor,
                subject=person.uid,
            )
        append_to_workspace(
            workspace=workspace,
            kind="role_granted" if held else "role_withdrawn",
            body=role_body(person, role, scope, until),
            actor=actor,
            subject=person.uid,
        )
        if not held and not roles_of(person, workspace):
            append_to_workspace(
                workspace=workspace,
                kind="person_left",
                body={"person": person.uid},
                actor=actor,
                subject=person.uid,
            )


def role_body(person: Person, role: str, scope: str, until: datetime | None) -> dict[str, Any]:
    """Return a role as receipts name it."""
    return {
        "person": person.uid,
        "role": str(role),
        "class": scope or None if role == Role.APPROVER else None,
        "destination": scope or None if role == Role.DESTINATION_OWNER else None,
        "until": None if until is None else stamp(until),
    }


def issue_token(
    *,
    workspace: Workspace,
    name: str,
    scopes: Iterable[str],
    lives: timedelta = TOKEN_LIVES,
    actor: Actor | None = None,
) -> tuple[ApiToken, str]:
    """Return the token's row and its secret, which is shown this once and kept as a digest."""
    chosen = sorted(set(scopes))
    if not chosen or not set(chosen) <= set(SCOPES):
        raise Refused(rule="enum", field="scopes")
    secret = f"bgt_{secrets.token_urlsafe(32)}"
    made_at = now()
    with transaction.atomic():
        token = ApiToken.objects.create(
            uid=ids.mint("tok"),
            workspace=workspace,
            name=name,
            digest=token_digest(secret),
            scopes=chosen,
            made_at=made_at,
            expires_at=made_at + lives,
        )
        append_to_workspace(
            workspace=workspace,
            kind="token_issued",
            body={"token": token.uid, "scopes": chosen, "expires_at": stamp(token.expires_at)},
            actor=actor or Actor.product(workspace),
            subject=token.uid,
        )
    return token, secret


def token_digest(secret: str) -> str:
    """Return the digest a token is kept as; the secret has 256 bits, so a bare hash hides it."""
    return "sha256:" + hashlib.sha256(b"branchgate/token/v1\0" + secret.encode()).hexdigest()


def end_token(*, token: ApiToken, actor: Actor | None = None) -> None:
    """Accept a token no longer; safe to repeat."""
    with transaction.atomic():
        lock_names([f"token {token.uid}"])
        if TokenEnd.objects.filter(token=token).exists():
            return
        TokenEnd.objects.create(token=token, at=now())
        append_to_workspace(
            workspace=token.workspace,
            kind="token_revoked",
            body={"token": token.uid},
            actor=actor or Actor.product(token.workspace),
            subject=token.uid,
        )


def pair_recorder(*, token: ApiToken, name: str, runtime: str, box_key: str) -> tuple[Recorder, bool]:
    """Return the recorder for this token and key, and whether it is new; `box_key` is base64 of 32 bytes."""
    try:
        public = base64.b64decode(box_key, validate=True)
    except (binascii.Error, ValueError):
        raise Refused(rule="base64", field="box_key") from None
    if len(public) != 32:
        raise Refused(rule="bytes:32", field="box_key")
    try:
        boxes.seal(public, b"")
    except boxes.BoxError:
        raise Refused(rule="weak_key", field="box_key") from None
    with transaction.atomic():
        lock_names([f"{token.uid} {public.hex()}"])
        # One that went on under this token is still itself.
        known = (Recorder.objects.filter(token=token, box_key=public.hex()).first(), recorder_of(token))
        existing = next((each for each in known if each is not None and each.box_key == public.hex()), None)
        if existing is not None:
            _speaks_with(existing, token)
            return existing, False
        recorder = Recorder.objects.create(
            uid=ids.mint("rec"),
            workspace=token.workspace,
            token=token,
            name=name[:96],
            runtime=runtime[:96],
            box_key=public.hex(),
            made_at=now(),
        )
        append_to_workspace(
            workspace=token.workspace,
            kind="recorder_paired",
            body={"recorder": recorder.uid, "key": "sha256:" + hashlib.sha256(public).hexdigest()},
            actor=Actor("recorder", recorder.uid),
            subject=recorder.uid,
        )
        _speaks_with(recorder, token)
        return recorder, True


def _speaks_with(recorder: Recorder, token: ApiToken) -> None:
    """Let whoever paired last be the one who speaks with a token that others went on with."""
    rows = RecorderToken.objects.filter(token=token).order_by("-id")
    newest = rows.first()
    if newest is not None and newest.recorder_id != recorder.pk:
        RecorderToken.objects.create(recorder=recorder, token=token, at=now())


def note_presence(*, recorder: Recorder) -> None:
    """Remember that a recorder was heard from; not part of the record."""
    Presence.objects.update_or_create(recorder=recorder, defaults={"heard_at": now()})
