"""What can be imported: the threads of every store that the targets file names, by HMAC."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from branches.evidence import ids
from branches.models import Job, JobKind, Run, Workspace
from branches.ports import ThreadSummary
from branches.queries.secrets import workspace_key
from branches.queries.targets import registered
from branches.registry import PluginMissing, PluginUnfit, find


@dataclass(frozen=True, slots=True)
class ThreadRow:
    """A thread of a store, with the run it became and the newest job about it."""

    subject: str
    thread: ThreadSummary
    run: str | None
    job: Job | None


@dataclass(frozen=True, slots=True)
class StoreRow:
    """A store of a runtime, or what stands in the way of reading it."""

    target: str
    runtime: str
    threads: tuple[ThreadRow, ...]
    problem: str | None


def stores(workspace: Workspace) -> list[StoreRow]:
    """Return every target that names a runtime and a store."""
    return [
        _store(workspace, name, options)
        for name, options in sorted(registered().items())
        if isinstance(options, dict) and "runtime" in options and "store" in options
    ]


def _store(workspace: Workspace, name: str, options: dict[str, Any]) -> StoreRow:
    runtime = str(options["runtime"])
    try:
        found = find("runtimes", runtime).threads(Path(options["store"]), workspace_key(workspace))
    except (PluginMissing, PluginUnfit):
        return StoreRow(name, runtime, (), "plugin_missing")
    except Exception as error:  # noqa: BLE001 - a plug-in is somebody else's code; its words may hold a path
        return StoreRow(name, runtime, (), type(error).__name__)
    rows = tuple(_thread(workspace, name, thread) for thread in found[:100])
    return StoreRow(name, runtime, rows, None)


def _thread(workspace: Workspace, name: str, thread: ThreadSummary) -> ThreadRow:
    uid = imported_run(workspace, thread.external_ref)
    subject = f"{name}|{thread.external_ref}"
    exists = Run.objects.filter(uid=uid, workspace=workspace).exists()
    job = Job.objects.filter(workspace=workspace, kind=JobKind.IMPORT_THREAD, subject=subject).order_by("-id")
    return ThreadRow(subject, thread, uid if exists else None, job.first())


def imported_run(workspace: Workspace, external_ref: str) -> str:
    """Return the id that an imported thread's run has: the same each time it is imported."""
    return ids.derive_id("run", workspace.uid, external_ref)
