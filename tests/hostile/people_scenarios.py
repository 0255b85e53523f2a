"""What the races about people do; each is one scenario on the arena's database, as `scenarios` has them."""

import json
from functools import partial
from typing import Any

from branches.commands.admit import grant_role
from branches.commands.change_role import withdraw_role
from branches.commands.connect import declare_workflow
from branches.commands.decide_change import decide_change
from branches.commands.invite_person import accept_invitation, invite_person, join_by_invitation
from branches.commands.note_sign_in import note_sign_in
from branches.commands.publish_workflow import publish_workflow
from branches.models import InvitationEnd, Person, PolicyChange, Role
from branches.queries.standings import roster_of
from branches.queries.workspace_chain import verify_workspace
from tests.builders import World, declaration
from tests.hostile.racing import race


def accept_at_once(world: World, processes: int) -> dict[str, Any]:
    """Accept one invitation from many processes, half of them as somebody new of one name."""
    grant_role(person=world.rosa, workspace=world.workspace, role=Role.POLICY_ADMIN)
    row, _ = invite_person(
        person=world.rosa, workspace=world.workspace, roles=[{"role": "engineer", "scope": ""}]
    )
    before = len(roster_of(world.workspace))

    def accepts(number: int) -> str:
        if number % 2:
            join_by_invitation(
                invitation=row, username=f"new-{world.workspace.uid}", password="a quiet harbour at dusk"
            )
        else:
            known = Person.objects.get(username=f"p{number}-{world.workspace.uid}")
            accept_invitation(person=known, invitation=row)
        return "accepted"

    for number in range(0, processes, 2):
        Person.objects.create_user(f"p{number}-{world.workspace.uid}")
    words = race([partial(accepts, number) for number in range(processes)])
    return {
        "words": {word: words.count(word) for word in words},
        "ends": InvitationEnd.objects.filter(invitation=row).count(),
        "came": len(roster_of(world.workspace)) - before,
        "whole": verify_workspace(world.workspace).ok,
    }


def admins_at_once(world: World, processes: int) -> dict[str, Any]:
    """Let every policy admin of a workspace lay their own role down at once."""
    admins = [Person.objects.create_user(f"a{n}-{world.workspace.uid}") for n in range(processes)]
    for admin in admins:
        grant_role(person=admin, workspace=world.workspace, role=Role.POLICY_ADMIN)

    def leaves(admin: Person) -> str:
        withdraw_role(person=admin, workspace=world.workspace, subject=admin, role="policy_admin")
        return "left"

    words = race([partial(leaves, admin) for admin in admins])
    left = [voter for voter in roster_of(world.workspace).values() if "policy_admin" in _roles(voter)]
    return {"words": {word: words.count(word) for word in words}, "left": len(left)}


def _roles(voter: Any) -> set[str]:
    return {each.role for each in voter.standings}


def workflows_at_once(world: World, processes: int) -> dict[str, Any]:
    """Agree to versions that lower, and publish others, at one moment: each waits for the one before."""
    changes = []
    for number in range(0, processes, 2):
        declared = declaration(version=f"2.{number}")
        declared["destinations"]["mail"]["target"] = f"mail-{number}"
        done = declare_workflow(person=world.ada, workspace=world.workspace, text=json.dumps(declared))
        assert done.change is not None
        changes.append(done.change)

    def agrees(change: PolicyChange) -> str:
        decide_change(person=world.grace, change=change, word="approved", digest=change.digest)
        return "agreed"

    def publishes(number: int) -> str:
        declared = declaration(workflow=f"other-{number}", destinations={}, tools={})
        publish_workflow(workspace=world.workspace, publisher=world.recorder.token.uid, declaration=declared)
        return "published"

    acts = [act for number, change in enumerate(changes)
            for act in (partial(agrees, change), partial(publishes, number))]  # fmt: skip
    words = race(acts)
    return {
        "words": {word: words.count(word) for word in words},
        "whole": verify_workspace(world.workspace).ok,
    }


def sign_ins_at_once(world: World, processes: int) -> dict[str, Any]:
    """Sign the same people in from many processes: their chain stays one chain."""

    def signs_in() -> str:
        for _ in range(5):
            note_sign_in(person=world.ada, method="password", second_factor=False)
        return "signed in"

    words = race([signs_in] * processes)
    verdict = verify_workspace(world.workspace)
    return {
        "words": {word: words.count(word) for word in words},
        "whole": verdict.ok,
        "count": verdict.count,
    }
