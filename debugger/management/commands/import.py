"""Import what a runtime wrote, and say what the audits make of it."""  # noqa: N999 - the command's own name

import json
import sqlite3
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError, CommandParser

from branches.commands.admit import make_workspace
from branches.commands.import_source import (
    UNDECLARED,
    Declared,
    Imported,
    import_lines,
    import_source,
    import_threads,
    run_of,
)
from branches.commands.refusal import Refused
from branches.evidence.langgraph_store import StoreUnreadable
from branches.models import Workflow, Workspace
from branches.ports import SourceFile
from branches.queries.audits import audits_json, audits_now
from branches.queries.clock import now
from branches.queries.lookups import NotHere, workflow_named
from branches.registry import names
from debugger.startup import prepare

ALL_TAKEN, SOME_REFUSED, UNREADABLE = 0, 1, 2
MOST_BYTES: Final = 256 * 1024 * 1024
_HEADERS: Final = ".headers.json"
# What a file's name says of a captured request, where no headers lie beside it.
_ENDINGS: Final[Mapping[str, Mapping[str, str]]] = {
    ".json": {"content-type": "application/json"},
    ".json.gz": {"content-type": "application/json", "content-encoding": "gzip"},
    ".pb": {"content-type": "application/x-protobuf"},
    ".pb.gz": {"content-type": "application/x-protobuf", "content-encoding": "gzip"},
}


class Command(BaseCommand):
    help = (
        "Import files and print one JSON object a run, with what the three audits say. "
        "Exit 0: everything was taken; 1: something was refused; 2: a file could not be read."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("kind", choices=["langgraph", "receipts", *names("importers")])
        parser.add_argument("files", nargs="+", metavar="FILE")
        parser.add_argument("--run", help="the run the files are of; not one that a recorder writes")
        parser.add_argument("--workspace", default="main")
        parser.add_argument(
            "--workflow", metavar="NAME@VERSION", help="the published workflow that the runs are of"
        )
        parser.add_argument(
            "--whole", action="store_true", help="declare that the files hold everything the runs did"
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        prepare()
        workspace = make_workspace(name=options["workspace"])
        paths = [Path(name) for name in options["files"] if not name.endswith(_HEADERS)]
        try:
            declared = Declared(_workflow(workspace, options["workflow"]), options["whole"])
            done = _readers(options["run"], declared)[options["kind"]](workspace, paths)
        except Refused as refused:
            raise CommandError(str(refused), returncode=SOME_REFUSED) from None
        except (OSError, StoreUnreadable, sqlite3.Error) as error:
            reason = getattr(error, "strerror", None) or "it is not what its kind says"
            raise CommandError(f"a file could not be read: {reason}", returncode=UNREADABLE) from None
        for result in done:
            self.stdout.write(json.dumps(_said(workspace, result)))
        if any(result.refused for result in done):
            sys.exit(SOME_REFUSED)


type Reader = Callable[[Workspace, list[Path]], list[Imported]]


def _workflow(workspace: Workspace, named: str | None) -> Workflow | None:
    if named is None:
        return None
    name, _, version = named.rpartition("@")
    try:
        return workflow_named(workspace, name, version)
    except NotHere:
        raise Refused(rule="not_published", field="workflow") from None


def _readers(run: str | None, declared: Declared) -> dict[str, Reader]:
    def only_as_they_are() -> None:
        """Threads and receipts say themselves of which workflow they are, and how they were recorded."""
        if declared != UNDECLARED:
            raise Refused(rule="not_of_this_kind", field="workflow" if declared.workflow else "whole")

    def threads(workspace: Workspace, paths: list[Path]) -> list[Imported]:
        only_as_they_are()
        try:
            return [
                found
                for path in paths
                for found in import_threads(workspace=workspace, runtime="langgraph", store=path)
            ]
        except TypeError:
            raise StoreUnreadable("store: thread") from None  # its id is no text

    def lines(workspace: Workspace, paths: list[Path]) -> list[Imported]:
        only_as_they_are()
        return [
            found
            for number, path in enumerate(paths, 1)
            for found in import_lines(
                workspace=workspace, lines=_lines(_content(path)), label=f"file {number}"
            )
        ]

    def through(importer: str) -> Reader:
        def read(workspace: Workspace, paths: list[Path]) -> list[Imported]:
            files = [_file(number, path) for number, path in enumerate(paths, 1)]
            return import_source(
                workspace=workspace, importer=importer, files=files, run=run, declared=declared
            )

        return read

    return {"langgraph": threads, "receipts": lines, **{name: through(name) for name in names("importers")}}


def _file(number: int, path: Path) -> SourceFile:
    """Return a file with the headers that lie beside it, or that its name stands for."""
    beside = path.with_name(path.name + _HEADERS)
    if beside.exists():
        try:
            found = {str(name).lower(): str(value) for name, value in json.loads(_content(beside)).items()}
        except (ValueError, AttributeError, RecursionError):
            raise CommandError("headers: json object", returncode=UNREADABLE) from None
    else:
        endings = sorted(_ENDINGS, key=len, reverse=True)
        found = dict(_ENDINGS.get(next((end for end in endings if path.name.endswith(end)), ""), {}))
    return SourceFile(f"file {number}", _content(path), found)


def _content(path: Path) -> bytes:
    if path.stat().st_size > MOST_BYTES:
        raise CommandError("a file is too large: max_bytes", returncode=UNREADABLE)
    return path.read_bytes()


def _lines(content: bytes) -> list[bytes]:
    return [line for line in content.split(b"\n") if line.strip()]


def _said(workspace: Workspace, result: Imported) -> dict[str, Any]:
    run = run_of(workspace, result.run)
    return {
        "run": result.run,
        "accepted": result.accepted,
        "duplicates": result.duplicates,
        "refused": [{"where": each.where, "field": each.field, "rule": each.rule} for each in result.refused],
        **audits_json(None if run is None else audits_now(run, now())),
        **({"registry": [dict(each) for each in result.registry]} if result.registry else {}),
    }
