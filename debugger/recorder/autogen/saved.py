"""Saves a team with what it was made of, and loads it only into a team that is made of the same."""

from collections.abc import Mapping
from typing import Any

from branches.evidence.autogen_state import doubled_in
from debugger.recorder import configuration as configurations
from debugger.recorder.autogen.checks import check_runtime, check_team
from debugger.recorder.autogen.opening import described
from debugger.recorder.recorder import Recorder


class SavedUnfit(ValueError):
    """A saved state must not be loaded: by which rule."""

    def __init__(self, rule: str) -> None:
        super().__init__(f"saved: {rule}")
        self.rule = rule


async def save_team(recorder: Recorder, team: Any) -> dict[str, Any]:
    """Return a team's state with the digests of its parts; the state is content and stays where you put it.

    Raises SavedUnfit: `team_runs` (a cut while agents run is inconsistent), `doubled_message`.
    """
    check_runtime()
    check_team(team)
    if team._is_running:  # noqa: SLF001 - see `check_team`
        raise SavedUnfit("team_runs")
    state = dict(await team.save_state())
    if doubled_in(state):
        raise SavedUnfit("doubled_message")
    return {"parts": _parts(recorder, team), "state": state}


async def load_team(recorder: Recorder, team: Any, saved: Mapping[str, Any]) -> None:
    """Load a saved state into a new team object.

    The library itself would take it into a team without one of the agents, or with another prompt, tool or
    model. Raises SavedUnfit: `configuration_differs`, `configuration_unknown`, `doubled_message`.
    """
    check_runtime()
    check_team(team)
    own = _parts(recorder, team)
    if dict(saved["parts"]) != own:
        raise SavedUnfit("configuration_differs")
    if None in own.values():
        raise SavedUnfit("configuration_unknown")
    if doubled_in(saved["state"]):
        raise SavedUnfit("doubled_message")
    await team.load_state(saved["state"])


def _parts(recorder: Recorder, team: Any) -> dict[str, str | None]:
    return configurations.parts_of(described(recorder, team), recorder.declaration)
