"""The operator lets somebody in from a shell: roles with their scopes, and nothing half-done."""

import getpass
import io

import pytest
from django.core.management import CommandError, call_command

from branches.models import Person
from branches.queries.standings import standings_of
from branches.rules.quorum import Standing
from tests.builders import World


@pytest.fixture(autouse=True)
def typed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(getpass, "getpass", lambda _prompt: "a quiet harbour at dusk")


def admit(world: World, *roles: str) -> str:
    out = io.StringIO()
    given = [f"--role={role}" for role in roles]
    call_command("admit", "joan", *given, "--workspace", world.workspace.name, stdout=out)
    return out.getvalue()


def test_roles_are_given_with_their_scopes(world: World) -> None:
    assert "joan" in admit(world, "engineer", "approver:C2", "destination_owner:tickets")
    joan = Person.objects.get(username="joan")
    assert joan.check_password("a quiet harbour at dusk")
    assert standings_of(joan, world.workspace) == {
        Standing("engineer"),
        Standing("approver", "C2"),
        Standing("destination_owner", "tickets"),
    }


@pytest.mark.parametrize(
    "role", ["emperor", "approver:C9", "engineer:C2", "destination_owner", "destination_owner:nowhere"]
)
def test_a_role_nobody_can_hold_lets_nobody_in(world: World, role: str) -> None:
    with pytest.raises(CommandError, match="role"):
        admit(world, "viewer", role)
    assert not Person.objects.filter(username="joan").exists()
