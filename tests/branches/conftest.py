"""Notices that are really sent: by mail and by webhook, to servers on this machine, as time passes."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from branches.commands.admit import grant_role
from branches.models import Role
from branches.queries import clock
from tests.adapters.hooks import Receiver, receiver
from tests.adapters.smtp_server import Mailbox, mailbox
from tests.branches.noticed import addressed, place
from tests.builders import World
from tests.plugins import FakeWorld


@pytest.fixture
def move(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Let time pass for the product alone."""
    real, passed = clock.timezone.now, [timedelta()]
    monkeypatch.setattr(clock.timezone, "now", lambda: real() + passed[0])

    def go(delta: timedelta) -> None:
        passed[0] += delta

    return go


@pytest.fixture
def post(world: World, settings: Any) -> Iterator[Mailbox]:
    addressed(world, settings)
    with mailbox() as made:
        settings.MAILERS = made.mailers()
        yield made


@pytest.fixture
def hook(world: World, outside: FakeWorld) -> Iterator[Receiver]:
    grant_role(person=world.rosa, workspace=world.workspace, role=Role.POLICY_ADMIN)
    with receiver() as made:
        place(notifier="webhook", url=made.url, allow="loopback")
        yield made
