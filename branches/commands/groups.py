"""Groups of people: where a policy wants approvals of different groups, each group is one side."""

import re
from typing import Final

from django.db import transaction

from branches.commands.append_receipt import Actor, lock_names
from branches.commands.append_to_workspace import append_to_workspace
from branches.commands.refusal import Refused
from branches.evidence import ids
from branches.models import Group, GroupMember, Person, Workspace
from branches.queries.clock import now
from branches.queries.standings import roles_of

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


def make_group(*, workspace: Workspace, name: str, actor: Actor | None = None) -> Group:
    """Return the group of this name, made if absent."""
    if not _NAME.fullmatch(name):
        raise Refused(rule="pattern:name", field="group")
    actor = actor or Actor.product(workspace)
    with transaction.atomic():
        lock_names([f"roles {workspace.uid}"])
        existing = Group.objects.filter(workspace=workspace, name=name).first()
        if existing is not None:
            return existing
        group = Group.objects.create(uid=ids.mint("grp"), workspace=workspace, name=name, made_at=now())
        append_to_workspace(
            workspace=workspace, kind="group_made", body={"group": group.uid}, actor=actor, subject=group.uid
        )
    return group


def set_membership(*, group: Group, person: Person, held: bool, actor: Actor | None = None) -> None:
    """Let somebody of the workspace join a group, or leave it; nothing is written where nothing changes."""
    workspace = group.workspace
    actor = actor or Actor.product(workspace)
    with transaction.atomic():
        lock_names([f"roles {workspace.uid}"])
        if held and not roles_of(person, workspace):
            raise Refused(rule="unknown_here", field="person")
        newest = GroupMember.objects.filter(group=group, person=person).order_by("-id").first()
        if (newest is not None and newest.held) == held:
            return
        GroupMember.objects.create(group=group, person=person, held=held, at=now())
        append_to_workspace(
            workspace=workspace,
            kind="group_joined" if held else "group_left",
            body={"group": group.uid, "person": person.uid},
            actor=actor,
            subject=person.uid,
        )
