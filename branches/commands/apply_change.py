"""Carries out what others agreed to: a policy counts from then on, the rest is done when its time comes."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Final

from django.db import transaction

from branches.commands.admit import grant_role
from branches.commands.append_receipt import Actor, lock_authority
from branches.commands.append_to_workspace import append_to_workspace
from branches.commands.groups import set_membership
from branches.commands.publish_workflow import publish_agreed
from branches.commands.refusal import Refused
from branches.commands.supersede_requests import supersede_by_policy
from branches.evidence import canonical
from branches.models import (
    ChangeApplied,
    Group,
    GroupMember,
    Person,
    PolicyChange,
    PolicyChangeEnd,
    PolicySort,
    Role,
    RoleGrant,
    Workspace,
)
from branches.queries.clock import now, parse, stamp
from branches.queries.lowering import Lowered


def adopt_change(change: PolicyChange, actor: Actor) -> None:
    """End a change as adopted, in the caller's transaction; one without delay is applied with it.

    Raises Refused where another one was adopted under its version meanwhile.
    """
    require_new_version(change.workspace, change.sort, change.version, change.digest)
    effective_at = now() + timedelta(seconds=change.delay_s)
    PolicyChangeEnd.objects.create(change=change, word="adopted", effective_at=effective_at, at=now())
    _record_end(change, "adopted", actor, stamp(effective_at))
    if change.sort != PolicySort.POLICY and change.delay_s == 0:
        _apply(change)
    if change.sort == PolicySort.POLICY:
        if change.delay_s == 0:
            # Its own locks come before those that are held here; redemption reads the policy again anyway.
            transaction.on_commit(supersede_by_policy)
        append_to_workspace(
            workspace=change.workspace,
            kind="policy_adopted",
            body={"policy": change.digest, "version": change.version, "effective_at": stamp(effective_at)},
            actor=actor,
            subject=change.uid,
        )


def require_new_version(workspace: Workspace, sort: str, version: str, digest: str) -> None:
    """Refuse a policy whose version names another one already; the caller holds the lock of its policies."""
    adopted = PolicyChange.objects.filter(
        workspace=workspace, sort=PolicySort.POLICY, version=version, end__word="adopted"
    )
    if sort == PolicySort.POLICY and adopted.exclude(digest=digest).exists():
        raise Refused(rule="version_already_published", field="policy")


def end_change(change: PolicyChange, word: str, actor: Actor) -> None:
    """End a change that is not adopted, in the caller's transaction."""
    PolicyChangeEnd.objects.create(change=change, word=word, at=now())
    _record_end(change, word, actor, None)


def apply_changes() -> list[str]:
    """Apply every adopted change whose time has come; safe to repeat. Returns those that changed something.

    A policy needs nothing: it is read by its date.
    """
    due = PolicyChange.objects.filter(
        end__word="adopted", end__effective_at__lte=now(), applied__isnull=True
    ).exclude(sort=PolicySort.POLICY)
    return [change.uid for change in due.select_related("workspace", "author")[:100] if _apply(change)]


def _apply(change: PolicyChange) -> bool:
    asked = canonical.parse_strict(change.document.encode())
    assert isinstance(asked, dict)  # noqa: S101 - written by propose_change
    with transaction.atomic():
        lock_authority(change.workspace)
        if ChangeApplied.objects.filter(change=change).exists():
            return False
        took_effect = _APPLIED[change.sort](change, asked)
        ChangeApplied.objects.create(change=change, took_effect=took_effect, at=now())
        if not took_effect:
            _record_end(change, "superseded", Actor.product(change.workspace), None)
        return took_effect


def _give_role(change: PolicyChange, asked: Mapping[str, Any]) -> bool:
    person = Person.objects.filter(uid=asked["person"], is_active=True).first()
    if person is None or _was_taken_since(change, person):
        return False
    grant_role(
        person=person,
        workspace=change.workspace,
        role=Role(str(asked["role"])),
        scope=str(asked["scope"]),
        until=parse(str(asked["until"])) if asked["until"] else None,
        actor=_author_of(change),
    )
    return True


def _was_taken_since(change: PolicyChange, person: Person) -> bool:
    """Whether somebody lost a role here after they were proposed for one: what was agreed is over."""
    rows = RoleGrant.objects.filter(workspace=change.workspace, person=person, at__gt=change.at)
    return rows.filter(held=False).exists()


def _join_group(change: PolicyChange, asked: Mapping[str, Any]) -> bool:
    group = Group.objects.filter(workspace=change.workspace, uid=asked["group"]).first()
    person = Person.objects.filter(uid=asked["person"], is_active=True).first()
    if group is None or person is None or _was_taken_since(change, person):
        return False
    left = GroupMember.objects.filter(group=group, person=person, held=False, at__gt=change.at)
    if left.exists():
        return False
    try:
        set_membership(group=group, person=person, held=True, actor=_author_of(change))
    except Refused:
        return False  # whoever belongs here no longer joins nothing
    return True


def _publish(change: PolicyChange, asked: Mapping[str, Any]) -> bool:
    publisher = change.workspace.uid if change.author is None else change.author.uid
    agreed = [Lowered(each["workflow"], each["field"]) for each in asked["lowers"]]
    try:
        with transaction.atomic():
            publish_agreed(
                workspace=change.workspace,
                publisher=publisher,
                declaration=asked["declaration"],
                agreed=agreed,
            )
    except Refused:
        return False  # by now it lowers more, or other bytes were published under its version
    return True


_APPLIED: Final[Mapping[str, Callable[[PolicyChange, Mapping[str, Any]], bool]]] = {
    PolicySort.ROLE: _give_role,
    PolicySort.GROUP: _join_group,
    PolicySort.WORKFLOW: _publish,
}


def _author_of(change: PolicyChange) -> Actor:
    return Actor.product(change.workspace) if change.author is None else Actor.person(change.author)


def _record_end(change: PolicyChange, word: str, actor: Actor, effective_at: str | None) -> None:
    append_to_workspace(
        workspace=change.workspace,
        kind="change_ended",
        body={"change": change.uid, "end": word, "effective_at": effective_at},
        actor=actor,
        subject=change.uid,
    )
