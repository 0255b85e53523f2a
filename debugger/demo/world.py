"""Lays the demo's world out in one folder, names its programs, and runs the team once so that it fails."""

import json
import os
import secrets
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from branches.evidence.domains import CHECKPOINT, MESSAGE
from debugger.demo import team
from debugger.demo.declared import WORKFLOW, WORKFLOW_VERSION, declaration, server_targets
from debugger.demo.desk import COOKIE
from debugger.demo.desk_store import DeskStore
from debugger.demo.layout import FOLDER_ENV, DemoWorld
from debugger.demo.script import MARKER
from debugger.recorder import Recorder
from debugger.supervisor import Program

__all__ = [
    "WORKFLOW",
    "WORKFLOW_VERSION",
    "DemoWorld",
    "TeamRun",
    "conformance_program",
    "declaration",
    "desk_program",
    "lay_out",
    "recorder_program",
    "run_team",
]

_SESSION: Final = "b7c1f0a94e"
_NOTES: Final = (
    f"# Notes {MARKER}\n\n"
    f"Second quarter: 3.9 million readers, 1 240 letters. {MARKER}\n"
    f"Third quarter: 4.2 million readers, 1 310 letters. {MARKER}\n"
)
_DRAFT: Final = f"# Third quarter at a glance\n\nTo be written from the notes. {MARKER}\n"


@dataclass(frozen=True, slots=True)
class TeamRun:
    """One recorded run of the team; ids of messages and checkpoints are HMACs as in the record."""

    run: str
    thread: str
    brief: str
    """The orchestrator's brief: the message to edit."""
    before_effects: str
    """The last checkpoint before anything was written outside."""
    stop_cause: str | None
    delivered: bool


def lay_out(folder: Path, desk_port: int, python: str) -> DemoWorld:
    """Make everything the team needs in an empty or new folder, and return where it lies."""
    folder = folder.resolve()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    world = DemoWorld(folder, desk_port, python)
    _lay_workspace(world)
    _lay_approvals(world)
    _lay_desk(world)
    world.checkpoints.parent.mkdir(exist_ok=True)
    write_targets(world)
    world.save()
    return world


def write_targets(world: DemoWorld) -> None:
    """Write where the server and the recorder may go; the recorder cannot see the approval queue."""
    targets = server_targets(world)
    _write(world.targets, targets)
    _write(world.recorder_targets, {name: targets[name] for name in targets if name != "approvals"})


def desk_program(world: DemoWorld) -> Program:
    """Return the desk's own process."""
    command = [
        *(world.python, "-m", "debugger.demo.desk"),
        *("--port", str(world.desk_port), "--store", str(world.desk_store)),
    ]
    return Program("desk", command)


def recorder_program(world: DemoWorld, server: str) -> Program:
    """Return the recorder that runs branches; its token must lie in `world.token_file`."""
    command = [
        *(world.python, "-m", "debugger.recorder.cli", "run"),
        *("--graph", "debugger.demo.team:build", "--home", str(world.recorder_home)),
        *("--server", server, "--token-file", str(world.token_file)),
        *("--workflow", WORKFLOW, "--version", WORKFLOW_VERSION),
        *("--targets", str(world.recorder_targets), "--name", "demo"),
    ]
    return Program("recorder", command, {FOLDER_ENV: str(world.folder)})


def conformance_program(world: DemoWorld, server: str) -> Program:
    """Return what tries the demo's recorder by the conformance suite, once, and reports what it kept."""
    command = [
        *(world.python, "-m", "debugger.recorder.cli", "conform", "--runtime", "langgraph"),
        *("--home", str(world.recorder_home), "--server", server),
        *("--token-file", str(world.token_file), "--name", "demo", "--background"),
    ]
    return Program("conformance", command, ends=True)


def run_team(world: DemoWorld, server: str, token: str) -> TeamRun:
    """Run the team once, recorded; the desk must answer. It fails to publish and says that it did."""
    thread = f"quarter-3-{secrets.token_hex(4)}"
    recorder = Recorder.open(
        world.recorder_home,
        server=server,
        token=token,
        workflow=WORKFLOW,
        version=WORKFLOW_VERSION,
        targets=world.recorder_targets,
        name="demo",
    )
    graph = None
    try:
        graph = team.build(recorder, world)
        run = recorder.start_run(graph, thread_id=thread)
        values = run.invoke({"messages": [("user", team.REQUEST)]})
        brief = next(each for each in values["messages"] if each.name == "orchestrator")
        config = {"configurable": {"thread_id": thread}}
        before = next(each for each in graph.get_state_history(config) if each.next == ("verifier",))
        key = recorder.identity.key
        return TeamRun(
            run=run.run,
            thread=thread,
            brief=key.digest(MESSAGE, brief.id),
            before_effects=key.digest(CHECKPOINT, before.config["configurable"]["checkpoint_id"]),
            stop_cause=run.stop_cause,
            delivered=recorder.flush(15),
        )
    finally:
        recorder.close()
        if graph is not None:
            graph.checkpointer.conn.close()


def _lay_workspace(world: DemoWorld) -> None:
    for name, text in (("notes/quarters.md", _NOTES), ("drafts/quarter-3.md", _DRAFT)):
        path = world.workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for arguments in (
        ["init", "--quiet", "--initial-branch", "main"],
        ["add", "--all"],
        ["commit", "--quiet", "--message", "Add the notes and an empty draft"],
    ):
        _git(world.workspace, *arguments)


def _git(folder: Path, *arguments: str) -> None:
    """Run git as the desk's own author, whatever the person's configuration says."""
    when = "2026-01-05T09:00:00Z"
    who = {"NAME": "Desk", "EMAIL": "desk@desk.example", "DATE": when}
    env = {f"GIT_{role}_{name}": value for role in ("AUTHOR", "COMMITTER") for name, value in who.items()}
    alone = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
    subprocess.run(  # noqa: S603 - git with our own arguments
        ["git", "-C", str(folder), *arguments],  # noqa: S607 - wherever git is
        env={"PATH": os.environ.get("PATH", os.defpath), **env, **alone},
        check=True,
        stdin=subprocess.DEVNULL,
        capture_output=True,
    )


def _lay_approvals(world: DemoWorld) -> None:
    """Write a queue in which one request was approved and one still waits, both before any run."""
    now = datetime.now(UTC)
    entries = (
        (30, "ask-legal-12", "requested"),
        (20, "ask-layout-13", "requested"),
        (10, "ask-legal-12", "approved"),
    )
    lines = [
        json.dumps({"at": (now - timedelta(minutes=ago)).isoformat(), "request": request, "event": event})
        for ago, request, event in entries
    ]
    world.approvals.write_text("\n".join(lines) + "\n")


def _lay_desk(world: DemoWorld) -> None:
    """Sign the team's browser in, and let one report be there from last week."""
    world.cookie_file.parent.mkdir(mode=0o700, exist_ok=True)
    world.cookie_file.write_text(f"{COOKIE}={_SESSION}\n")
    store = DeskStore(world.desk_store)
    store.set_session(_SESSION, is_live=True)
    if store.latest_report() is None:
        old = {"title": "Second quarter at a glance", "section": "reports", "body": f"As printed. {MARKER}"}
        store.add_report(old, at=datetime.now(UTC) - timedelta(days=7))
    store.close()


def _write(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=1))
