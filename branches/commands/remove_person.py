"""Takes every role and every membership of somebody in a workspace, in one transaction."""

from django.db import transaction

from branches.commands.admit import grant_role
from branches.commands.append_receipt import Actor, lock_names
from branches.commands.change_role import require_another_admin
from branches.commands.groups import set_membership
from branches.commands.propose_change import require_admin
from branches.commands.refusal import Refused
from branches.models import Group, Person, Role, Workspace
from branches.queries.standings import standings_of


def remove_person(*, person: Person, workspace: Workspace, subject: Person) -> None:
    """Let somebody see and decide nothing here any more; what they did stays. Raises Refused."""
    actor = Actor.person(person)
    with transaction.atomic():
        lock_names([f"roles {workspace.uid}"])
        require_admin(person, workspace)
        held = standings_of(subject, workspace)
        if not held:
            raise Refused(rule="unknown_here", field="person")
        if any(each.role == Role.POLICY_ADMIN for each in held):
            require_another_admin(workspace, subject)
        for group in Group.objects.filter(workspace=workspace, members__person=subject).distinct():
            set_membership(group=group, person=subject, held=False, actor=actor)
        for each in sorted(held):
            grant_role(
                person=subject,
                workspace=workspace,
                role=Role(each.role),
                scope=each.scope,
                held=False,
                actor=actor,
            )
