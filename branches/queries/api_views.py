"""What the API shows of runs and branches."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from branches.evidence.ids import is_id
from branches.models import Receipt, Run, Workspace
from branches.queries.branch_facts import branch_view
from branches.queries.chains import Link, exact_bytes, head, link
from branches.queries.clock import stamp
from branches.queries.handoff_audits import handoffs_now
from branches.queries.outcome import outcome_view
from branches.queries.recoveries import Recoveries


def runs_json(workspace: Workspace, after: str | None) -> list[dict[str, Any]]:
    """Return fifty root runs, newest first, after the given one."""
    rows = Run.objects.filter(workspace=workspace, root__isnull=True).select_related("workflow")
    if after is not None and not is_id(after):
        return []
    if after is not None:
        rows = rows.filter(pk__lt=Run.objects.filter(uid=after, workspace=workspace).values("pk"))
    return [run_json(run) for run in rows.order_by("-id")[:50]]


def run_json(run: Run) -> dict[str, Any]:
    """Return a run with its head and the branches forked from it."""
    seq, digest = head(run.pk)
    return {
        "run": run.uid,
        "workflow": run.workflow.name if run.workflow else None,
        "version": run.workflow.version if run.workflow else None,
        "parent": run.parent.uid if run.parent else None,
        "seq": seq,
        "digest": digest,
        "branches": list(Run.objects.filter(parent=run).order_by("number").values_list("uid", flat=True)),
    }


def exported(run: Run, *, from_seq: int = 1) -> Iterator[bytes]:
    """Yield a run's receipts as NDJSON lines, exact bytes."""
    for exact in exact_bytes(run, from_seq=from_seq):
        yield exact + b"\n"


def checkpoints_json(run: Run, *, from_seq: int) -> list[dict[str, Any]]:
    """Return up to two hundred checkpoints of a run from a seq on."""
    rows = Receipt.objects.filter(run=run, kind="checkpoint", seq__gte=from_seq).order_by("seq")[:200]
    return [
        {
            "checkpoint": item.subject,
            "seq": item.seq,
            "step": item.body["step"],
            "at": stamp(item.at),
            "consistent": item.body["consistent"],
            "keys": sorted(item.body["state"]),
        }
        for item in map(link, rows)
    ]


def branch_json(branch: Run) -> dict[str, Any]:
    """Return a branch with the facts it was judged on and its six gates."""
    view = branch_view(branch)
    return {
        "branch": branch.uid,
        "parent": view.facts.parent_id,
        "checkpoint": view.fork.checkpoint,
        "number": view.branch.number,
        "change_class": str(view.change_class),
        "facts": view.facts.as_json(),
        **view.verdict.as_json(),
    }


def evidence_json(branch: Run) -> list[dict[str, Any]]:
    """Return what is known of each required state key."""
    return [
        {
            "key": item.key.name,
            "probe": item.key.probe,
            "at_checkpoint": item.at_checkpoint,
            "now": item.measured.body["fingerprint"] if item.measured else None,
            "restore": str(item.state.restore) if item.state else "missing",
            "stale": item.stale,
            "measured_at": stamp(item.measured.recorded_at) if item.measured else None,
            "acknowledgeable": item.key.acknowledgeable,
        }
        for item in branch_view(branch).keys
    ]


def effects_json(branch: Run) -> list[dict[str, Any]]:
    """Return the effect ledger of a branch with each line's answer and reconciliation."""
    return [
        {
            "operation_key": line.operation_key,
            "tool": line.tool,
            "destination": line.destination,
            "effect_class": line.effect_class,
            "key_strength": line.key_strength,
            "payload": line.payload,
            "agent_says": line.agent_says,
            "destination_says": line.asked.body["answer"] if line.asked else None,
            "asked_at": stamp(line.asked.recorded_at) if line.asked else None,
            "status": str(line.status),
            "decision": str(line.decision) if line.decision else None,
            "basis": line.basis,
            "stale": line.stale,
            "blocks": line.blocks,
        }
        for line in branch_view(branch).effects
    ]


def outcome_json(branch: Run) -> dict[str, Any]:
    """Return the claim and the newest check of a run."""
    view = outcome_view(branch)
    checked = view.checked.body if view.checked else None
    return {
        "claimed": view.stopped is not None and view.stopped.body["loop"] == "claimed",
        "check": checked["check"] if checked else "none",
        "fresh": bool(checked and checked["fresh"]),
        "version": checked["destination_version"] if checked else None,
    }


def recoveries_json(run: Run, now: datetime) -> list[dict[str, Any]]:
    """Return what was decided about a run's handoffs and a runtime may still carry out."""
    recoveries = Recoveries.of(run)
    audits = handoffs_now(run, now, only=list(recoveries.decisions)) if recoveries.decisions else ()
    found = [each for audit in audits for each in recoveries.to_carry_out(audit, now)]
    return [_recovery(each.decided, each.until) for each in found]


def _recovery(decided: Link, until: datetime) -> dict[str, Any]:
    body = decided.body
    return {
        "operation": body["operation"],
        "action": body["action"],
        "attempt": body["attempt"],
        "attempts": body["attempts"],
        "decided_at": stamp(decided.recorded_at),
        "until": stamp(until),
        "owner": body["owner"],
    }
