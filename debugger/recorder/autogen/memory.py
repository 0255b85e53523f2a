"""Measures a team at rest: the fingerprint of what it would save, beside the workflow's other state keys."""

import asyncio
from dataclasses import dataclass
from typing import Any, Final

from branches.evidence.autogen_state import doubled_in, memory_of
from branches.evidence.keys import HmacKey
from branches.ports import StateMeasurement
from debugger.recorder.recorder import Recorder

MEMORY_PROBE: Final = "autogen_team"
MEMORY_KEY: Final = "agent_memory"


@dataclass(frozen=True, slots=True)
class Measured:
    """A state as a checkpoint's receipt carries it; `is_whole`: an agent would not read anything twice."""

    body: dict[str, Any]
    is_whole: bool


async def measured(recorder: Recorder, team: Any, external_ref: str, checkpoint: str, run: str) -> Measured:
    """Measure a team that is at rest."""
    memory, is_whole = await _memory(team, recorder.identity.key)
    # Probes ask files, programs and addresses: not on the loop that the team runs on.
    others = await asyncio.to_thread(recorder.state.measure, external_ref, checkpoint, run=run)
    return Measured(recorder.state.body({**others, memory_key(recorder): memory}), is_whole)


def memory_key(recorder: Recorder) -> str:
    """Return the state key that stands for the team's memory: the one declared with our probe."""
    rules = recorder.declaration.state_keys
    return next((name for name, rule in rules.items() if rule.probe == MEMORY_PROBE), MEMORY_KEY)


async def _memory(team: Any, key: HmacKey) -> tuple[StateMeasurement, bool]:
    try:
        state = await team.save_state()
        found = memory_of(state, key)
    except Exception:  # noqa: BLE001 - an agent's own code saves it, and not knowing is an answer
        return StateMeasurement(None, reachable=False, problem="save_failed"), False
    facts: dict[str, int | bool | str] = {"agents": found.agents, "messages": found.messages}
    return StateMeasurement(found.fingerprint, facts, parts=dict(found.parts)), not doubled_in(state)
