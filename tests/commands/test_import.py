"""Importing from files: one object a run, with what the audits say; again, and with what cannot be taken."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from branches import registry
from branches.commands.admit import make_workspace
from branches.commands.publish_workflow import publish_workflow
from branches.evidence import ids
from branches.evidence.keys import HmacKey
from branches.models import Receipt, Run
from branches.ports import SourceFile, SourceRead, SourceReceipt, SourceRefusal, SourceRun
from branches.queries.receipts import verify_run
from tests.builders import declaration

MARKER = "CONTENT-MARKER-7f3a"
pytestmark = pytest.mark.django_db


def stopped(**changed: Any) -> dict[str, Any]:
    return {
        "policy": {"version": None, "conditions": [{"type": "step_count", "n": 2}]},
        "stop_cause": "step_limit",
        "steps": [{"tools": ["search"], "tokens": 3}, {"tools": [], "tokens": None}],
        "tool_failed": False,
        "useful_progress": True,
        "approval": None,
        "loop": "ended",
        **changed,
    }


STARTED = {
    "workflow": None,
    "workflow_version": None,
    "runtime": {"name": "other", "version": None},
    "external_ref": None,
    "configuration": None,
    "contract_version": None,
    "phase": None,
    "recording": "imported",
}


class FakeImporter:
    """Reads one loop a file, named by its content; a file that says no is refused."""

    versions = ("1",)

    def read(self, files: list[SourceFile], key: HmacKey) -> SourceRead:
        runs, refused = [], []
        for file in files:
            if file.content == b"no":
                refused.append(SourceRefusal(file.label, "steps", "required"))
                continue
            names = file.content.decode().split()
            receipts = [SourceReceipt("run_started", "2026-11-30T09:00:00Z", "start", STARTED)]
            receipts += [
                SourceReceipt("stopped", "2026-11-30T09:01:00Z", name, stopped(), agent=name)
                for name in names[1:]
            ]
            runs.append(SourceRun(key.digest("thread", names[0]), tuple(receipts)))
        return SourceRead(tuple(runs), tuple(refused))


@pytest.fixture(autouse=True)
def importer(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = registry._load

    def load(port: str, name: str) -> Any:
        return FakeImporter() if port == "importers" else loaded(port, name)

    monkeypatch.setattr(registry, "_load", load)
    monkeypatch.setattr("debugger.management.commands.import.names", lambda port: ("fake",))
    monkeypatch.setattr("debugger.management.commands.import.prepare", lambda: None)


def imported(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[list[dict[str, Any]], int]:
    end = 0
    try:
        call_command("import", *arguments)
    except SystemExit as error:
        end = int(error.code or 0)
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()], end


def test_it_prints_one_object_a_run_with_its_audits(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for name, content in (("a.txt", "one writer"), ("b.txt", "two writer editor")):
        (tmp_path / name).write_text(content)
    said, end = imported(capsys, "fake", str(tmp_path / "a.txt"), str(tmp_path / "b.txt"))
    assert end == 0
    assert [(each["accepted"], each["duplicates"], each["refused"]) for each in said] == [
        (2, 0, []),
        (3, 0, []),
    ]
    assert [len(each["stops"]) for each in said] == [1, 2]
    assert said[0]["stops"] == [{"state": "bounded_stop", "reasons": ["step_limit"]}]
    assert (said[0]["handoffs"], said[0]["topology"]) == ([], None)
    for each in said:
        assert verify_run(Run.objects.get(uid=each["run"])).ok


def test_it_covers_every_name_that_no_workflow_declares(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text(f"one {MARKER}")
    imported(capsys, "fake", str(tmp_path / "a.txt"))
    bodies = "".join(Receipt.objects.values_list("body", flat=True))
    assert MARKER not in bodies
    assert "search" not in bodies
    assert "hmac-sha256:" in bodies


def called(key: HmacKey, tool: str) -> dict[str, Any]:
    return {
        "operation_key": key.digest("operation", tool),
        "key_strength": "weak",
        "checkpoint": None,
        "destination": None,
        "tool": tool,
        "effect_class": "unknown",
        "payload": key.digest("payload", tool),
    }


class TwoAgents:
    """Reads one run in which one agent hands to another, once."""

    versions = ("1",)

    def read(self, files: list[SourceFile], key: HmacKey) -> SourceRead:
        edge = {"from": "orchestrator", "to": "publisher", "kind": "delegate", "status": "ok"}
        receipts = [
            SourceReceipt("run_started", "2026-11-30T09:00:00Z", "start", STARTED),
            SourceReceipt("interaction", "2026-11-30T09:01:00Z", "edge", {**edge, "contract_version": None}),
            *(
                SourceReceipt("effect_intended", "2026-11-30T09:01:30Z", tool, called(key, tool))
                for tool in ("create_ticket", "whistle")
            ),
            SourceReceipt("stopped", "2026-11-30T09:02:00Z", "stop", stopped(), agent="orchestrator"),
        ]
        return SourceRead((SourceRun(key.digest("thread", "t"), tuple(receipts)),), ())


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> str:
    """A published workflow with a contract, by name and version, and files of its runs."""
    workspace = make_workspace(name="main")
    contract = {
        "version": "1",
        "agents": ["orchestrator", "publisher"],
        "edges": [{"from": "orchestrator", "to": "publisher", "kind": "delegate"}],
        "phases": {"publish": ["orchestrator>publisher:delegate"]},
    }
    publish_workflow(
        workspace=workspace,
        publisher=workspace.uid,
        declaration=declaration(contract=contract, phase="publish"),
    )
    loaded = registry._load
    monkeypatch.setattr(
        registry, "_load", lambda port, name: TwoAgents() if port == "importers" else loaded(port, name)
    )
    return "desk@1.0.0"


@pytest.mark.parametrize(
    ("options", "verdict"),
    [([], "uncertain"), (["--whole"], "false_complete")],
    ids=["a trace", "everything"],
)
def test_a_run_of_a_workflow_is_judged_by_its_contract_and_by_whether_it_is_whole(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, desk: str, options: list[str], verdict: str
) -> None:
    (tmp_path / "a.txt").write_text("x")
    said, end = imported(capsys, "fake", str(tmp_path / "a.txt"), "--workflow", desk, *options)
    assert (end, said[0]["refused"]) == (0, [])
    assert said[0]["topology"]["verdict"] == verdict
    bodies = "".join(Receipt.objects.values_list("body", flat=True))
    assert '"from":"orchestrator"' in bodies
    assert "search" not in bodies  # a tool that the workflow does not declare
    worth = [json.loads(each.body)["body"] for each in Receipt.objects.filter(kind="effect_intended")]
    assert [(each["effect_class"], each["destination"]) for each in worth] == [
        ("reversible", "tickets"),
        ("unknown", None),
    ]


def test_a_run_that_is_known_keeps_the_names_of_its_workflow(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, desk: str
) -> None:
    (tmp_path / "a.txt").write_text("x")
    imported(capsys, "fake", str(tmp_path / "a.txt"), "--workflow", desk)
    again, end = imported(capsys, "fake", str(tmp_path / "a.txt"))
    assert (again[0]["accepted"], again[0]["duplicates"], again[0]["refused"], end) == (0, 5, [], 0)


@pytest.mark.parametrize("kind", ["receipts", "langgraph"])
def test_what_says_itself_of_which_workflow_it_is_takes_no_other(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, kind: str
) -> None:
    (tmp_path / "a.txt").write_text("{}")
    with pytest.raises(CommandError, match="whole: not_of_this_kind"):
        imported(capsys, kind, str(tmp_path / "a.txt"), "--whole")


def test_a_workflow_that_nobody_published_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("one writer")
    with pytest.raises(CommandError, match="workflow: not_published"):
        imported(capsys, "fake", str(tmp_path / "a.txt"), "--workflow", "nobody@1")
    assert not Run.objects.exists()


def test_it_is_safe_to_import_again_and_takes_what_is_new(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one writer")
    imported(capsys, "fake", str(path))
    again, _ = imported(capsys, "fake", str(path))
    assert (again[0]["accepted"], again[0]["duplicates"]) == (0, 2)
    path.write_text("one editor writer")
    more, end = imported(capsys, "fake", str(path))
    assert (more[0]["accepted"], more[0]["duplicates"], more[0]["refused"], end) == (1, 2, [], 0)


def test_it_names_what_cannot_be_taken_and_keeps_the_rest(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("no")
    (tmp_path / "b.txt").write_text("one writer")
    said, end = imported(capsys, "fake", str(tmp_path / "a.txt"), str(tmp_path / "b.txt"))
    assert end == 1
    assert said[0]["refused"] == [{"where": "file 1", "field": "steps", "rule": "required"}]
    assert said[0]["accepted"] == 2
    only, _ = imported(capsys, "fake", str(tmp_path / "a.txt"))
    assert only == [
        {
            "run": None,
            "accepted": 0,
            "duplicates": 0,
            "refused": [{"where": "file 1", "field": "steps", "rule": "required"}],
            "stops": [],
            "handoffs": [],
            "topology": None,
        }
    ]


def test_the_run_may_be_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one writer")
    uid = ids.mint("run")
    said, _ = imported(capsys, "fake", str(tmp_path / "a.txt"), "--run", uid)
    assert said[0]["run"] == uid
    (tmp_path / "b.txt").write_text("two writer")
    with pytest.raises(CommandError, match="run: several_runs"):
        call_command("import", "fake", str(tmp_path / "a.txt"), str(tmp_path / "b.txt"), "--run", uid)


def test_receipts_are_taken_as_they_are_sent_and_refused_by_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    uid = ids.mint("run")

    def sent(kind: str, count: int, body: dict[str, Any]) -> str:
        return json.dumps(
            {
                "v": 1,
                "event_id": ids.mint("evt"),
                "run": uid,
                "kind": kind,
                "at": "2026-11-30T09:00:00Z",
                "actor": {"type": "recorder", "id": ids.mint("rec")},
                "writer_seq": count,
                "body": body,
            }
        )

    steps: list[dict[str, Any]] = [{"tools": [], "tokens": None}] * 2
    lines = [
        sent("run_started", 1, STARTED),
        sent("stopped", 2, {**stopped(steps=steps), "note": MARKER}),
        "{",
        sent("stopped", 3, stopped(steps=steps)),
    ]
    (tmp_path / "r.ndjson").write_text("\n".join(lines) + "\n")
    said, end = imported(capsys, "receipts", str(tmp_path / "r.ndjson"))
    by_run = {each["run"]: each for each in said}
    assert end == 1
    assert by_run[uid]["accepted"] == 2
    assert by_run[uid]["stops"][0]["state"] == "bounded_stop"
    assert [each["where"] for each in by_run[uid]["refused"]] == ["file 1:2"]
    assert by_run[None]["refused"][0]["where"] == "file 1:3"
    assert MARKER not in json.dumps(said)


def test_a_file_that_is_not_there_is_unreadable(tmp_path: Path) -> None:
    with pytest.raises(CommandError) as refused:
        call_command("import", "fake", str(tmp_path / "gone"))
    assert refused.value.returncode == 2
    assert str(tmp_path) not in str(refused.value)
