"""Imports what a runtime wrote into files: every run as one whose ledger is unknown; safe to do again."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import batched
from pathlib import Path
from typing import Any, Final

from django.db import transaction

from branches.commands.append_receipt import lock_names
from branches.commands.ingest_receipts import ingest_receipts
from branches.commands.refusal import Refused
from branches.evidence import ids
from branches.evidence.keys import HmacKey
from branches.evidence.names import cover_names
from branches.models import ApiToken, Receipt, Recorder, Run, Workflow, Workspace
from branches.ports import JsonValue, SourceFile, SourceReceipt, SourceRefusal, SourceRun
from branches.queries.clock import now
from branches.queries.declarations import Tool, read_workflow
from branches.queries.import_page import imported_run
from branches.queries.newest_workflow import newest_workflow
from branches.queries.secrets import workspace_key
from branches.registry import find

BATCH: Final = 500


@dataclass(slots=True)
class Imported:
    """What became of one run: how much was new, what was known, what could not be taken."""

    run: str | None
    accepted: int = 0
    duplicates: int = 0
    refused: list[SourceRefusal] = field(default_factory=list)
    registry: tuple[Mapping[str, JsonValue], ...] = ()


@dataclass(frozen=True, slots=True)
class Declared:
    """What whoever imports says of the runs: which workflow they are of, and that nothing is left out."""

    workflow: Workflow | None = None
    is_whole: bool = False

    def begun(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return how a run began, with what was declared of it."""
        said = {**body, "recording": "imported_whole" if self.is_whole else body["recording"]}
        if self.workflow is None:
            return said
        declaration = read_workflow(self.workflow)
        return {
            **said,
            "workflow": self.workflow.uid,
            "workflow_version": self.workflow.version,
            "contract_version": None if declaration.contract is None else declaration.contract["version"],
            "phase": body["phase"] or declaration.phase,
        }


UNDECLARED: Final = Declared()


@dataclass(frozen=True, slots=True)
class _Known:
    """What is on record of a run by one writer: its own counts by event id, and the newest of all."""

    counts: Mapping[str, int]
    newest: int


def import_source(
    *,
    workspace: Workspace,
    importer: str,
    files: Sequence[SourceFile],
    run: str | None = None,
    declared: Declared = UNDECLARED,
) -> list[Imported]:
    """Read files with a plug-in and take in what they hold; `run` names the one run they are of.

    What cannot be read is refused by place, field and rule, and the rest is not lost. A run that is known
    already keeps what was declared of it first. Nothing is added to a run that a recorder writes: files
    say nothing that it counted. Raises Refused.
    """
    _check_writer(workspace, run)
    key = workspace_key(workspace)
    read = find("importers", importer).read(files, key)
    if run is not None and len(read.runs) > 1:
        raise Refused(rule="several_runs", field="run")
    done = [take_in(workspace, key, found, run, declared) for found in read.runs]
    if read.refused:
        done = done or [Imported(run)]
        done[0].refused = [*read.refused, *done[0].refused]
    return done


def _check_writer(workspace: Workspace, run: str | None) -> None:
    known = run_of(workspace, run)
    if known is not None and known.recorder_id != importer_of(workspace).pk:
        raise Refused(rule="foreign_writer", field="run")


def import_threads(*, workspace: Workspace, runtime: str, store: Path) -> list[Imported]:
    """Take in every thread of a runtime's own store."""
    key, adapter, writer = workspace_key(workspace), find("runtimes", runtime), importer_of(workspace)
    done = []
    for thread in adapter.threads(store, key):
        result = Imported(imported_run(workspace, thread.external_ref))
        for batch in batched(adapter.receipts(store, thread.external_ref, key, str(result.run)), BATCH):
            _ingest(writer, [json.dumps(sent).encode() for sent in batch], result, lambda line: f"{line}")
        done.append(result)
    return done


def import_lines(*, workspace: Workspace, lines: Iterable[bytes], label: str) -> list[Imported]:
    """Take in receipts as they are sent, one a line; each run's own count is kept."""
    writer = importer_of(workspace)
    by_run: dict[str | None, Imported] = {}
    for batch in batched(enumerate(lines, 1), BATCH):
        for run, numbered in _by_run(batch).items():
            result = by_run.setdefault(run, Imported(run))
            numbers = [number for number, _ in numbered]
            _ingest(
                writer,
                [line for _, line in numbered],
                result,
                lambda line, numbers=numbers: f"{label}:{numbers[line - 1]}",
            )
    return list(by_run.values())


def _by_run(batch: Iterable[tuple[int, bytes]]) -> Mapping[str | None, list[tuple[int, bytes]]]:
    found: dict[str | None, list[tuple[int, bytes]]] = {}
    for number, line in batch:
        try:
            run = json.loads(line)["run"]
        except (ValueError, TypeError, KeyError, RecursionError):
            run = None
        found.setdefault(run if ids.is_id(run) else None, []).append((number, line))
    return found


def take_in(
    workspace: Workspace,
    key: HmacKey,
    source: SourceRun,
    run: str | None = None,
    declared: Declared = UNDECLARED,
    *,
    live: bool = False,
) -> Imported:
    """Take in one run that was read; `live`: from a piece, whose facts may be on record from earlier ones.

    A workflow that was declared for it counts before the one that it names itself.
    """
    uid = run or imported_run(workspace, source.external_ref)
    if declared.workflow is None and source.workflow is not None:
        named = newest_workflow(workspace, source.workflow)
        if named is None:
            return Imported(uid, refused=[SourceRefusal("run_started", "workflow", "not_published")])
        declared = replace(declared, workflow=named)
    writer, result = importer_of(workspace), Imported(uid, registry=source.registry)
    known = _on_record(uid, writer, source.receipts)
    receipts = [each for each in source.receipts if not _stands(uid, each, known, live=live)]
    result.duplicates = len(source.receipts) - len(receipts)
    names = _names_of(workspace, uid, declared)
    tools = _tools_of(workspace, uid, declared)
    sent = (_as_declared(each, declared, tools) for each in _sent(uid, receipts, known, workspace))
    for batch in batched(sent, BATCH):
        lines = [json.dumps(cover_names(each, names, key)).encode() for each in batch]
        _ingest(writer, lines, result, lambda line, batch=batch: f"{batch[line - 1]['kind']}:{line}")
    return result


def _stands(uid: str, receipt: SourceReceipt, known: _Known, *, live: bool) -> bool:
    """Whether a fact is on record, and what is said of it now is not compared with that.

    A run begins once and a gap is one, whatever another file says of when. A piece that came before the
    spans above it said less of whose fact it was than is known once they are here.
    """
    if receipt.kind == "run_started":
        return known.newest > 0
    return (live or receipt.kind == "recording_gap") and _event_of(uid, receipt) in known.counts


def _event_of(uid: str, receipt: SourceReceipt) -> str:
    return ids.derive_id("evt", uid, receipt.kind, receipt.place)


def _as_declared(
    sent: dict[str, Any], declared: Declared, tools: Mapping[str, Tool] | None
) -> dict[str, Any]:
    """Return a receipt with what the workflow says: how the run began, and what a call is worth.

    A file does not know where a tool writes and whether it can be undone; the workflow does.
    """
    if sent["kind"] == "run_started":
        return {**sent, "body": declared.begun(sent["body"])}
    if sent["kind"] != "effect_intended" or tools is None:
        return sent
    tool = tools.get(sent["body"]["tool"])
    worth = ("unknown", None) if tool is None else (tool.effect_class, tool.destination)
    return {**sent, "body": {**sent["body"], "effect_class": worth[0], "destination": worth[1]}}


def _workflow_of(workspace: Workspace, uid: str, declared: Declared) -> Workflow | None:
    known = run_of(workspace, uid)
    return declared.workflow if known is None else known.workflow


def _tools_of(workspace: Workspace, uid: str, declared: Declared) -> Mapping[str, Tool] | None:
    workflow = _workflow_of(workspace, uid, declared)
    return None if workflow is None else read_workflow(workflow).tools


def _names_of(workspace: Workspace, uid: str, declared: Declared) -> Mapping[str, frozenset[str]]:
    """Return the names that receipts of a run may carry as they are: those its workflow declares."""
    workflow = _workflow_of(workspace, uid, declared)
    return {} if workflow is None else read_workflow(workflow).names


def _sent(
    uid: str, receipts: Iterable[SourceReceipt], known: _Known, workspace: Workspace
) -> Iterator[dict[str, Any]]:
    """Yield receipts as a writer sends them; what was sent before keeps its count."""
    count = known.newest
    for receipt in receipts:
        event = _event_of(uid, receipt)
        if event not in known.counts:
            count += 1
        actor = {"type": "machine", "id": workspace.uid}
        yield {
            "v": 1,
            "event_id": event,
            "run": uid,
            "kind": receipt.kind,
            "at": receipt.at,
            "actor": actor if receipt.agent is None else {"type": "agent", "name": receipt.agent},
            "writer_seq": known.counts.get(event, count),
            "body": dict(receipt.body),
        }


def _on_record(uid: str, writer: Recorder, receipts: Iterable[SourceReceipt]) -> _Known:
    """Look up these receipts alone: a run that goes on for long costs no more than what comes now."""
    own = Receipt.objects.filter(run__uid=uid, writer=writer.uid)
    newest = own.order_by("-seq").values_list("body", flat=True).first()
    if newest is None:
        return _Known({}, 0)
    counts = {}
    for events in batched((_event_of(uid, each) for each in receipts), BATCH):
        for event, body in own.filter(event_id__in=events).values_list("event_id", "body"):
            counts[event] = _count(body)
    return _Known(counts, _count(newest))


def _count(body: str) -> int:
    return int(json.loads(body)["writer_seq"])


def _ingest(writer: Recorder, lines: list[bytes], result: Imported, where: Any) -> None:
    report = ingest_receipts(recorder=writer, lines=lines)
    result.accepted += report.accepted
    result.duplicates += report.duplicates
    result.refused += [SourceRefusal(where(each.line), each.field, each.rule) for each in report.refused]


def importer_of(workspace: Workspace) -> Recorder:
    """Return the writer of imported receipts: a recorder of the product's own that cannot redeem anything."""
    existing = _importer_in(workspace)
    if existing is not None:
        return existing
    with transaction.atomic():
        lock_names([f"{workspace.uid}:import"])  # of two, one would own runs that the other writes into
        return _importer_in(workspace) or _made_importer(workspace)


def _importer_in(workspace: Workspace) -> Recorder | None:
    return Recorder.objects.filter(workspace=workspace, runtime="import").first()


def _made_importer(workspace: Workspace) -> Recorder:
    token = ApiToken.objects.create(
        uid=ids.mint("tok"),
        workspace=workspace,
        name="import",
        digest=f"none:{ids.mint('tok')}",
        scopes=[],
        made_at=now(),
        expires_at=now(),
    )
    return Recorder.objects.create(
        uid=ids.mint("rec"),
        workspace=workspace,
        token=token,
        name="import",
        runtime="import",
        box_key="",
        made_at=now(),
    )


def run_of(workspace: Workspace, uid: str | None) -> Run | None:
    """Return an imported run's row, or None where nothing of it was taken in."""
    return None if uid is None else Run.objects.filter(workspace=workspace, uid=uid).first()
