"""A policy admin makes a group, and says who is in it."""

from django.db import transaction

from branches.commands.append_receipt import Actor
from branches.commands.change_policy import require_admin
from branches.commands.groups import make_group, set_membership
from branches.commands.refusal import Refused
from branches.models import Group, Person, Workspace


def add_group(*, person: Person, workspace: Workspace, name: str) -> Group:
    """Return the new group; one of that name must not exist yet. Raises Refused."""
    require_admin(person, workspace)
    if Group.objects.filter(workspace=workspace, name=name).exists():
        raise Refused(rule="name_taken", field="group")
    return make_group(workspace=workspace, name=name, actor=Actor.person(person))


def change_membership(*, person: Person, group: Group, subject: Person, held: bool) -> None:
    """Let somebody of the workspace join a group, or leave it. Raises Refused."""
    with transaction.atomic():
        require_admin(person, group.workspace)
        set_membership(group=group, person=subject, held=held, actor=Actor.person(person))
