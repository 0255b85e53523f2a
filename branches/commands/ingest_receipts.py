"""Takes a batch of receipts from outside: what is good is durable on return, the rest is named."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from django.db import transaction
from django.db.models import Q

from branches.commands.append_receipt import Actor, append_receipt, lock_families, lock_names
from branches.commands.ask_for_job import ask_for_job
from branches.commands.count_edges import count_edges
from branches.commands.count_map_blocks import count_map_blocks
from branches.commands.entitlement import belied, entitlement_problem
from branches.commands.insert_rows import NewReceipt, insert_receipts
from branches.commands.start_run import start_run
from branches.commands.supersede_requests import supersede_requests
from branches.commands.watch_audits import watch_audits
from branches.evidence import chain
from branches.evidence.canonical import ProfileError, parse_strict
from branches.evidence.ids import is_id
from branches.evidence.schema import OUTSIDE_KINDS, ReceiptError, check_declared, check_sent
from branches.models import JobKind, Receipt, Recorder, Run, SealedEdit
from branches.queries.chains import heads, links
from branches.queries.clock import now, stamp
from branches.queries.counted import is_closed
from branches.queries.declarations import declaration_of
from branches.queries.receipt_columns import subject_in

_MOVES_BRANCHES: Final = frozenset(
    {
        "effect_intended",
        "effect_answered",
        "effect_reused",
        "effect_held",
        "effect_skipped",
        "recording_closed",
        "recording_gap",
    }
)
"""Kinds that a branch's ledger is read from."""
_MOST_CONFLICTS: Final = 10
"""So many other contents under one event id are put on record; further ones are refused all the same."""
_LIVE: Final = frozenset({"full", "partial"})
_MAX_LINE: Final = 16 * 1024


@dataclass(frozen=True, slots=True)
class RefusedLine:
    """A line that was not stored: its number from 1, the field and the rule, never the value."""

    line: int
    field: str
    rule: str


@dataclass(slots=True)
class IngestReport:
    """What became of a batch; `heads` are run id -> (seq, digest) of every run it touched."""

    accepted: int = 0
    duplicates: int = 0
    refused: list[RefusedLine] = field(default_factory=list)
    heads: dict[str, tuple[int, str | None]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Line:
    number: int
    sent: dict[str, Any]


def ingest_receipts(*, recorder: Recorder, lines: Iterable[bytes], atomic: bool = False) -> IngestReport:
    """Store the good lines of a batch in one transaction and report on every line.

    With `atomic`, one refused line means that nothing is stored, not even a conflict receipt.
    """
    report = IngestReport()
    read = list(_read(lines, report))
    if atomic and report.refused:
        return report
    with transaction.atomic():
        _store(recorder, read, report, atomic=atomic)
        if atomic and report.refused:
            transaction.set_rollback(True)  # Django's own word for leaving nothing behind
            report.accepted = report.duplicates = 0
            report.heads = {}
    report.refused.sort(key=lambda refused: refused.line)
    return report


def _read(lines: Iterable[bytes], report: IngestReport) -> Iterator[_Line]:
    for number, raw in enumerate(lines, 1):
        try:
            sent = parse_strict(raw, max_bytes=_MAX_LINE)
            check_sent(sent, kinds=OUTSIDE_KINDS)
        except (ProfileError, ReceiptError) as error:
            report.refused.append(RefusedLine(number, error.field, error.rule))
        else:
            yield _Line(number, sent)  # type: ignore[arg-type]


def _store(recorder: Recorder, read: list[_Line], report: IngestReport, *, atomic: bool) -> None:
    runs = _runs(recorder, read)
    if unknown := {line.sent["run"] for line in read} - runs.keys():
        # Somebody else may be beginning the same runs: wait for them, and look again.
        lock_names(unknown)
        runs = _runs(recorder, read)
    lock_families(run.family_id for run in runs.values())
    by_run: dict[str, list[_Line]] = defaultdict(list)
    for line in read:
        by_run[line.sent["run"]].append(line)
    stored: dict[Run, frozenset[str]] = {}
    for uid, of_run in by_run.items():
        run = runs.get(uid)
        if run is None and (run := _begin(recorder, of_run, report)) is None:
            continue
        stored[run] = _append_all(recorder, run, of_run, report, atomic=atomic)
    moved = {run.family_id for run, kinds in stored.items() if _moves(recorder, run, kinds)}
    supersede_requests(root_ids=moved)
    for run, kinds in stored.items():
        if "stopped" in kinds:
            _ask_for_outcome(recorder, run)
        if "started" in kinds:
            # The recorder has applied the edits; their text has no more business here.
            SealedEdit.objects.filter(edit__branch=run).delete()
    found = heads(run.pk for run in stored)
    report.heads = {run.uid: found[run.pk] for run in stored}


def _moves(recorder: Recorder, run: Run, kinds: frozenset[str]) -> bool:
    """Whether what came may change what an open request was shown: a fact of it, or whether all is there.

    After its writer's last word anything of the same writer does, and so it does where somebody vouched.
    """
    if not kinds or run.recorder_id != recorder.pk:
        return False
    return bool(kinds & _MOVES_BRANCHES) or is_closed(run) or _was_attested(run)


def _was_attested(run: Run) -> bool:
    """Whether somebody vouched for a run's list of effects: their word ends with what comes after it."""
    words = Receipt.objects.filter(kind="ledger_attested", subject=run.uid)
    return words.filter(run__in=Run.objects.filter(root_id=run.family_id)).exists()


def _runs(recorder: Recorder, read: list[_Line]) -> dict[str, Run]:
    uids = {line.sent["run"] for line in read}
    rows = Run.objects.filter(uid__in=uids, workspace_id=recorder.workspace_id)
    return {run.uid: run for run in rows.select_related("workflow", "redemption__permit")}


def _begin(recorder: Recorder, lines: list[_Line], report: IngestReport) -> Run | None:
    """Start a run that its first line declares; an unknown or foreign run is a refused line."""
    first = lines[0].sent
    uid = first["run"]
    if first["kind"] != "run_started" or not is_id(uid, "run") or Run.objects.filter(uid=uid).exists():
        report.refused += [RefusedLine(line.number, "run", "unknown") for line in lines]
        return None
    with transaction.atomic():
        run = start_run(recorder=recorder, uid=uid, body=first["body"])
        is_begun = run is not None and _is_entitled(recorder, run, lines[0], report)
        if run is not None and not is_begun:
            transaction.set_rollback(True)  # no run is left behind whose start was refused
    if run is None:
        report.refused += [RefusedLine(line.number, "body.workflow", "unknown") for line in lines]
        return None
    if not is_begun:
        report.refused += [RefusedLine(line.number, "run", "unknown") for line in lines[1:]]
        return None
    lock_families([run.family_id])
    # Of a run that was imported it is known what it made only after the fact: nothing could be told apart.
    if run.workflow_id is not None and first["body"]["recording"] in _LIVE:
        ask_for_job(
            workspace=run.workspace,
            kind=JobKind.TAKE_BASELINE,
            run=run,
            subject="outcome",
            asked_by=recorder.uid,
        )
    return run


def _append_all(
    recorder: Recorder, run: Run, lines: list[_Line], report: IngestReport, *, atomic: bool
) -> frozenset[str]:
    """Append what is new and good, and return the kinds that were appended."""
    lines = [line for line in lines if _is_entitled(recorder, run, line, report)]
    known = _known_events(run, recorder.uid, [line.sent["event_id"] for line in lines])
    seq, prev = heads([run.pk])[run.pk]
    first_new = seq + 1
    recorded_at = stamp(now())
    rows: list[NewReceipt] = []
    fresh: dict[str, dict[str, Any]] = {}
    conflicts: list[tuple[str, str, str]] = []
    for line in lines:
        sent = line.sent
        event_id = sent["event_id"]
        if event_id in fresh or event_id in known:
            kept = known.get(event_id) or chain.sent_digest(fresh[event_id])
            _repeat(line, kept, report, conflicts)
            continue
        if sent["kind"] == "run_started" and seq > 0:
            # What a run declared at its start is frozen.
            report.refused.append(RefusedLine(line.number, "kind", "already_started"))
            continue
        seq += 1
        sealed = chain.seal(sent, seq=seq, recorded_at=recorded_at, writer=recorder.uid, prev_digest=prev)
        prev = sealed.digest
        fresh[event_id] = sent
        kind = sent["kind"]
        rows.append(
            NewReceipt(
                run.pk,
                seq,
                event_id,
                recorder.uid,
                kind,
                subject_in(kind, sent["body"]),
                sealed.digest,
                sealed.bytes.decode(),
            )
        )
    insert_receipts(rows)
    report.accepted += len(rows)
    count_map_blocks(run=run, first_seq=first_new, receipts=list(fresh.values()))
    count_edges(run=run, receipts=list(fresh.values()))
    watch_audits(run=run, receipts=fresh.values())
    if not atomic:
        _record_conflicts(recorder, run, conflicts)
    return frozenset(sent["kind"] for sent in fresh.values())


def _known_events(run: Run, writer: str, event_ids: list[str]) -> dict[str, str]:
    """Return event id -> digest of what was sent, for those already recorded by this writer."""
    known: dict[str, str] = {}
    for start in range(0, len(event_ids), 500):
        rows = Receipt.objects.filter(run=run, writer=writer, event_id__in=event_ids[start : start + 500])
        for event_id, text in rows.values_list("event_id", "body"):
            sealed = parse_strict(text)
            known[event_id] = chain.sent_digest({name: sealed[name] for name in chain.SENT_FIELDS})  # type: ignore[index,call-overload]
    return known


def _repeat(line: _Line, kept: str, report: IngestReport, conflicts: list[tuple[str, str, str]]) -> None:
    offered = chain.sent_digest(line.sent)
    if offered == kept:
        report.duplicates += 1
        return
    report.refused.append(RefusedLine(line.number, "event_id", "conflict"))
    conflicts.append((line.sent["event_id"], kept, offered))


def _record_conflicts(recorder: Recorder, run: Run, conflicts: list[tuple[str, str, str]]) -> None:
    events = {event_id for event_id, _, _ in conflicts}
    known: dict[str, set[str]] = {event_id: set() for event_id in events}
    for item in links([run.pk], ("conflict",), where=Q(subject__in=events)) if events else ():
        known[str(item.subject)].add(item.body["refused"])
    for event_id, kept, offered in conflicts:
        if offered in known[event_id] or len(known[event_id]) >= _MOST_CONFLICTS:
            continue  # the same retry again is on record once
        known[event_id].add(offered)
        append_receipt(
            run=run,
            kind="conflict",
            body={"event_id": event_id, "writer": recorder.uid, "kept": kept, "refused": offered},
            actor=Actor.product(run.workspace),
            subject=event_id,
        )


def _is_entitled(recorder: Recorder, run: Run, line: _Line, report: IngestReport) -> bool:
    """Refuse what this writer may not say of this run, or names its workflow does not declare."""
    rule = entitlement_problem(recorder, run, line.sent)
    if rule is None:
        try:
            declaration = declaration_of(run)
            check_declared(line.sent, declaration.names if declaration else {})
            rule = belied(line.sent, declaration)
        except ReceiptError as error:
            rule = (error.field, error.rule)
    if rule is not None:
        report.refused.append(RefusedLine(line.number, *rule))
    return rule is None


def _ask_for_outcome(recorder: Recorder, run: Run) -> None:
    """A loop that stopped is a reason to ask the destination, whatever the loop said."""
    if run.workflow_id is not None:
        ask_for_job(
            workspace=run.workspace,
            kind=JobKind.CHECK_OUTCOME,
            run=run,
            subject="outcome",
            asked_by=recorder.uid,
        )
