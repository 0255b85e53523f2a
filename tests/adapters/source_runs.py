"""What tests of importers ask of a run: its receipts as they would be sent, and what the rules say."""

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from branches.evidence.canonical import canonical_bytes
from branches.evidence.ids import derive_id
from branches.evidence.names import cover_names
from branches.evidence.schema import MAX_BODY_BYTES, OUTSIDE_KINDS, check_declared, check_sent
from branches.ports import RuntimeImporter, SourceFile, SourceRead, SourceRun
from branches.rules.handoffs import HandoffVerdict, judge_handoff, parse_handoff
from branches.rules.stops import StopVerdict, judge_stop, parse_stop
from tests.adapters.places import KEY

LATER = datetime(2026, 12, 1, tzinfo=UTC).isoformat()


def read(importer: RuntimeImporter, *files: SourceFile) -> SourceRead:
    return importer.read(files, KEY)


def a_file(label: str, value: Any) -> SourceFile:
    return SourceFile(label, json.dumps(value).encode())


def sent(run: SourceRun) -> list[dict[str, Any]]:
    """Return the receipts as they are sent: every name is covered, for nothing is declared here."""
    uid = derive_id("run", "ws_test", run.external_ref)
    lines = []
    for count, each in enumerate(run.receipts, 1):
        receipt = {
            "v": 1,
            "event_id": derive_id("evt", uid, each.place),
            "run": uid,
            "kind": each.kind,
            "at": each.at,
            "actor": {"type": "machine", "id": derive_id("wrt", uid, "import")},
            "writer_seq": count,
            "body": dict(each.body),
        }
        lines.append(cover_names(receipt, {}, KEY))
    return lines


def check(run: SourceRun) -> list[dict[str, Any]]:
    """Return the receipts after every check that they meet at the door."""
    lines = sent(run)
    for line in lines:
        check_sent(line, kinds=OUTSIDE_KINDS)
        check_declared(line, {})
        assert len(canonical_bytes(line["body"])) <= MAX_BODY_BYTES
    assert [line["kind"] for line in lines].index("run_started") == 0
    assert len({line["event_id"] for line in lines}) == len(lines)
    assert lines[0]["body"]["external_ref"] == run.external_ref
    assert lines[0]["body"]["recording"] == "imported"
    return lines


def bodies(run: SourceRun, kind: str) -> list[Mapping[str, Any]]:
    return [each.body for each in run.receipts if each.kind == kind]


def stop_verdict(body: Mapping[str, Any]) -> StopVerdict:
    """Judge a stop as the pages do."""
    facts = {
        "sdk": "recorded",
        "policy": {
            "version": body["policy"]["version"] or "unversioned",
            "conditions": body["policy"]["conditions"],
        },
        "stop_cause": body["stop_cause"],
        "done_tool": body.get("done_tool") or "done",
        "steps": [{"tools": step["tools"], "tokens": step["tokens"] or 0} for step in body["steps"]],
        "tool_failed": body["tool_failed"],
        "approval": body["approval"],
        "useful_progress": body["useful_progress"],
        "outcome": None,
    }
    return judge_stop(parse_stop(facts))


def stop_states(run: SourceRun) -> list[str]:
    """Return the states of a run's stops, as written and as covered."""
    plain = [str(stop_verdict(body).state) for body in bodies(run, "stopped")]
    covered = [str(stop_verdict(line["body"]).state) for line in sent(run) if line["kind"] == "stopped"]
    assert plain == covered
    return plain


def handoff_verdicts(run: SourceRun) -> dict[str, HandoffVerdict]:
    """Return the verdict on each operation, by its (first) receiver."""
    events: dict[str, list[dict[str, Any]]] = {}
    receivers: dict[str, str] = {}
    for each in run.receipts:
        if each.kind != "handoff":
            continue
        body = each.body
        kept = {name: body[name] for name in ("receiver", "expected_artifact", "dependency") if name in body}
        event = {"handoff_id": body["handoff"], "event": body["event"], "at": each.at, "agent": each.agent}
        events.setdefault(body["operation"], []).append({**event, **kept})
        receivers.setdefault(body["operation"], str(body.get("receiver")))
    return {
        receivers[operation]: judge_handoff(
            parse_handoff({"operation_id": operation, "now": LATER, "events": found})
        )
        for operation, found in events.items()
    }


def effects(run: SourceRun) -> list[tuple[str, str | None]]:
    """Return (tool, answer) of each effect in order, None where there is no answer."""
    answers = {body["operation_key"]: body["answer"] for body in bodies(run, "effect_answered")}
    return [(body["tool"], answers.get(body["operation_key"])) for body in bodies(run, "effect_intended")]


def edges(run: SourceRun) -> list[str]:
    return [
        f"{body['from']}>{body['to']}:{body['kind']} {body['status']}" for body in bodies(run, "interaction")
    ]


def everything(found: SourceRead) -> str:
    """Return all that an importer said, as text: the covered receipts, the places, and the refusals."""
    runs: Iterable[Any] = [[run.external_ref, [each.place for each in run.receipts]] for run in found.runs]
    lines = [line for run in found.runs for line in sent(run)]
    return json.dumps([lines, list(runs), [repr(each) for each in found.refused]])
