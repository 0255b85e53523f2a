"""Every seeded fault of authority is found: what the machine finds, it finds because it looks."""

import pytest
from django.db import IntegrityError
from hypothesis.stateful import run_state_machine_as_test

from tests.hostile.authority_machine import FAULTS, AuthorityLife, Found, Stage, lives
from tests.plugins import FakeWorld


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_a_seeded_fault_is_found(world_of_fakes: FakeWorld, fault: str) -> None:
    machine = type("Life", (AuthorityLife,), {"stage": Stage(world_of_fakes), "steps": 0})
    # The database holds some rules by itself: a fault that it stops is found as well.
    with FAULTS[fault](), pytest.raises((Found, IntegrityError)):
        run_state_machine_as_test(machine, settings=lives(400, 40))
