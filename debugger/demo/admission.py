"""Lets the demo's people and its recorder in: Ada forks, Grace and Barbara approve, Rosa reviews."""

from typing import Final

from django.db import connection

from branches.commands.admit import grant_role, issue_token, make_person, make_workspace
from branches.commands.groups import make_group, set_membership
from branches.commands.publish_workflow import publish_workflow
from branches.models import Role, Workflow, WorkspaceReceipt
from branches.queries.lookups import workspace_names
from debugger.demo.layout import DemoWorld
from debugger.demo.world import WORKFLOW, declaration

WORKSPACE: Final = "main"
"""The workspace that commands take unless told otherwise: what is connected to the demo is seen there."""
CAST: Final = {
    "ada": (Role.ENGINEER,),
    "grace": (Role.APPROVER,),
    "barbara": (Role.APPROVER, Role.POLICY_ADMIN),
    "rosa": (Role.REVIEWER, Role.AUDITOR),
}
OWNED: Final = ("desk.tickets", "desk.drafts", "desk.mail")
"""Barbara owns what the team writes to."""
GROUPS: Final = {"grace": "safety", "barbara": "publishing"}
"""What cannot be undone takes two approvers, of different groups."""


def holds_more_than_the_demo() -> bool:
    """Return whether somebody works in this database beside the demo."""
    if "branches_workspace" not in connection.introspection.table_names():
        return False
    others = Workflow.objects.exclude(name=WORKFLOW)
    return workspace_names() - {WORKSPACE} != set() or others.exists()


def recorder_has_conformed() -> bool:
    """Return whether the demo's recorder has reported what it kept of the conformance suite."""
    rows = WorkspaceReceipt.objects.filter(workspace__name=WORKSPACE, kind="recorder_conformed")
    return rows.exists()


def admit_demo(world: DemoWorld) -> str:
    """Make the workspace, the cast and the workflow, and return the recorder's token; safe to repeat."""
    workspace = make_workspace(name=WORKSPACE)
    for name, roles in CAST.items():
        for role in roles:
            grant_role(person=make_person(username=name), workspace=workspace, role=role)
    for destination in OWNED:
        barbara = make_person(username="barbara")
        grant_role(person=barbara, workspace=workspace, role=Role.DESTINATION_OWNER, scope=destination)
    for name, group in GROUPS.items():
        made = make_group(workspace=workspace, name=group)
        set_membership(group=made, person=make_person(username=name), held=True)
    if world.token_file.exists():
        token = world.token_file.read_text().strip()
    else:
        _, token = issue_token(
            workspace=workspace, name="demo recorder", scopes=["ingest", "redeem", "read", "outcome"]
        )
        world.token_file.touch(mode=0o600)
        world.token_file.write_text(token)
    publish_workflow(workspace=workspace, publisher=workspace.uid, declaration=declaration())
    return token
