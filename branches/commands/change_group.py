"""A policy admin makes a group, and says who is in it."""

from django.db import transaction

from branches.commands.append_receipt import Actor, lock_authority, lock_names
from branches.commands.change_role import require_member
from branches.commands.groups import make_group, set_membership
from branches.commands.propose_change import propose_membership, require_admin
from branches.commands.refusal import Refused
from branches.models import Group, Person, PolicyChange, Workspace
from branches.queries.standings import groups_of


def add_group(*, person: Person, workspace: Workspace, name: str) -> Group:
    """Return the new group; one of that name must not exist yet. Raises Refused."""
    with transaction.atomic():
        lock_names([f"roles {workspace.uid}"])
        require_admin(person, workspace)
        if Group.objects.filter(workspace=workspace, name=name).exists():
            raise Refused(rule="name_taken", field="group")
        return make_group(workspace=workspace, name=name, actor=Actor.person(person))


def change_membership(*, person: Person, group: Group, subject: Person, held: bool) -> PolicyChange | None:
    """Let somebody of the workspace join a group, or leave it. Raises Refused.

    Returns the change that others decide where somebody joins: who stands for which group is what a policy
    counts by. Leaving is at once, for it only takes.
    """
    workspace = group.workspace
    with transaction.atomic():
        lock_authority(workspace)
        require_admin(person, workspace)
        if held:
            require_member(subject, workspace)
            if group.uid in groups_of(subject, workspace):
                return None
            return propose_membership(person=person, group=group, subject=subject)
        set_membership(group=group, person=subject, held=False, actor=Actor.person(person))
    return None
