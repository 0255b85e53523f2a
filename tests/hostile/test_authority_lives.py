"""The life of a request and a permit, twenty thousand acts of it, against a model that is plain Python."""

import pytest
from hypothesis.stateful import run_state_machine_as_test

from tests.hostile.authority_machine import AuthorityLife, Stage, lives
from tests.plugins import FakeWorld

# In all twenty thousand acts: CI runs both databases.
LIVES, ACTS, LEAST = 63, 40, 2500


@pytest.mark.parametrize("part", range(4))
def test_no_act_of_anybody_ends_otherwise_than_it_must(world_of_fakes: FakeWorld, part: int) -> None:
    machine = type(f"Life{part}", (AuthorityLife,), {"stage": Stage(world_of_fakes), "steps": 0})
    run_state_machine_as_test(machine, settings=lives(LIVES, ACTS))
    assert machine.steps >= LEAST
