"""Opens a home folder for AutoGen and begins to record runs of a team."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from branches.evidence.ids import mint
from debugger.recorder import configuration as configurations
from debugger.recorder.autogen import dumps
from debugger.recorder.autogen.checks import RUNTIME, check_runtime, check_team, runtime_version
from debugger.recorder.autogen.runs import SETTLE_S, TeamRun
from debugger.recorder.autogen.tools import is_recorded
from debugger.recorder.gates import OwnGate
from debugger.recorder.recorder import Recorder


def open_recorder(
    home: Path,
    *,
    server: str,
    token: str,
    workflow: str,
    version: str,
    targets: Path | None = None,
    name: str = "recorder",
) -> Recorder:
    """Open a home folder as `Recorder.open` does, paired as one of AutoGen. Raises RuntimeUnknown too."""
    check_runtime()
    return Recorder.open(
        home,
        server=server,
        token=token,
        workflow=workflow,
        version=version,
        targets=targets,
        name=name,
        runtime=runtime_version(),
    )


async def record(
    recorder: Recorder,
    team: Any,
    *,
    thread_id: str,
    settle_s: float = SETTLE_S,
    contract_version: str | None = None,
) -> TeamRun:
    """Begin to record a run of a team that is at rest, on a thread of the caller's naming.

    The recording is full only when every tool that the team holds is wrapped or declared to read; where that
    stops being so, the recording is not closed. `settle_s`: how many seconds a cancelled team gets to come to
    rest. `contract_version`: that of the published topology
    contract that counts for this run, where it is not the workflow's own. Raises RuntimeUnknown, also for
    what is no team, RuntimeDiffers for a workflow of another runtime, and ValueError for what is no version.
    """
    check_runtime()
    recorder.declaration.check_runtime(RUNTIME)
    check_team(team)
    run = mint("run")
    written = recorder.record(run, run, OwnGate(run, recorder.answers), contract_version=contract_version)
    was_full = is_full(recorder, team)
    started = TeamRun(
        recorder,
        team,
        written,
        str(thread_id),
        still_full=lambda: not was_full or is_full(recorder, team),
        settle_s=settle_s,
    )
    recorder.answers.add({"t": "run", "run": run, "thread": started.thread})
    written.emit("run_started", _started(recorder, team, started, is_full=was_full), durable=True)
    await started.checkpoint()
    return started


def described(recorder: Recorder, team: Any) -> Mapping[str, Any]:
    """Return a team's configuration as the record carries it."""
    key, declared = recorder.identity.key, recorder.configuration
    found, routing = dumps.configuration(team, declared), dumps.routing(team, key, declared)
    return configurations.described(found, recorder.declaration, key, routing=routing)


def is_full(recorder: Recorder, team: Any) -> bool:
    """Whether every call that may have an effect goes through this recorder."""
    tools = dumps.plain_tools(dumps.participants(team))
    if tools is None or recorder.unwrapped:
        return False
    rule = recorder.declaration.tool
    return all(is_recorded(each, recorder) or rule(each.name).effect_class == "read" for each in tools)


def _started(recorder: Recorder, team: Any, run: TeamRun, *, is_full: bool) -> dict[str, Any]:
    declaration = recorder.declaration
    return {
        "workflow": declaration.uid,
        "workflow_version": declaration.version,
        "runtime": runtime_version(),
        "external_ref": run.external_ref,
        "configuration": described(recorder, team),
        "contract_version": run.record.contract_version,
        "phase": declaration.phase,
        "recording": "full" if is_full else "partial",
    }
